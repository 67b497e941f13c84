"""Text and files that came from somewhere: how text is shown, how JSON is read from it, and how files are opened."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from os import PathLike
from typing import Any, BinaryIO, cast

__all__ = ["open_regular", "plain_json", "printable", "read_regular"]

_UNSEEN = "\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
"""What moves a cursor, rings, colours or reorders instead of being seen, and halves of characters, which no file can hold."""
_ONE_LINE = re.compile(f"[{_UNSEEN}]")
_LINES = re.compile(f"(?![\n\t])[{_UNSEEN}]")


def printable(text: str, lines: bool = False) -> str:
    """A text as a terminal may show it: control characters are written as their escapes (`\\x1b`). lines: line breaks and tabs
    stay, for a text of ours with foreign parts; else the text is a name, or one line of something."""
    return (_LINES if lines else _ONE_LINE).sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


_ESCAPES = re.compile(r"\\.", re.DOTALL)
_STRINGS = re.compile(r'"[^"]*"')
_BRACKETS = re.compile(r"[\[\]{}]")
_MAYBE_LARGE = re.compile(r"\d[eE]|\d{20}")
"""What a number that is too large has in it."""


def plain_json(text: str | bytes, most_bytes: int, most_depth: int = 64) -> Any:
    """Return what a JSON text holds: numbers are finite, and texts are what UTF-8 can hold.

    Its size and depth are looked at before it is parsed. Raises ValueError, and nothing else.
    """
    if len(text) > most_bytes:
        raise ValueError(f"it is longer than {most_bytes} bytes")
    whole = text.decode() if isinstance(text, bytes) else text
    if is_deeper(whole, most_depth):
        raise ValueError(f"it is nested deeper than {most_depth} levels")
    if _MAYBE_LARGE.search(whole):
        value = json.loads(whole, parse_constant=_no_number, parse_float=_finite, parse_int=_read_integer)
    else:
        value = json.loads(whole, parse_constant=_no_number)
    if not whole.isascii() or "\\u" in whole:
        json.dumps(value, ensure_ascii=False).encode()  # halves of characters: UnicodeEncodeError is a ValueError
    return value


def is_deeper(text: str, most: int) -> bool:
    """Return whether the brackets of a JSON text nest deeper than `most`. In one pass, without recursion."""
    if text.count("[") + text.count("{") <= most:
        return False
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", _ESCAPES.sub("", text))):
        depth += 1 if bracket in "[{" else -1
        if depth > most:
            return True
    return False


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is too large for a number")
    return number


def _read_integer(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"{digits[:20]}... is too large for an integer")
    return int(digits)


def open_regular(path: str | PathLike[str], most_bytes: int | None = None) -> BinaryIO:
    """Open a file of bytes for reading, if it is a regular one of at most so many bytes.

    A pipe would wait for ever and a device has no end, so neither is read; the size is looked at before anything is. Raises
    OSError, and ValueError for a path that no file can have, and for what is none.
    """
    if not isinstance(cast("object", path), (str, os.PathLike)):
        raise ValueError(f"it is not a path, but a {type(path).__name__}")
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError("it is not a regular file")
        if most_bytes is not None and state.st_size > most_bytes:
            raise OSError(f"it has {state.st_size} bytes, more than {most_bytes}")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | PathLike[str], most_bytes: int) -> bytes:
    """Return the bytes of a regular file of at most so many bytes. Raises what open_regular raises, and OSError for a file that
    grows meanwhile."""
    with open_regular(path, most_bytes) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(f"it has more than {most_bytes} bytes")
    return content
