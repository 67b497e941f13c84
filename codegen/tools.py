"""Programs of the system that compile and link: which ones, run to their end, and what they wrote."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.errors import is_interruption, user_source
from ..runtime.folders import temporary_folder
from ..runtime.hosts import host
from .errors import NoCompiler, ToolFailed

if TYPE_CHECKING:
    import subprocess

__all__ = ["chosen_tool", "reported_room", "run_tool", "tool_failed", "tool_result", "working_folder"]

LONGEST = 600.0
"""Seconds after which a program is taken to hang."""


def chosen_tool(variable: str, names: Sequence[str]) -> list[str] | None:
    """The program that a variable of the environment names, with its options; else the first of these names that is on the path; None
    where there is none. Raises NoCompiler (TW0430) for a variable that names no program."""
    given = os.environ.get(variable, "").strip()
    if not given:
        path = next(filter(None, map(shutil.which, names)), None)
        return [path] if path else None
    try:
        words = shlex.split(given)
    except ValueError:  # a quotation without an end
        words = []
    if not words or not shutil.which(words[0]):
        raise NoCompiler(
            f"{variable}={given!r} of the environment names no program",
            called=user_source(),
            reason=f"{(words or [given])[0]!r} is not on the path",
            fix=f"unset {variable}, or set it to a compiler",
        )
    return words


def run_tool(
    command: Sequence[str], folder: str | os.PathLike[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program, and return its output and exit status. Raises ToolFailed (TW0447) for one that cannot be started, or does not end."""
    import subprocess  # late: it takes longer than any module of ours

    try:
        with subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # so that what it has started ends with it
        ) as process:
            try:
                out, err = process.communicate(timeout=LONGEST)
            except BaseException:
                with suppress(OSError):
                    host().end_process(process)
                raise
    except subprocess.TimeoutExpired:
        raise tool_failed(command[0], f"it is still running after {LONGEST:g} seconds") from None
    except OSError as error:
        raise tool_failed(command[0], f"it cannot be started: {error.strerror or error}") from error
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def tool_result(place: Path, tool: str, begins: bytes = b"") -> bytes:
    """The content of the file that a program was to write. Raises ToolFailed (TW0447) where there is none, or another kind of file."""
    try:
        content = place.read_bytes()
    except FileNotFoundError:
        raise tool_failed(tool, "it exited with status 0 and wrote no output") from None
    if not content or not content.startswith(begins):
        raise tool_failed(tool, f"its output has the wrong format: it begins with {content[:16]!r}")
    return content


@contextmanager
def working_folder(purpose: str = "work") -> Generator[str]:
    """A temporary folder within. Raises ToolFailed (TW0447) where the system has none, no room or no descriptors."""
    with reported_room(), temporary_folder(purpose) as folder:
        yield folder


@contextmanager
def reported_room() -> Generator[None]:
    """Turn what the system refuses of files in temporary folders into a ToolFailed (TW0447)."""
    try:
        yield
    except OSError as error:
        if is_interruption(error):
            raise
        raise ToolFailed(
            "cannot compile in the folder for temporary files",
            called=user_source(),
            reason=f"{error.filename or 'the system'}: {error.strerror or error}",
            fix="check that $TMPDIR is a folder with room, and that the process may open files",
        ) from error


def tool_failed(tool: str, reason: str) -> ToolFailed:
    """The error for a program that is of no use."""
    return ToolFailed(
        f"{Path(tool).name} cannot be used to compile",
        called=user_source(),
        reason=f"{tool}: {reason}",
        fix="set CC (CXX for C++) to a compiler that works, or unset it",
    )
