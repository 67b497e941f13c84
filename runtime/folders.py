"""Temporary folders that go when they are left, and not when a forked child ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from .hosts import host

__all__ = ["new_folder", "sweep", "temporary_folder"]


@contextmanager
def temporary_folder(purpose: str = "work", within: Path | None = None) -> Generator[str]:
    """A new folder's path; the folder goes with the `with`, whatever ends it, and in no other process."""
    folder, process = new_folder(purpose, within), os.getpid()
    try:
        yield str(folder)
    finally:
        if os.getpid() == process:  # a forked child leaves its parent's folder alone
            shutil.rmtree(folder, ignore_errors=True)


def new_folder(purpose: str, within: Path | None = None) -> Path:
    """A folder of this user's alone, whose name says which process made it: tilewright-PURPOSE-SPACE-PROCESS-..."""
    return Path(tempfile.mkdtemp(prefix=f"tilewright-{purpose}-{host().process_space()}-{os.getpid()}-", dir=within))


def sweep(purpose: str, within: Path | None = None) -> None:
    """Remove this user's folders of a purpose whose process has ended without removing them. Those of other numberings of processes
    (of containers that share the place) are left alone: nobody here can say whether theirs are alive."""
    head = f"tilewright-{purpose}-{host().process_space()}-"
    with suppress(OSError), os.scandir(within or tempfile.gettempdir()) as listing:
        for item in listing:
            process = item.name.removeprefix(head).partition("-")[0]
            # of another numbering of processes nothing is known
            if item.name.startswith(head) and process.isdecimal() and not host().is_alive(int(process)):
                with suppress(OSError):
                    # a link, or somebody else's folder of this name, is not ours to remove
                    if item.is_dir(follow_symlinks=False) and host().is_own(item.stat(follow_symlinks=False)):
                        shutil.rmtree(item.path, ignore_errors=True)
