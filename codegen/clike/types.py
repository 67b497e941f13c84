"""Constants, and the text of values, in C and what grew from it."""

from __future__ import annotations

import math
import struct

from ...ir.dtype import DType
from ...ir.rounding import FLOAT8, float8_byte

__all__ = ["bare", "constant", "write_signed"]


def constant(value: float, dtype: DType) -> str:
    """A constant in the type that values of `dtype` are computed in: a bool, a float, or an integer of 32 or 64 bits."""
    if dtype.kind == "bool":
        return "true" if value else "false"
    if dtype.kind in FLOAT8:
        return str(float8_byte(value, dtype))
    if dtype.is_float:
        return _float(float(value), "" if dtype.bits == 64 else "f")  # an f keeps arithmetic from being done in double
    number = int(value)
    if dtype.bits == 64:
        suffix = "LL" if dtype.kind == "int" else "ULL"
        # C has no negative literals: the least number's size alone exceeds the type
        return f"(-{-number - 1}LL - 1)" if number == dtype.least < 0 else write_signed(number, suffix)
    return (
        "(-2147483647 - 1)" if number == dtype.least < 0 else write_signed(number, "" if dtype.kind == "int" else "u")
    )


def write_signed(number: int, suffix: str) -> str:
    """An integer, in parentheses where it has a sign."""
    return f"({number}{suffix})" if number < 0 else f"{number}{suffix}"


def _float(value: float, suffix: str) -> str:
    if math.isnan(value):
        return "tw_nan()" if suffix else "(double)tw_nan()"  # by bits, as macros of math.h are missing in some dialects
    if math.isinf(value):
        text = "tw_infinity()" if suffix else "(double)tw_infinity()"
        return text if value > 0 else f"(-{text})"
    if suffix:  # the shortest text that reads back as this float32
        value = struct.unpack("<f", struct.pack("<f", value))[0]
        text = next(text for digits in range(6, 10) if _has_rounding(text := f"{value:.{digits}g}", value))
    else:
        text = repr(value)
    if not any(mark in text for mark in ".en"):  # without a mark it would be an integer
        text += ".0"
    # -0.0 has a sign that comparisons do not see
    return f"({text}{suffix})" if math.copysign(1.0, value) < 0 else text + suffix


def _has_rounding(text: str, value: float) -> bool:
    return struct.unpack("<f", struct.pack("<f", float(text)))[0] == value


def bare(text: str) -> str:
    """A whole expression needs no parentheses around it."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and at < len(text) - 1:  # closed before the end: the outer ones do not belong together
            return text
    return text[1:-1]
