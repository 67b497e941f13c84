"""C11 types and constants."""

from __future__ import annotations

from ...ir.dtype import DType
from ..clike import types as clike

__all__ = ["constant", "quote_string", "storage_type", "suffix", "value_type"]


def storage_type(dtype: DType) -> str:
    """The type of an element in memory. A bool takes a byte, and any byte but 0 is true; floats of 8 and 16 bits are their bits."""
    if dtype.kind == "int":
        return f"int{dtype.bits}_t"
    return {1: "uint8_t", 32: "float", 64: "double"}.get(0 if dtype.is_integer else dtype.bits) or f"uint{dtype.bits}_t"


def value_type(dtype: DType) -> str:
    """The type that a value is computed in: 16-bit floats are floats, rounded after each operation; those of 8 bits are only moved."""
    if dtype.kind == "handle":
        return "void *"
    if dtype.kind == "bool":
        return "bool"
    return "float" if dtype.is_float and dtype.bits == 16 else storage_type(dtype)


def suffix(dtype: DType) -> str:
    """Return the suffix in the name of a function that is written for several types: that which values are computed in."""
    return value_type(dtype).removesuffix("_t")


def constant(value: float, dtype: DType) -> str:
    """A constant, in the type that values of `dtype` are computed in."""
    if dtype.is_integer and dtype.bits < 32:  # C's literals are ints, which hold these
        return str(int(value)) if value >= 0 else f"({int(value)})"
    return clike.constant(value, dtype)


def quote_string(text: str) -> str:
    """A C string, in octal escapes where a character is special."""
    # octal: hexadecimal escapes have no greatest length, and ? begins trigraphs
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode()) + '"'
