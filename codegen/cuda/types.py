"""CUDA C types and constants."""

from __future__ import annotations

from ...ir.dtype import DType
from ...ir.rounding import FLOAT8
from ..clike import types as clike

__all__ = ["FLOAT8_OPERANDS", "MAP", "constant", "storage_type", "value_type"]

MAP = "tw_tensor_map"
"""The type of a parameter that says how boxes of a tensor lie."""

_STORAGE = {
    "bool": "unsigned char",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float8_e4m3fn": "tw_float8_e4m3fn",
    "float8_e5m2": "tw_float8_e5m2",
    "float16": "tw_half",
    "bfloat16": "tw_bfloat16",
    "float32": "float",
    "float64": "double",
}


FLOAT8_OPERANDS = {kind: f"e{7 - row.fraction}m{row.fraction}" for kind, row in FLOAT8.items()}
"""The names of floats of 8 bits in PTX's instructions, by the kind of a dtype."""


def storage_type(dtype: DType) -> str:
    """The type of an element in memory. A bool takes a byte, and any byte but 0 is true."""
    return _STORAGE[str.__str__(dtype.element)]


def value_type(dtype: DType) -> str:
    """The type that a value is computed in: 16-bit floats are floats, rounded after each operation; those of 8 bits are only moved."""
    if dtype.kind == "bool":
        return "bool"
    return "float" if dtype.is_float and dtype.bits == 16 else _STORAGE[str.__str__(dtype.element)]


def constant(value: float, dtype: DType) -> str:
    """A constant as CUDA C writes it, in the type that values of `dtype` are computed in."""
    if dtype.kind in FLOAT8:
        return f"{_STORAGE[str.__str__(dtype.element)]}{{{clike.constant(value, dtype)}}}"
    if dtype.is_integer and dtype.bits < 32:
        return f"({_STORAGE[str.__str__(dtype.element)]}){clike.write_signed(int(value), '')}"
    return clike.constant(value, dtype)
