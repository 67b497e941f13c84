"""The marks of trials that this machine has measured and checked, which nobody else can make.

A mark is a keyed hash of a trial's whole key and its records. The key of the hash is a file of the user's cache folder, so that
a mark in a database or in a line from elsewhere, or beside records that were changed, says nothing here.
"""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path

from ..runtime.cache_paths import cache_folder
from ..runtime.private_files import create_private, read_private
from .task import Key

__all__ = ["is_own_mark", "make_mark", "secret_name"]

_SIZE = 32


def make_mark(key: Key, records: str) -> str:
    """The mark of records that were checked for this key. The key's space does not count: what records compute, and how fast, is the
    same whoever proposed them."""
    parts = (key.workload, key.target, key.machine, key.versions, records)
    message = "".join(f"{len(part)} {part}" for part in parts)
    return hmac.new(_own_secret(), message.encode(errors="surrogatepass"), "sha256").hexdigest()


def is_own_mark(mark: str, key: Key, records: str) -> bool:
    """Return whether this machine made a mark for these records of this key."""
    return bool(mark) and hmac.compare_digest(mark.encode(errors="surrogatepass"), make_mark(key, records).encode())


def secret_name() -> str:
    """A name for the secret that marks are made with here, which says nothing of it: databases find own trials by it."""
    return hmac.new(_own_secret(), b"name", "sha256").hexdigest()[:16]


def _own_secret() -> bytes:
    return _secret(cache_folder())


@cache
def _secret(folder: Path | None) -> bytes:
    """The secret of a folder, made where there is none; one for this process alone where it cannot be kept."""
    fresh = secrets.token_bytes(_SIZE)
    if folder is None:
        return fresh
    path = folder / "marks.key"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"marks-{secrets.token_hex(8)}.part"
        if not path.exists():
            try:
                with create_private(unfinished) as file:
                    file.write(fresh)
                with suppress(FileExistsError):  # another process was first
                    os.link(unfinished, path)
            finally:
                unfinished.unlink(missing_ok=True)
        kept = read_private(path, _SIZE, 0o077)
        return kept if kept is not None and len(kept) == _SIZE else fresh
    return fresh
