"""sinh, cosh and the inverse functions asinh, acosh and atanh.

sinh and cosh: x = n ln 2 + r, so that both are sums of cosh r and sinh r, polynomials, with 2^n + 2^-n and 2^n - 2^-n. asinh and
acosh are logarithms of sums of two floats. atanh: (1 + x) / (1 - x) = 2^k (1 + s) / (1 - s), so that it is k / 2 ln 2 + atanh s, and for
small x just the polynomial.
"""

from __future__ import annotations

from .maths_exp import less_ln2, lost_of_ln2
from .maths_lanes import Lanes, exponent_and_mantissa, product_of_two, sum_of_any, sum_of_two
from .maths_log import log_of_pair
from .maths_polynomials import LN2

__all__ = ["acosh", "asinh", "atanh", "cosh", "sinh"]


def _parts(v: Lanes, x: str) -> tuple[str, str, str, str]:
    """cosh r - 1, sinh r, 2^n / 4 and 2^-n / 4 of |x|, which is kept where both functions are infinite beyond."""
    size = v.cap(v.absolute(x), v.pick(89.5, 710.5))  # sinh and cosh overflow a little later than exp
    r, whole, shifted = less_ln2(v, size)
    square = v.mul(r, r)
    cosine = v.mul(square, v.polynomial(square, v.coefficients("COSH")))
    sine = v.add(
        r, v.mul_add(v.mul(square, r), v.polynomial(square, v.coefficients("SINH")), lost_of_ln2(v, size, r, whole))
    )  # r's low part matters where r is small
    growing = v.power_of_shifted(shifted, -2)  # quarters, as 2^n itself may exceed the range
    # 2^-n / 4, while that is a normal number and matters
    inverse = v.reinterpret_bits(v.integer("sub", (2 * v.bias - 4) << v.mantissa_bits, v.bits(growing)))
    # where 2^-n is below the last bit of 2^n
    return cosine, sine, growing, v.choose(v.compare(">", whole, v.pick(30.0, 60.0)), 0.0, inverse)


def sinh(v: Lanes, x: str) -> str:
    cosine, sine, growing, falling = _parts(v, x)
    difference, total = v.sub(growing, falling), v.add(growing, falling)
    half = v.add(difference, v.mul_add(cosine, difference, v.mul(sine, total)))  # small parts first
    tiny = v.compare("<", v.absolute(x), v.pick(2.0**-13, 2.0**-27))  # half of it may be subnormal
    return v.copy_sign(v.choose(tiny, x, v.add(half, half)), x)


def cosh(v: Lanes, x: str) -> str:
    cosine, sine, growing, falling = _parts(v, x)
    difference, total = v.sub(growing, falling), v.add(growing, falling)
    half = v.add(growing, v.add(falling, v.mul_add(cosine, total, v.mul(sine, difference))))
    return v.add(half, half)


def asinh(v: Lanes, x: str) -> str:
    """log(|x| + sqrt(x^2 + 1)), of huge x log(2 |x|)."""
    size = v.absolute(x)
    square, lost = product_of_two(v, size, size)
    total, rounded_off = sum_of_any(v, square, v.text(1.0))
    root, low = _root_of_pair(v, total, v.add(rounded_off, lost))
    # In other modes of rounding the sum loses more than what is left of tiny x.
    tiny = v.compare("<", size, v.pick(2.0**-12, 2.0**-26))
    return v.copy_sign(v.choose(tiny, x, _log_of_sum(v, root, size, low, size)), x)


def acosh(v: Lanes, x: str) -> str:
    """log(x + sqrt((x - 1) (x + 1))), of huge x log(2 x)."""
    below, (above, lost) = v.sub(x, 1.0), sum_of_two(v, x, v.text(1.0))
    product, low = product_of_two(v, below, above)  # near 1 the product is small and must keep its bits
    root, low = _root_of_pair(v, product, v.mul_add(below, lost, low))
    return v.choose(v.compare("<", x, 1.0), float("nan"), _log_of_sum(v, x, root, low, x))  # less than 1 has no inverse


def _root_of_pair(v: Lanes, x: str, low: str) -> tuple[str, str]:
    """sqrt(x + low) and what that lacks."""
    root = v.call("sqrt", x)
    square, lost = product_of_two(v, root, root)
    rest = v.add(v.sub(v.sub(x, square), lost), low)  # a step of Newton's, for the rest
    return root, v.choose(v.compare(">", x, 0.0), v.div(rest, v.add(root, root)), 0.0)  # 0 / 0 at a root of 0


def _log_of_sum(v: Lanes, a: str, b: str, low: str, x: str) -> str:
    """log(a + b + low), a >= b; where x is huge log(2 x)."""
    total, lost = sum_of_two(v, a, b)
    huge = v.compare(">", x, v.pick(2.0**14, 2.0**30))
    return log_of_pair(v, v.choose(huge, x, total), v.choose(huge, 0.0, v.add(lost, low)), huge)


def atanh(v: Lanes, x: str) -> str:
    size = v.absolute(x)
    above, below = v.add(size, 1.0), v.sub(1.0, size)
    k, m = exponent_and_mantissa(v, below)
    twice = v.compare(">", above, v.mul(m, 1.7))  # up to 1 / 4 k is 0, and s is x
    m, k = v.choose(twice, v.add(m, m), m), v.sub(v.choose(twice, 1.0, 0.0), k)
    # What both roundings lost; that of 1 - x only below 1/2, where 2^k is 1 or 2.
    over, under = v.sub(size, v.sub(above, 1.0)), v.sub(v.sub(1.0, below), size)
    under = v.choose(v.compare(">", k, 0.5), v.add(under, under), under)
    s = v.div(v.add(v.sub(above, m), v.sub(over, under)), v.add(above, m))
    s = v.choose(v.compare("<=", size, 0.25), size, s)
    square = v.mul(s, s)
    high, low = (part / 2 for part in LN2[v.dtype.bits])  # halves: atanh is half of a logarithm
    tail = v.mul_add(v.mul(square, s), v.polynomial(square, v.coefficients("ATANH")), v.mul(k, low))
    return v.copy_sign(v.mul_add(k, high, v.add(s, tail)), x)
