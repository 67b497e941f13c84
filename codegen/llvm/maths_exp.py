"""exp, exp2, expm1, tanh, sigmoid and erf of float32.

e^x = 2^n e^r with n = round(x / ln 2) and r = x - n ln 2, ln 2 in two parts (W. J. Cody and W. Waite, 1980); e^r - 1 by
a polynomial. tanh and erf are quotients and functions of e^r 2^n - 1, which keeps its last bits where it is small.
Coefficients: tests/support/fit_maths.py, whose names for them these are.
"""

from __future__ import annotations

from .maths_lanes import Lanes, power_of_two_times, rounded

__all__ = ["erf", "exp", "exp2", "exp2_of", "exp2_parts", "expm1", "sigmoid", "tanh"]

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6

_EXP = (
    1.0,
    1.0,
    0.4999999403953552,
    0.1666652113199234,
    0.04166826605796814,
    0.008368678390979767,
    0.0013820757158100605,
)
_EXP_FAST = (1.0, 0.9999997019767761, 0.4999914765357971, 0.16667652130126953, 0.04189818724989891, 0.00828937254846096)
_EXP2 = (
    1.0,
    0.6931471824645996,
    0.24022647738456726,
    0.05550359934568405,
    0.009618505835533142,
    0.0013390807434916496,
    0.0001532645692350343,
)
_EXP2_FAST = (
    1.0,
    0.6931470036506653,
    0.24022246897220612,
    0.0555071122944355,
    0.009671295061707497,
    0.0013269390910863876,
)
_EXPM1 = (0.4999999701976776, 0.1666654646396637, 0.04166743531823158, 0.008366262540221214, 0.0013870664406567812)
_EXPM1_UNFUSED = (
    0.5,
    0.1666666567325592,
    0.04166649281978607,
    0.008333545178174973,
    0.0013932331930845976,
    0.00019762558804359287,
)
_EXPM1_FAST = (0.4999940097332001, 0.16666829586029053, 0.04187282919883728, 0.008338239043951035)

_ERF = (
    -0.12837916612625122,
    -0.6366195678710938,
    -0.10277630388736725,
    0.019147822633385658,
    0.00016950347344391048,
    -0.0016756742261350155,
    0.0006373613723553717,
    -0.00011886052379850298,
    9.387854333908763e-06,
)
_ERF_FAST = (
    -0.12837998569011688,
    -0.6365699172019958,
    -0.10323641449213028,
    0.020656470209360123,
    -0.002078684978187084,
    4.265271513759217e-07,
)


def _reduced(v: Lanes, x: str) -> tuple[str, str, str]:
    """x = n ln 2 + r: r, and n as `rounded` gives it."""
    whole, shifted = rounded(v, x, _LOG2E)
    return v.mul_add(whole, -_LN2_LOW, v.mul_add(whole, -_LN2_HIGH, x)), whole, shifted


def exp(v: Lanes, x: str) -> str:
    nothing = v.compare("<", x, -104.0)  # e^-104 is below half of the least subnormal; e^89 is infinity
    r, whole, shifted = _reduced(v, _bounded(v, x, nothing, 89.0))
    return v.choose(
        nothing, 0.0, power_of_two_times(v, v.polynomial(r, _EXP_FAST if v.options.fast else _EXP), whole, shifted)
    )


def _bounded(v: Lanes, x: str, nothing: str, high: float) -> str:
    """x up to where a power of it is infinite, and 0 where it is so small that `nothing` is left of it: what underflows costs
    hundreds of cycles, and masked scores are nothing else. A NaN stays."""
    return v.at_most(v.choose(nothing, 0.0, x), high)


def exp2(v: Lanes, x: str) -> str:
    nothing = v.compare("<", x, -150.0)
    x = _bounded(v, x, nothing, 129.0)
    whole, shifted = rounded(v, x)
    return v.choose(nothing, 0.0, exp2_parts(v, v.sub(x, whole), whole, shifted))


def exp2_parts(v: Lanes, r: str, whole: str, shifted: str) -> str:
    """2^(n + r), |r| <= 1/2, n as `rounded` gives it."""
    return power_of_two_times(v, exp2_of(v, r), whole, shifted)


def exp2_of(v: Lanes, r: str) -> str:
    """2^r, |r| <= 1/2."""
    return v.polynomial(r, _EXP2_FAST if v.options.fast else _EXP2)


def _expm1_parts(v: Lanes, x: str, exponent: int = 0, low: str | None = None) -> tuple[str, str]:
    """e^r - 1 and 2^(n + exponent) of e^x = e^r 2^n, for n + exponent from -126 to 127. low: what x lacks, a last bit."""
    r, _, shifted = _reduced(v, x)
    coefficients = _EXPM1_FAST if v.options.fast else _EXPM1 if v.options.fused else _EXPM1_UNFUSED
    square, rest = v.mul(r, r), v.polynomial(r, coefficients)
    tail = v.mul_add(square, rest, r) if low is None else v.add(v.mul_add(square, rest, low), r)
    # The float has n in its low bits, above them what the shift drops.
    return tail, v.from_bits(v.integer("add", v.integer("shl", v.bits(shifted), 23), (127 + exponent) << 23))


def expm1(v: Lanes, x: str) -> str:
    # By half of it, as 2^128 is none of float32's. Below -17.4 the result is -1, above 88.73 infinity.
    tail, half = _expm1_parts(v, v.clamp(x, -18.0, 89.0), -1)
    result = v.mul_add(tail, half, v.sub(half, 0.5))
    return v.with_sign(v.add(result, result), x)


def tanh(v: Lanes, x: str) -> str:
    """-(e^-2|x| - 1) / (e^-2|x| + 1), both of them from e^r - 1 and 2^n with one rounding."""
    size = v.absolute(x)
    tail, scale = _expm1_parts(v, v.mul(v.at_most(size, 10.0), -2.0))  # tanh(10) rounds to 1
    above = v.mul_add(tail, scale, v.sub(scale, 1.0))
    return v.with_sign(v.div(above, v.mul_add(tail, scale, v.add(scale, 1.0))), x)


def sigmoid(v: Lanes, x: str) -> str:
    """1 / (1 + e^-x), both sides times 2^-32: then e^-x stays a float where the result is subnormal."""
    tail, scale = _expm1_parts(v, v.negative(v.clamp(x, -104.5, 20.0)), -32)
    unit: str | float = 2.0**-32
    if not v.options.fast:  # 2^24 + 1 is no float: the 1 that the sum below loses is taken off here
        unit = v.choose(v.compare("==", scale, 2.0**-8), 2.0**-32 - 2.0**-56, unit)
    return v.div(unit, v.mul_add(tail, scale, v.add(scale, 2.0**-32)))


def erf(v: Lanes, x: str) -> str:
    """1 - e^z of z = log(erfc(|x|)) = -|x| + |x| P(|x|), as e^z - 1 has all its bits where z is small."""
    size = v.at_most(v.absolute(x), 4.0)  # erf(4) rounds to 1
    rest, low = v.polynomial(size, _ERF_FAST if v.options.fast else _ERF), None
    if v.options.fused or v.options.fast:
        z = v.mul_add(size, rest, v.negative(size))
    else:  # there are more roundings: that of the sum is taken along
        product = v.mul(size, rest)
        z = v.sub(product, size)
        low = v.sub(product, v.add(z, size))
    tail, scale = _expm1_parts(v, z, low=low)
    return v.with_sign(v.mul_add(tail, scale, v.sub(scale, 1.0)), x)
