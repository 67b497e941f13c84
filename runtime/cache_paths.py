"""Paths of the cache: kernels, calibration, keys of marks; files that are written whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..base.environment import bad_variable, is_enabled
from .hosts import host
from .private_files import create_private

__all__ = ["cache_folder", "default_database", "write_atomically"]


def cache_folder() -> Path | None:
    """The user's cache folder: $TILEWRIGHT_CACHE_DIR, or tilewright/ in $XDG_CACHE_HOME or
    the system's own place (~/.cache, ~/Library/Caches, %LOCALAPPDATA%). None where $TILEWRIGHT_CACHE asks
    for leaving nothing on the disk, and for a user who has no home. Nobody has looked whether it is there, or can be used."""
    if not is_enabled("TILEWRIGHT_CACHE", True):
        return None
    chosen, shared = os.environ.get("TILEWRIGHT_CACHE_DIR"), Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        if chosen:
            return Path(chosen).expanduser()
        if shared.is_absolute():  # others are to be ignored (XDG Base Directory Specification)
            return shared / "tilewright"
    except RuntimeError:
        return None
    home = host().cache_home()
    return home and home / "tilewright"


def default_database() -> Path:
    """Return where tuning records go unless a path is given: $TILEWRIGHT_DATABASE, or tune.sqlite in the current folder."""
    chosen = os.environ.get("TILEWRIGHT_DATABASE") or "tune.sqlite"
    try:
        return Path(chosen).expanduser().absolute()
    except RuntimeError as problem:  # the home of nobody that is known
        raise bad_variable("TILEWRIGHT_DATABASE", str(problem)) from problem


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file of the user's alone, which others see whole or not at all. Raises OSError."""
    # a name of its own: two processes may write the same file
    unfinished = path.parent / f"{os.urandom(12).hex()}.part"
    try:
        with create_private(unfinished) as file:
            file.write(content)
        unfinished.replace(path)
    except BaseException:  # whatever interrupts, no part stays behind
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
