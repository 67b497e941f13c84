"""Where tilewright keeps what it keeps."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder", "cache_is_off", "default_database"]


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
