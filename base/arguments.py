"""Classification of arguments: one thing or several, an array or not."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeGuard, cast

import numpy as np

__all__ = ["to_items", "to_list", "to_path", "to_tuple", "is_a", "is_array", "is_number", "is_sequence"]

_LONGEST_NAME, _LONGEST_PATH = 255, 4095
"""Of a file, in bytes: Linux's NAME_MAX, and PATH_MAX without the zero at its end."""


def is_sequence(given: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Return whether it is a list or a tuple."""
    return isinstance(given, (list, tuple))


def to_list(given: object) -> list[Any]:
    """The elements of a list or a tuple, or the one thing that was given, in a new list."""
    return list(given) if is_sequence(given) else [given]


def to_items(given: object) -> list[Any]:
    """The elements of whatever can be gone through, but for texts and arrays, or the one thing that was given, in a new list."""
    if isinstance(given, str) or is_array(given) or not isinstance(given, Iterable):
        return [given]
    return list(cast("Iterable[Any]", given))


def to_tuple(given: object) -> tuple[Any, ...]:
    """The tuple that was given, or the one thing in a tuple: what stands between brackets, as in `A[i, j]` and `A[i]`."""
    return cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)


def is_array(given: object) -> TypeGuard[np.ndarray[Any, Any]]:
    """Return whether it is an array of numpy's."""
    return isinstance(given, np.ndarray)


def is_number(given: object) -> TypeGuard[np.generic[Any]]:
    """Return whether it is a scalar of numpy's."""
    return isinstance(given, np.generic)


def to_path(given: object) -> Path | None:
    """The path that was given; None where no file of this system can have it, by its kind, its letters or its length."""
    if not isinstance(given, (str, os.PathLike)):
        return None
    try:
        path = Path(cast("str | os.PathLike[str]", given))
        encoded = os.fsencode(path)
        longest = max(map(len, encoded.split(b"/")))
        return None if b"\0" in encoded or longest > _LONGEST_NAME or len(encoded) > _LONGEST_PATH else path
    except (TypeError, ValueError):
        return None


def is_a(given: object, kind: type | tuple[type, ...]) -> bool:
    """Return whether it is what its annotation says; an untyped program may pass anything."""
    return isinstance(given, kind)
