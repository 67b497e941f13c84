"""Variables of the environment that are ours: each is what it may be, or an error that names it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .errors import BadVariable, user_source

__all__ = ["bad_variable", "dump_folder", "dumps", "is_enabled", "read_choice", "read_integer"]

_YES, _NO = ("1", "on", "yes", "true"), ("0", "off", "no", "false")


def is_enabled(name: str, otherwise: bool = False) -> bool:
    """Return whether a switch is on. otherwise: where it is not set, or empty. Raises BadVariable (TW0446)."""
    text = _text(name).lower()
    if text and text not in (*_YES, *_NO):
        raise bad_variable(name, "it is a switch", f"1 or 0 ({', '.join((*_YES[1:], *_NO[1:]))} too)")
    return text in _YES if text else otherwise


def read_integer(name: str, otherwise: int, most: int) -> int:
    """A number from 0 to `most`. otherwise: where it is not set, or empty. Raises BadVariable (TW0446)."""
    text = _text(name)
    if not text:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) <= most):
        raise bad_variable(name, "it is a number", f"0 to {most}")
    return int(text)


def read_choice(name: str, *words: str) -> str:
    """One of these words, or "" where it is not set. Raises BadVariable (TW0446)."""
    text = _text(name)
    if text and text not in words:
        raise bad_variable(name, "it is a word", ", ".join(words))
    return text


def dump_folder() -> Path | None:
    """The folder to which TILEWRIGHT_DUMP asks for writing what passes make; None where it does not."""
    chosen = _text("TILEWRIGHT_DUMP")
    return Path(chosen) if chosen else None


@contextmanager
def dumps() -> Generator[None]:
    """Turn what the system refuses of writes to that folder into a BadVariable (TW0446)."""
    try:
        yield
    except OSError as error:
        reason = f"{error.filename or 'its file'}: {error.strerror or error}"
        raise bad_variable("TILEWRIGHT_DUMP", reason, "a folder that can be written") from error


def bad_variable(name: str, reason: str, allowed: str = "") -> BadVariable:
    """The error for a variable that is set to what it cannot be."""
    return BadVariable(
        f"cannot read {name}={os.environ.get(name, '')!r} of the environment",
        reason=reason,
        allowed=allowed,
        called=user_source(),
        fix=f"unset {name}",
    )


def _text(name: str) -> str:
    return os.environ.get(name, "").strip()
