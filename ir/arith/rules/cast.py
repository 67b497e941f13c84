"""Casts of casts."""

from __future__ import annotations

from ...dtype import DType

__all__ = ["cast_of_cast"]


def cast_of_cast(source: DType, middle: DType, target: DType) -> bool:
    """Return whether casting by way of `middle` gives what casting straight to `target` gives.

    Integers: where `middle` keeps every value of `source`, or where only low bits count from there on (both steps wrap,
    and `middle` is no narrower than `target`). Floats: where `middle` is wider and has every value of `source`. A bool
    is 0 or 1 whatever it becomes.
    """
    if source.kind == "handle" or middle.kind == "handle" or target.kind == "handle" or middle.is_bool:
        return False
    if source.is_bool:
        return True
    if source.is_integer and middle.is_integer:
        if middle.least <= source.least and source.greatest <= middle.greatest:
            return True
        return target.is_integer and target.bits <= middle.bits
    if source.is_float and middle.is_float:
        return middle.bits > source.bits
    return False
