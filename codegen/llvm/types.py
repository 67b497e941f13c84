"""Our dtypes in LLVM's text: types in registers, in memory and in intrinsics' names, and constants.

bool is i1 in registers and one byte in memory. float16 is `half` in both and bfloat16 its bits
(workarounds/bfloat_vectors.py); arithmetic on them is done in float32 and rounded back. Floats of 8 bits are only moved
(ir/passes/common/float8.py).
"""

from __future__ import annotations

import struct
from functools import cache

from ...ir.dtype import FLOAT32, DType
from ...ir.rounding import FLOAT8, float8_byte
from .workarounds.bfloat_vectors import CARRIED_AS

__all__ = [
    "bfloat_type",
    "computing_dtype",
    "float_constant",
    "int_constant",
    "llvm_type",
    "mangle_type",
    "memory_type",
    "shuffle_mask",
    "splat",
    "zero",
]

_REGISTER = {
    "bool": "i1",
    "float8_e4m3fn": "i8",
    "float8_e5m2": "i8",
    "float16": "half",
    "bfloat16": CARRIED_AS,
    "float32": "float",
    "float64": "double",
    "handle": "ptr",
}
_MANGLED = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


def _scalar(dtype: DType) -> str:
    return _REGISTER.get(dtype.element) or f"i{dtype.bits}"


@cache
def llvm_type(dtype: DType) -> str:
    """The type of a value of `dtype` in a register."""
    return _vector(_scalar(dtype), dtype.lanes)


@cache
def memory_type(dtype: DType) -> str:
    """The type of a value of `dtype` in memory."""
    return _vector("i8" if dtype.kind == "bool" else _scalar(dtype), dtype.lanes)


def bfloat_type(dtype: DType) -> str:
    """Return the type of LLVM's own intrinsics for a value of bfloat16."""
    return _vector("bfloat", dtype.lanes)


def _vector(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def mangle_type(dtype: DType) -> str:
    """The suffix that an overloaded LLVM intrinsic has for `dtype`: "f32", "v16i8"."""
    scalar = _scalar(dtype)
    name = _MANGLED.get(scalar, scalar)
    return name if dtype.lanes == 1 else f"v{dtype.lanes}{name}"


def computing_dtype(dtype: DType) -> DType:
    """The dtype that arithmetic on `dtype` is done in."""
    return FLOAT32.with_lanes(dtype.lanes) if dtype.is_float and dtype.bits == 16 else dtype


def int_constant(value: int, dtype: DType) -> str:
    """`value` in every lane of an integer or bool type. (i1 -1 prints as true.)"""
    text = ("true" if value else "false") if dtype.kind == "bool" else str(value)
    return splat(text, dtype)


def float_constant(value: float, dtype: DType) -> str:
    """`value`, exact in `dtype`, in every lane. LLVM writes float constants as the bits of a double."""
    if dtype.kind in FLOAT8:
        text = str(float8_byte(value, dtype))
    elif dtype.kind == "bfloat":
        text = str(struct.unpack("<i", struct.pack("<f", value))[0] >> 16)
    elif dtype.bits == 16:
        text = f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    else:
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return splat(text, dtype)


def splat(text: str, dtype: DType) -> str:
    """A scalar constant in every lane of `dtype`."""
    return text if dtype.lanes == 1 else f"splat ({_scalar(dtype)} {text})"


def zero(dtype: DType) -> str:
    """The constant whose bits are all 0."""
    if dtype.lanes > 1:
        return "zeroinitializer"
    return float_constant(0.0, dtype) if dtype.is_float else int_constant(0, dtype)


def shuffle_mask(indices: tuple[int, ...] | list[int] | range) -> str:
    """The mask operand of a shufflevector."""
    return f"<{len(indices)} x i32> <{', '.join(f'i32 {i}' for i in indices)}>"
