"""Numbers as a machine holds them: integers wrapped, floats rounded, division by 0 giving 0."""

from __future__ import annotations

import math
import struct

from .dtype import DType

__all__ = [
    "ceil_quotient",
    "floor_quotient",
    "floor_remainder",
    "round_float",
    "truncated_quotient",
    "truncated_remainder",
    "wrap_int",
]


def wrap_int(value: int, dtype: DType) -> int:
    """`value` reduced modulo 2^bits into the range of an integer dtype (for bool: whether it is not 0)."""
    if dtype.kind == "bool":
        return int(value != 0)
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def round_float(value: float, dtype: DType) -> float:
    """`value` rounded to the precision of a float dtype, to nearest, ties to even; overflow gives infinity."""
    if dtype.bits == 64 or math.isnan(value) or math.isinf(value):
        return value
    if dtype.kind == "bfloat":  # 8 bits of precision, down to 2^-133
        fraction, exponent = math.frexp(value)
        last = max(exponent - 8, -133)
        rounded = math.ldexp(round(math.ldexp(fraction, exponent - last)), last)
        return math.copysign(rounded if abs(rounded) < 2.0**128 else math.inf, value)
    code = "<f" if dtype.bits == 32 else "<e"
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def floor_quotient(a: int, b: int) -> int:
    """Python's a // b; 0 where b is 0."""
    return a // b if b else 0


def floor_remainder(a: int, b: int) -> int:
    """Python's a % b; 0 where b is 0."""
    return a % b if b else 0


def ceil_quotient(a: int, b: int) -> int:
    """a / b rounded up; 0 where b is 0."""
    return -(-a // b) if b else 0


def truncated_quotient(a: int, b: int) -> int:
    """C's a / b; 0 where b is 0."""
    if not b:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def truncated_remainder(a: int, b: int) -> int:
    """C's a % b; 0 where b is 0."""
    return a - b * truncated_quotient(a, b) if b else 0
