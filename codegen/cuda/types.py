"""CUDA C types and constants."""

from __future__ import annotations

import math
import struct

from ...ir.dtype import DType

__all__ = ["bare", "constant", "storage_type", "value_type"]

_STORAGE = {
    "bool": "unsigned char", "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short",
    "int32": "int", "uint32": "unsigned int", "int64": "long long", "uint64": "unsigned long long",
    "float16": "tw_half", "bfloat16": "tw_bfloat16", "float32": "float", "float64": "double",
}


def storage_type(dtype: DType) -> str:
    """The type of an element in memory. A bool takes a byte, and any byte but 0 is true."""
    return _STORAGE[str.__str__(dtype.element)]


def value_type(dtype: DType) -> str:
    """The type that a value is computed in: 16-bit floats are floats, rounded after each operation."""
    if dtype.kind == "bool":
        return "bool"
    return "float" if dtype.is_float and dtype.bits == 16 else _STORAGE[str.__str__(dtype.element)]


def constant(value: float, dtype: DType) -> str:
    """A constant as CUDA C writes it, in the type that values of `dtype` are computed in."""
    if dtype.kind == "bool":
        return "true" if value else "false"
    if dtype.is_float:
        return _float(float(value), "" if dtype.bits == 64 else "f")
    number = int(value)
    if dtype.bits == 64:
        suffix = "LL" if dtype.kind == "int" else "ULL"
        return f"(-{-number - 1}LL - 1)" if number == dtype.least < 0 else _signed(number, suffix)
    if dtype.bits == 32:
        return "(-2147483647 - 1)" if number == dtype.least < 0 else _signed(number, "" if dtype.kind == "int" else "u")
    return f"({_STORAGE[str.__str__(dtype.element)]}){_signed(number, '')}"


def _signed(number: int, suffix: str) -> str:
    return f"({number}{suffix})" if number < 0 else f"{number}{suffix}"


def _float(value: float, suffix: str) -> str:
    if math.isnan(value):
        return "tw_nan()" if suffix else "(double)tw_nan()"
    if math.isinf(value):
        text = "tw_infinity()" if suffix else "(double)tw_infinity()"
        return text if value > 0 else f"(-{text})"
    if suffix:  # the shortest text that reads back as this float32
        value = struct.unpack("<f", struct.pack("<f", value))[0]
        text = next(text for digits in range(6, 10) if _rounds_to(text := f"{value:.{digits}g}", value))
    else:
        text = repr(value)
    if not any(mark in text for mark in ".en"):
        text += ".0"
    return f"({text}{suffix})" if math.copysign(1.0, value) < 0 else text + suffix


def _rounds_to(text: str, value: float) -> bool:
    return struct.unpack("<f", struct.pack("<f", float(text)))[0] == value


def bare(text: str) -> str:
    """A whole expression needs no parentheses around it."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and at < len(text) - 1:
            return text
    return text[1:-1]
