"""Files that are this user's alone: made new, and read only where nobody else could have written them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from .hosts import host

__all__ = ["create_private", "read_private"]


def _flags(*names: str) -> int:
    """Flags of os.open by their names, as far as the system has them."""
    flags = 0
    for name in names:
        flags |= getattr(os, name, 0)
    return flags


_NEW = _flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_CLOEXEC", "O_BINARY")
_THERE = _flags("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
"""A pipe does not wait."""


def create_private(path: str | os.PathLike[str], mode: int = 0o600) -> BinaryIO:
    """A new file, open for writing. Raises OSError, FileExistsError for one that is there, whatever it is."""
    return os.fdopen(os.open(path, _NEW, mode), "wb")


def read_private(path: Path, most: int, others: int) -> bytes | None:
    """The content of a plain file of this user's, of at most so many bytes, to which nobody else has the rights `others`; None for any
    other. Raises OSError."""
    with os.fdopen(os.open(path, _THERE), "rb") as file:
        state = os.fstat(file.fileno())
        own = stat.S_ISREG(state.st_mode) and host().is_private(state, others)
        return file.read() if own and state.st_size <= most else None
