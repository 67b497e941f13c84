"""exp, exp2, exp10, expm1, tanh, sigmoid and erf.

e^x = 2^n e^r with n = round(x / ln 2) and r = x - n ln 2, ln 2 in two parts (W. J. Cody and W. Waite, 1980); e^r - 1 by
a polynomial. tanh and erf are quotients and functions of e^r 2^n - 1, which keeps its last bits where it is small.
"""

from __future__ import annotations

from .maths_lanes import Lanes, power_of_two_times, rounded
from .maths_polynomials import LN2, LOG10_2

__all__ = [
    "erf",
    "exp",
    "exp10",
    "exp2",
    "emit_exp2",
    "exp2_parts",
    "expm1",
    "less_ln2",
    "lost_of_ln2",
    "sigmoid",
    "tanh",
]

_LOG2_E, _LOG2_10 = 1.4426950408889634, 3.321928094887362


def less_ln2(v: Lanes, x: str) -> tuple[str, str, str]:
    """x = n ln 2 + r: r, and n as `rounded` gives it."""
    whole, shifted = rounded(v, x, _LOG2_E)
    high, low = LN2[v.dtype.bits]
    # the larger part first: what it leaves is exact
    return v.mul_add(whole, -low, v.mul_add(whole, -high, x)), whole, shifted


def lost_of_ln2(v: Lanes, x: str, r: str, whole: str) -> str:
    """Return the low part of r."""
    high, low = LN2[v.dtype.bits]
    return v.mul_add(whole, -low, v.sub(v.mul_add(whole, -high, x), r))


def exp(v: Lanes, x: str) -> str:
    # e^-104 (float64: e^-745.2) is below half of the least subnormal; e^89 (e^710) is infinity
    nothing = v.compare("<", x, v.pick(-104.0, -745.2))
    r, whole, shifted = less_ln2(v, _clamp(v, x, nothing, v.pick(89.0, 710.0)))  # clamped before, so that n is in range
    return v.choose(nothing, 0.0, power_of_two_times(v, v.polynomial(r, v.coefficients("EXP")), whole, shifted))


def _clamp(v: Lanes, x: str, nothing: str, high: float) -> str:
    """x up to where a power of it is infinite, and 0 where it is so small that `nothing` is left of it: what underflows costs
    hundreds of cycles, and masked scores are nothing else. A NaN stays."""
    return v.cap(v.choose(nothing, 0.0, x), high)  # cap after choose: a NaN compares false both times


def exp2(v: Lanes, x: str) -> str:
    nothing = v.compare("<", x, v.pick(-150.0, -1075.0))
    x = _clamp(v, x, nothing, v.bias + 2.0)  # 2^(bias + 2) overflows to infinity in scaling
    whole, shifted = rounded(v, x)
    return v.choose(nothing, 0.0, exp2_parts(v, v.sub(x, whole), whole, shifted))


def exp2_parts(v: Lanes, r: str, whole: str, shifted: str) -> str:
    """2^(n + r), |r| <= 1/2, n as `rounded` gives it."""
    return power_of_two_times(v, emit_exp2(v, r), whole, shifted)


def emit_exp2(v: Lanes, r: str) -> str:
    """2^r, |r| <= 1/2."""
    return v.polynomial(r, v.coefficients("EXP2"))


def exp10(v: Lanes, x: str) -> str:
    """2^n 10^r with n = round(x log2 10) and r = x - n log10 2."""
    nothing = v.compare("<", x, v.pick(-45.5, -323.7))
    x = _clamp(v, x, nothing, v.pick(39.0, 309.0))
    whole, shifted = rounded(v, x, _LOG2_10)
    high, low = LOG10_2[v.dtype.bits]
    r = v.mul_add(whole, -low, v.mul_add(whole, -high, x))  # n log10 2 in two parts
    return v.choose(nothing, 0.0, power_of_two_times(v, v.polynomial(r, v.coefficients("EXP10")), whole, shifted))


def _expm1_parts(v: Lanes, x: str, exponent: int = 0, low: str | None = None) -> tuple[str, str]:
    """e^r - 1 and 2^(n + exponent) of e^x = e^r 2^n, which is a normal number. low: what x lacks, a last bit."""
    r, whole, shifted = less_ln2(v, x)
    if v.dtype.bits == 64:
        lost = lost_of_ln2(v, x, r, whole)  # float64 keeps the low part, to stay below 2 units
        low = lost if low is None else v.add(lost, low)
    square, rest = v.mul(r, r), v.polynomial(r, v.coefficients("EXPM1"))
    # r is added last: it is the largest
    tail = v.mul_add(square, rest, r) if low is None else v.add(v.mul_add(square, rest, low), r)
    return tail, v.power_of_shifted(shifted, exponent)


def expm1(v: Lanes, x: str) -> str:
    # By half of it, as 2^128 (2^1024) is no float. Below -17.4 (-37.5) the result is -1, above 88.73 (709.8) infinity.
    tail, half = _expm1_parts(v, v.clamp(x, v.pick(-18.0, -38.0), v.pick(89.0, 710.0)), -1)
    result = v.mul_add(tail, half, v.sub(half, 0.5))
    return v.copy_sign(v.add(result, result), x)  # so that -0 stays -0


def tanh(v: Lanes, x: str) -> str:
    """-(e^-2|x| - 1) / (e^-2|x| + 1), both of them from e^r - 1 and 2^n with one rounding."""
    size = v.cap(v.absolute(x), v.pick(10.0, 20.0))  # of which the result rounds to 1
    tail, scale = _expm1_parts(v, v.mul(size, -2.0))
    above = v.mul_add(tail, scale, v.sub(scale, 1.0))  # both from the same parts, so that the quotient is odd in x
    return v.copy_sign(v.div(above, v.mul_add(tail, scale, v.add(scale, 1.0))), x)


def sigmoid(v: Lanes, x: str) -> str:
    """1 / (1 + e^-x), both sides times 2^-32 (2^-64): then e^-x stays a float where the result is subnormal."""
    shift = v.dtype.bits
    least, most = v.pick(-104.5, -746.0), v.pick(20.0, 40.0)
    tail, scale = _expm1_parts(v, v.negative(v.clamp(x, least, most)), -shift)
    unit: str | float = 2.0**-shift
    if not v.options.fast:  # 2^24 + 1 (2^53 + 1) is no float: the 1 that the sum below loses is taken off here
        power = 2.0 ** (v.mantissa_bits + 1)
        unit = v.choose(v.compare("==", scale, power * unit), unit - unit / power, unit)
    return v.div(unit, v.mul_add(tail, scale, v.add(scale, 2.0**-shift)))


def erf(v: Lanes, x: str) -> str:
    """1 - e^z of z = log(erfc(|x|)) = -|x| + |x| P(|x|), as e^z - 1 has all its bits where z is small."""
    size = v.cap(v.absolute(x), v.pick(4.0, 6.0))  # of which the result rounds to 1
    rest, low = v.polynomial(size, v.coefficients("ERF")), None
    if v.options.fused or v.options.fast:
        z = v.mul_add(size, rest, v.negative(size))
    else:  # there are more roundings: that of the sum is taken along
        product = v.mul(size, rest)
        z = v.sub(product, size)
        low = v.sub(product, v.add(z, size))
    tail, scale = _expm1_parts(v, z, low=low)
    return v.copy_sign(v.mul_add(tail, scale, v.sub(scale, 1.0)), x)
