"""The folder of built kernels: whole entries by atomic rename, each checked when it is read, the least recently used removed
first when there are too many.

An entry is a file, HASH.kernel: MAGIC, the SHA-256 of all that follows, the sizes of three parts, the parts: the key, a JSON
text about the kernels, their object file. The key is compared in full. What cannot be read back whole is removed and built
again. Nothing here raises: a folder that is not ours alone, or cannot be written, is as good as none, and says why.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from ...base.dataclass import dataclass
from ...base.environment import is_enabled, read_integer
from ...base.untrusted_input import plain_json
from ...runtime.cache_paths import cache_folder, write_atomically
from ...runtime.critical_section import run_in_turn
from ...runtime.hosts import host
from ...runtime.private_files import read_private

__all__ = ["Entry", "Store", "Usage", "off_reason", "open_store"]

MAGIC = b"TWKERNL1"
SUFFIX = ".kernel"
DEFAULT_LIMIT_MB = 512
_MOST_MB = 1 << 30
_HEADER = struct.Struct("<8s32sQQQ")
_LARGEST = 64 << 20
"""Bytes: an entry above them is not kept."""
_STALE = 3600.0
"""Seconds after which a file that somebody began to write is taken for abandoned."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Contents of an entry. about: the signatures and what else is known of the kernels, as JSON has it."""

    about: dict[str, Any]
    code: bytes


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of the cache.

    entries: how many; size: bytes of all; problem: why nothing is kept, empty where all is well.
    """

    folder: Path
    entries: int
    size: int
    limit: int
    problem: str


class Store:
    """A folder of entries. limit: bytes. problem: why entries are not kept; empty where they are."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self.problem = ""
        self._trusted = True
        self._size: int | None = None

    def load(self, key: str) -> Entry | None:
        """The entry of a key; None where there is none, or none that is whole."""
        if not self._is_ours():
            return None
        path = self._path(key)
        try:
            content = read_private(path, _LARGEST, 0o022)  # writable by others: not trusted
            if content is None:
                return None
            entry = _decode(content, key)
            if entry is None:  # a collision, or half a file of a crash
                path.unlink()
                return None
        except OSError:
            return None
        with suppress(OSError):  # a disk that can only be read serves too
            os.utime(path)  # the time of last use, by which entries are removed
        return entry

    @run_in_turn
    def save(self, key: str, entry: Entry) -> None:
        """Keep an entry, if that can be done."""
        content = _encode(key, entry)
        if len(content) > min(_LARGEST, self.limit) or not self._is_ours(make=True):  # one entry may not fill the store
            return
        self.problem = ""  # a disk that was full may have room again
        try:
            write_atomically(self._path(key), content)
            self._make_room(len(content))
        except IsADirectoryError:
            return  # somebody's folder in the place of this entry alone
        except OSError as error:
            self.problem = f"cannot write to {self.folder}: {error.strerror}"

    def clear(self) -> int:
        """Remove every entry that can be removed; returns how many. `problem` says why one cannot."""
        if not self._is_ours():
            return 0
        removed, self._size = 0, None
        try:
            names = os.listdir(self.folder)
        except OSError as error:
            self.problem = f"cannot read {self.folder}: {error.strerror}"
            return 0
        for path in (self.folder / name for name in names if name.endswith((SUFFIX, ".part"))):
            try:
                path.unlink(missing_ok=True)
                removed += path.suffix == SUFFIX
            except OSError as error:
                self.problem = f"cannot remove {path}: {error.strerror}"
        return removed

    def usage(self) -> Usage:
        """Return what the folder holds."""
        entries = self._entries() if self._is_ours() else []
        return Usage(self.folder, len(entries), sum(size for _, size, _ in entries), self.limit, self.problem)

    def _path(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()}{SUFFIX}"

    def _is_ours(self, make: bool = False) -> bool:
        """Return whether the folder is there, belongs to this user, and no other can even read it. Code is run from it."""
        if not self._trusted:
            return False
        try:
            if make:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            state = self.folder.lstat()
        except FileNotFoundError:
            return False
        except OSError as error:
            self.problem = f"cannot use {self.folder}: {error.strerror}"
            return False
        if not stat.S_ISDIR(state.st_mode):  # a link could lead to a folder of somebody else's
            self.problem = f"{self.folder} is not a folder"
        elif not host().is_own(state):
            self.problem = f"{self.folder} belongs to another user"
        elif not host().is_private(state, 0o077):
            self.problem = f"others have access to {self.folder}: its mode is {stat.S_IMODE(state.st_mode):o}, not 700"
        else:
            return True
        self._trusted = False  # trust does not come back: the folder may be changed again
        return False

    def _make_room(self, added: int) -> None:
        """Remove the least recently used entries where there is more than the limit. What the folder holds is counted on the
        first call and when it seems full: others may write to it too."""
        self._size = None if self._size is None else self._size + added
        # counting the folder at every save would take longer than saving
        if self._size is not None and self._size <= self.limit:
            return
        entries = sorted(self._entries())
        self._size = sum(size for _, size, _ in entries)
        if self._size <= self.limit:
            return
        for _, size, path in entries:
            if self._size <= self.limit * 9 // 10:  # a tenth is freed at once, so that the next saves need not remove
                break
            with suppress(OSError):  # it may be another process's, and in use
                path.unlink(missing_ok=True)
                self._size -= size

    def _entries(self) -> list[tuple[float, int, Path]]:
        """(last use, size, file) of every entry. What a process left unfinished when it was killed is removed."""
        entries: list[tuple[float, int, Path]] = []
        with suppress(OSError), os.scandir(self.folder) as listing:
            for item in listing:
                with suppress(OSError):  # another process removed it meanwhile
                    state = item.stat(follow_symlinks=False)
                    if not stat.S_ISREG(state.st_mode):
                        continue
                    if item.name.endswith(SUFFIX):
                        entries.append((state.st_mtime, state.st_size, Path(item.path)))
                    elif item.name.endswith(".part") and _read_clock() - state.st_mtime > _STALE:
                        Path(item.path).unlink(missing_ok=True)
        return entries


