"""Where tilewright keeps what it keeps."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path

__all__ = ["cache_folder", "cache_is_off", "default_database", "write_whole"]

_numbers = itertools.count()


def cache_folder() -> Path:
    """The user's cache folder: $TILEWRIGHT_CACHE_DIR, or tilewright/ in $XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get("TILEWRIGHT_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilewright"


def cache_is_off() -> bool:
    """Whether $TILEWRIGHT_CACHE asks for leaving nothing on the disk."""
    return os.environ.get("TILEWRIGHT_CACHE", "1") in ("0", "off")


def default_database() -> Path:
    """Where tuning records go unless a path is given: $TILEWRIGHT_DATABASE, or tune.sqlite in the current folder."""
    return Path(os.environ.get("TILEWRIGHT_DATABASE") or "tune.sqlite").expanduser().absolute()


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file of the user's alone, which others see whole or not at all. Raises OSError."""
    unfinished = path.parent / f"{os.getpid()}-{threading.get_ident()}-{next(_numbers)}.part"
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
