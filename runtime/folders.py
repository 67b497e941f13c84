"""Temporary folders that go when they are left, and not when a forked child ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["new_folder", "sweep", "temporary_folder"]


@contextmanager
def temporary_folder(purpose: str = "work", within: Path | None = None) -> Generator[str]:
    """A new folder's path; the folder goes with the `with`, whatever ends it, and in no other process."""
    folder, process = new_folder(purpose, within), os.getpid()
    try:
        yield str(folder)
    finally:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)


def new_folder(purpose: str, within: Path | None = None) -> Path:
    """A folder of this user's alone, whose name says which process made it: tilewright-PURPOSE-SPACE-PROCESS-..."""
    return Path(tempfile.mkdtemp(prefix=f"tilewright-{purpose}-{_space()}-{os.getpid()}-", dir=within))


def sweep(purpose: str, within: Path | None = None) -> None:
    """Remove this user's folders of a purpose whose process has ended without removing them. Those of other numberings of processes
    (of containers that share the place) are left alone: nobody here can say whether theirs are alive."""
    head = f"tilewright-{purpose}-{_space()}-"
    with suppress(OSError), os.scandir(within or tempfile.gettempdir()) as listing:
        for item in listing:
            process = item.name.removeprefix(head).partition("-")[0]
            if item.name.startswith(head) and process.isdecimal() and not _is_alive(int(process)):
                with suppress(OSError):
                    if item.is_dir(follow_symlinks=False) and item.stat(follow_symlinks=False).st_uid == os.geteuid():
                        shutil.rmtree(item.path, ignore_errors=True)


def _space() -> str:
    """Return which numbering of processes this one belongs to; 0 where the system has one alone."""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "0"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
