"""Data types: strings that know what they are.

`DType("float32")` is the string "float32", so users compare and print it as they always did; it also carries its kind,
width and lanes. Vectors append their lanes: "float32x16".
"""

from __future__ import annotations

import re
from typing import Literal, cast

from ..base.errors import user_source
from .errors import UnknownDType

__all__ = [
    "BFLOAT16",
    "BOOL",
    "FLOAT16",
    "FLOAT32",
    "FLOAT64",
    "HANDLE",
    "INT32",
    "INT64",
    "SCALAR_TYPES",
    "DType",
    "DTypeKind",
    "UINT8",
]

DTypeKind = Literal["bool", "int", "uint", "float", "bfloat", "float8_e4m3fn", "float8_e5m2", "handle"]

SCALAR_TYPES = (
    "bool",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)
"""What users may declare. `handle` (a pointer) occurs in calls to external code alone."""

_PATTERN = re.compile(
    r"(bool|bfloat16|handle|float8_e4m3fn|float8_e5m2|(?:int|uint)(?:4|8|16|32|64)|float(?:16|32|64))(?:x([1-9][0-9]*))?"
)
_INTERNED: dict[str, DType] = {}
_KINDS = {"bfloat16": "bfloat", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
_BITS = {"bool": 1, "handle": 64, "float8_e4m3fn": 8, "float8_e5m2": 8}


class DType(str):
    """A scalar or vector type. Equal types are one object."""

    __slots__ = ("bits", "element", "greatest", "is_bool", "is_float", "is_integer", "kind", "lanes", "least")
    kind: DTypeKind
    bits: int
    lanes: int
    element: DType
    """The type of one lane (itself for a scalar)."""
    is_float: bool
    is_integer: bool
    """int or uint; bool is neither."""
    is_bool: bool
    least: int
    """The least value of an integer type (0 for bool)."""
    greatest: int
    """The greatest value of an integer type (1 for bool)."""

    def __new__(cls, name: object) -> DType:
        if isinstance(name, DType):
            return name
        text = _spelling(name)
        interned = _INTERNED.get(text)
        return interned if interned is not None else _parse(text)

    @property
    def bytes(self) -> int:
        """Storage of one whole value in bytes: a bool takes one byte a lane, and so does an integer of 4 bits that is held by itself."""
        return (self.bits + 7) // 8 * self.lanes

    @property
    def is_signed(self) -> bool:
        return self.is_float or self.kind == "int"

    def with_lanes(self, lanes: int) -> DType:
        """The same element type over `lanes` lanes."""
        if lanes == self.lanes:
            return self
        if lanes == 1:
            return self.element
        name = f"{str.__str__(self.element)}x{lanes}"
        return _INTERNED.get(name) or _parse(name)

    def __reduce__(self) -> tuple[object, ...]:
        return (DType, (str.__str__(self),))


def _spelling(name: object) -> str:
    """numpy dtypes, their scalar types and Python's int, float and bool, as our names."""
    if isinstance(name, str):
        return {
            "float": "float32",
            "int": "int32",
            "uint": "uint32",
            "bool_": "bool",
            "uint1": "bool",
            "half": "float16",
            "double": "float64",
        }.get(name, name)
    if name is float:
        return "float32"
    if name is int:
        return "int32"
    if name is bool:
        return "bool"
    spelling = getattr(name, "name", None) or getattr(name, "__name__", None)
    return "bool" if spelling == "bool_" else str(spelling if spelling is not None else name)


def _parse(text: str) -> DType:
    match = _PATTERN.fullmatch(text)
    if match is None:
        from difflib import get_close_matches  # late: only a mistake needs it

        near = get_close_matches(text, SCALAR_TYPES, 1)
        fix = f'did you mean "{near[0]}"?' if near else "declare one of these"
        if text in ("complex64", "complex128"):
            part = "float32" if text == "complex64" else "float64"
            fix = f'declare pairs, te.placeholder((*shape, 2), dtype="{part}"), and pass x[..., None].view("{part}")'
        raise UnknownDType(f"unknown dtype {text!r}", called=user_source(), allowed=", ".join(SCALAR_TYPES), fix=fix)
    scalar, lanes = match[1], int(match[2] or 1)
    dtype = str.__new__(DType, scalar if lanes == 1 else f"{scalar}x{lanes}")
    kind = _KINDS.get(scalar) or scalar.rstrip("0123456789")
    dtype.kind = cast("DTypeKind", kind)
    dtype.bits = _BITS.get(kind) or int(scalar[len(kind) :])
    dtype.lanes = lanes
    dtype.is_float = "float" in kind
    dtype.is_integer = kind in ("int", "uint")
    dtype.is_bool = kind == "bool"
    dtype.least = -(1 << (dtype.bits - 1)) if kind == "int" else 0
    dtype.greatest = (1 << (dtype.bits - (kind == "int"))) - 1
    _INTERNED[str.__str__(dtype)] = dtype
    dtype.element = dtype if lanes == 1 else DType(scalar)
    return dtype


BOOL, INT32, INT64, UINT8 = DType("bool"), DType("int32"), DType("int64"), DType("uint8")
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = DType("float16"), DType("bfloat16"), DType("float32"), DType("float64")
HANDLE = DType("handle")
