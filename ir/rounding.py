"""Numbers as a machine holds them: integers wrapped, floats rounded, division by 0 giving 0."""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from .dtype import DType

__all__ = [
    "FLOAT8",
    "SIGNIFICANT_BITS",
    "Float8",
    "ceil_quotient",
    "float8_byte",
    "floor_quotient",
    "floor_remainder",
    "round_float",
    "truncated_quotient",
    "truncated_remainder",
    "wrap_int",
]


class Float8(NamedTuple):
    """A format of floats in 8 bits, as the OCP's specification of them has it.

    fraction: its bits. bias: of the exponent. overflow: the byte of numbers that are too large. nan: the byte of NaN. least: the
    exponent of the least number above 0. limit: what numbers stay below once they are rounded.
    """

    fraction: int
    bias: int
    overflow: int
    nan: int
    least: int
    limit: float


FLOAT8 = {
    # all bits 1 is NaN, and there is no infinity
    "float8_e4m3fn": Float8(3, 7, 0x7F, 0x7F, -9, 480.0),
    "float8_e5m2": Float8(2, 15, 0x7C, 0x7E, -16, 65536.0),
}
"""By the kind of a dtype."""

SIGNIFICANT_BITS = {
    **{(kind, 8): row.fraction + 1 for kind, row in FLOAT8.items()},
    ("float", 16): 11,
    ("bfloat", 16): 8,
    ("float", 32): 24,
    ("float", 64): 53,
}
"""Of floats, by kind and bits: up to 2 to this power they have every whole number."""


def float8_byte(value: float, dtype: DType) -> int:
    """The byte, 0 to 255, of a number that is rounded to an 8-bit dtype."""
    kind = FLOAT8[dtype.kind]
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value) or math.isinf(value):
        return sign | (kind.nan if math.isnan(value) else kind.overflow)
    _, exponent = math.frexp(abs(value))
    exponent = max(exponent, kind.least + kind.fraction + 1)
    # 1.fraction * 2^exponent; the leading digit of a normal number counts as one more in the exponent
    digits = int(math.ldexp(abs(value), kind.fraction + 1 - exponent))
    return sign | (exponent - 2 + kind.bias << kind.fraction) + digits if value else sign


def wrap_int(value: int, dtype: DType) -> int:
    """`value` reduced modulo 2^bits into the range of an integer dtype (for bool: whether it is not 0)."""
    if dtype.kind == "bool":
        return int(value != 0)
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def round_float(value: float, dtype: DType) -> float:
    """`value` rounded to the precision of a float dtype, to nearest, ties to even; overflow gives infinity."""
    if dtype.bits == 64 or math.isnan(value):
        return value
    if math.isinf(value):
        return math.nan if dtype.kind == "float8_e4m3fn" else value
    if dtype.kind == "bfloat":  # 8 bits of precision, down to 2^-133
        return _round_digits(value, 8, -133, 2.0**128, math.inf)
    if dtype.kind in FLOAT8:
        kind = FLOAT8[dtype.kind]
        return _round_digits(
            value, kind.fraction + 1, kind.least, kind.limit, math.nan if kind.overflow == kind.nan else math.inf
        )
    code = "<f" if dtype.bits == 32 else "<e"
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _round_digits(value: float, digits: int, least: int, limit: float, overflow: float) -> float:
    """A number of so many binary digits, the last of which is not below 2^least; `overflow` from `limit` on."""
    fraction, exponent = math.frexp(value)
    last = max(exponent - digits, least)
    rounded = math.ldexp(round(math.ldexp(fraction, exponent - last)), last)
    return math.copysign(rounded if abs(rounded) < limit else overflow, value)


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
