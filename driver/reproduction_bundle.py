"""Reproduction bundles: folders that hold what an internal error needs to be repeated elsewhere."""

from __future__ import annotations

import linecache
import platform
import re
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..base.errors import (
    FAULTS,
    InternalError,
    TilewrightError,
    internal_error,
    is_interruption,
    resource_error,
    user_source,
)

__all__ = ["bundling", "versions"]

_WRITTEN: dict[str, str] = {}
"""The folder of every fault of this process, by the line of ours that raised it: a tuner may meet one a thousand times."""

_README = """\
tilewright met a fault of its own. This folder holds what is needed to repeat it: please send it with the report.

error.txt        the traceback
program.py       the file that called tilewright
schedule.py      the schedule as code, and records.json as records
before_*.ir      the program before the pass that failed, if it was a pass; tilewright.ir.parse reads it
module.ll        what LLVM refused, if it was LLVM
versions.txt     of Python, numpy, llvmlite and tilewright; the machine
"""


@contextmanager
def bundling(program: Callable[[], Mapping[str, str]]) -> Generator[None]:
    """Faults of ours within become an InternalError that names a folder: the traceback, the user's file, what `program`
    tells ({file name: text}), what the error itself knows, and versions. Errors of users, what the system raises (memory, files) and
    what a signal handler does pass; that it has no more of something is OutOfResources (TW0448)."""
    try:
        yield
    except TilewrightError:
        raise  # a user's error is no fault of ours
    except OSError as error:
        spent = resource_error(error, "cannot build")
        if spent is None:
            raise
        raise spent from error
    except FAULTS as error:
        if is_interruption(error):  # Ctrl-C passes as it is
            raise
        fault = internal_error(error, "a fault of tilewright's own")
        if not fault.bundle:
            fault.bundle = _bundle(error, fault, program)
            fault.args = (f"{fault}\n  to repeat it: {fault.bundle}",)
        if fault is error:
            raise
        raise fault from error


def _bundle(error: BaseException, fault: InternalError, program: Callable[[], Mapping[str, str]]) -> str:
    """The folder, or why there is none."""
    import traceback  # which a build without faults need not wait for

    frames = traceback.extract_tb(error.__traceback__)
    place = f"{type(error).__name__} {frames[-1].filename}:{frames[-1].lineno}" if frames else str(error)
    if place not in _WRITTEN:  # one folder for each fault: a tuner may meet it a thousand times
        texts = {
            "README.txt": _README,
            "error.txt": "".join(traceback.format_exception(error)),
            "program.py": _users_program(),
            "versions.txt": versions(),
            **program(),
            **fault.evidence,
        }
        try:
            folder = Path(tempfile.mkdtemp(prefix="tilewright-fault-"))
            for name, text in texts.items():
                if text:
                    # names come from kernels, which may have any characters
                    (folder / re.sub(r"[^\w.-]", "_", name)).write_text(text)
        except OSError as failure:
            return f"no folder could be written ({failure})"
        _WRITTEN[place] = str(folder)
    return _WRITTEN[place]


def _users_program() -> str:
    source = user_source()
    return "".join(linecache.getlines(source.file)) if source is not None else ""


def versions() -> str:
    """Versions of what takes part, one a line, and the machine."""
    from importlib.metadata import PackageNotFoundError, version  # which loads all of email

    lines = [f"python {platform.python_version()}"]
    for package in ("tilewright", "numpy", "llvmlite", "ml_dtypes"):
        try:
            lines.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            lines.append(f"{package} (not installed as a package)")
    return "\n".join([*lines, f"{platform.machine()} {platform.system()} {platform.release()}"]) + "\n"
