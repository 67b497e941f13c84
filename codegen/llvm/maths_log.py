"""log, log2, log10 and log1p.

x = 2^k m with m in [3/4, 3/2); log m of t = m - 1, which is exact, by t + t^2 P(t).
"""

from __future__ import annotations

from .maths_lanes import Lanes, divided_by_power, exponent_and_mantissa
from .maths_polynomials import LN2, LOG10_2

__all__ = ["log", "log10", "log1p", "log2", "log_of_pair"]


def _natural(v: Lanes, k: str, t: str) -> str:
    """k ln 2 + log(1 + t)."""
    high, low = LN2[v.dtype.bits]
    # k ln 2 high is exact, and is added last
    tail = v.mul_add(v.mul(t, t), v.polynomial(t, v.coefficients("LOG")), v.mul(k, low))
    return v.mul_add(k, high, v.add(tail, t))


def log(v: Lanes, x: str) -> str:
    k, m = exponent_and_mantissa(v, x)
    return _natural(v, k, v.sub(m, 1.0))  # exact, as m is within [3/4, 3/2)


def log2(v: Lanes, x: str) -> str:
    """k + 3/2 t + the rest, which is small near x = 1: the product is exact."""
    k, m = exponent_and_mantissa(v, x)
    t = v.sub(m, 1.0)
    return v.mul_add(t, v.polynomial(t, v.coefficients("LOG2")), v.mul_add(t, 1.5, k))  # 3/2 t has few bits more than t


def log10(v: Lanes, x: str) -> str:
    """k log10(2) + t / 2 + the rest, likewise."""
    k, m = exponent_and_mantissa(v, x)
    t, (high, low) = v.sub(m, 1.0), LOG10_2[v.dtype.bits]
    small = v.mul_add(t, v.polynomial(t, v.coefficients("LOG10")), v.mul(k, low))
    return v.add(v.mul_add(k, high, v.mul(t, 0.5)), small)  # t / 2 is exact


def log1p(v: Lanes, x: str) -> str:
    """log(u) of u = 1 + x as it is rounded, whose rounding error (D. Knuth's sum of two) goes into t."""
    # Rounded up, the greatest float plus 1 is infinite.
    u = v.cap(v.add(x, 1.0), v.pick(3.4028234663852886e38, 1.7976931348623157e308))
    taken = v.sub(u, 1.0)
    # Knuth's sum of two, as x may be greater than 1
    result = log_of_pair(v, u, v.add(v.sub(1.0, v.sub(u, taken)), v.sub(x, taken)))
    # Beside x the rest is nothing where x is tiny, and a NaN where it is infinite; in other modes of rounding more is lost.
    tiny = v.pick(2.0**-24, 2.0**-53)
    usual = v.both("and", v.compare(">", v.absolute(x), tiny), v.compare("<", x, float("inf")))
    result = v.choose(usual, result, x)
    return v.copy_sign(result, x)


def log_of_pair(v: Lanes, x: str, low: str, twice: str | None = None) -> str:
    """log(x + low), low less than x 2^-8; where the condition `twice` holds, of twice that."""
    k, m = exponent_and_mantissa(v, x)
    t = v.add(divided_by_power(v, low, k), v.sub(m, 1.0))  # low is divided as x was, to be beside m
    return _natural(v, k if twice is None else v.add(k, v.choose(twice, 1.0, 0.0)), t)
