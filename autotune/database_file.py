"""Opening of a database's file: to be written where that is possible, and else to be read.

SQLite writes beside a file that it reads, if that was left in WAL mode, and so refuses one in a folder that cannot be written. Such
a file is read as one that nobody changes. What a process that ended early left beside it (FILE-wal, FILE-journal) belongs to it: then
a copy is read, in memory, and so is a file of an earlier layout.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from ..runtime.folders import temporary_folder

__all__ = ["connect", "copy_to_ram", "read_only"]

_BUSY_SECONDS = 30.0
_LONGEST_TEXT = 64 << 20
"""Bytes: longer values are taken for damage."""
_LEFT_BESIDE = ("-wal", "-journal")


def connect(path: Path | str, uri: bool = False) -> sqlite3.Connection:
    """A connection whose transactions are the caller's. Raises sqlite3.Error."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, uri=uri)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
    connection.text_factory = _text
    return connection


def read_only(path: Path) -> sqlite3.Connection:
    """A connection to a file that this process cannot write, or whose folder it cannot. Raises sqlite3.Error and OSError."""
    left = [beside for suffix in _LEFT_BESIDE if _size(beside := path.with_name(path.name + suffix))]
    if not left:
        return connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    with temporary_folder("database") as folder:
        for each in (path, *left):
            shutil.copyfile(each, Path(folder) / each.name)
        copy = connect(Path(folder) / path.name)
        try:
            return copy_to_ram(copy)
        finally:
            copy.close()


def copy_to_ram(source: sqlite3.Connection) -> sqlite3.Connection:
    """A copy of a whole database in memory. Raises sqlite3.Error."""
    memory = connect(":memory:")
    try:
        source.backup(memory)
    except BaseException:
        memory.close()
        raise
    return memory


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _text(data: bytes) -> str:
    """A text of a database, which may hold any bytes."""
    return data.decode(errors="replace")