def _read_clock() -> float:
    import time

    return time.time()


def _encode(key: str, entry: Entry) -> bytes:
    parts = (key.encode(), json.dumps(entry.about).encode(), entry.code)
    sizes = struct.pack("<QQQ", *map(len, parts))
    body = b"".join(parts)
    return MAGIC + hashlib.sha256(sizes + body).digest() + sizes + body


def _decode(content: bytes, key: str) -> Entry | None:
    """The entry, where the content is one, whole, and of this key."""
    if len(content) < _HEADER.size:
        return None
    magic, digest, *sizes = _HEADER.unpack_from(content)
    # the digest is of everything behind it
    if magic != MAGIC or _HEADER.size + sum(sizes) != len(content) or hashlib.sha256(content[40:]).digest() != digest:
        return None
    key_end = _HEADER.size + sizes[0]
    about_end = key_end + sizes[1]
    if content[_HEADER.size : key_end] != key.encode():  # the key in full: hashes name files only
        return None
    try:
        about = plain_json(content[key_end:about_end], _LARGEST)
    except ValueError:
        return None
    return Entry(cast("dict[str, Any]", about), content[about_end:]) if isinstance(about, dict) else None


_stores: dict[tuple[Path, int], Store] = {}


def off_reason() -> str:
    """Return the reason for which nothing is kept where there is no store."""
    return "there is no home folder" if is_enabled("TILEWRIGHT_CACHE", True) else "TILEWRIGHT_CACHE=0"


def open_store() -> Store | None:
    """The user's store; None where TILEWRIGHT_CACHE=0 turns it off, and for a user without a home. TILEWRIGHT_CACHE_MB is its size in
    megabytes. Raises BadVariable (TW0446)."""
    folder = cache_folder()
    if folder is None:
        return None
    key = folder / "kernels", read_integer("TILEWRIGHT_CACHE_MB", DEFAULT_LIMIT_MB, _MOST_MB) << 20
    store = _stores.get(key)
    return store or _stores.setdefault(key, Store(*key))
