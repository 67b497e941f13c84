"""asin, acos, atan, atan2 and hypot.

atan of at most 1 is an odd polynomial; beyond, pi / 2 less that of 1 / x. asin of at most 1/2 is one as well; beyond, asin(x) =
pi / 2 - 2 asin(sqrt((1 - x) / 2)), where both differences are nearly exact (as in fdlibm).
"""

from __future__ import annotations

from .maths_lanes import Lanes, sum_of_two

__all__ = ["acos", "asin", "atan", "atan2", "hypot"]

# in two parts, the second being what the first lost
_HALF_PI = {32: (1.5707963705062866, -4.371138828673793e-08), 64: (1.5707963267948966, 6.123233995736766e-17)}


def _odd_tail(v: Lanes, x: str, square: str, name: str) -> str:
    """The part of an odd function beyond x."""
    return v.mul(v.mul(square, x), v.polynomial(square, v.coefficients(name)))


def atan(v: Lanes, x: str) -> str:
    size = v.absolute(x)
    beyond = v.compare(">", size, 1.0)
    t = v.choose(beyond, v.div(1.0, size), size)  # 1 / x of infinity is 0, as it should be
    return v.copy_sign(_arc_tangent(v, t, beyond), x)


def _arc_tangent(v: Lanes, t: str, beyond: str) -> str:
    """atan t, t from 0 to 1, or where `beyond` holds pi / 2 less that."""
    high, low = _HALF_PI[v.dtype.bits]
    tail = _odd_tail(v, t, v.mul(t, t), "ATAN")  # the polynomial is of the square
    complement = v.sub(high, v.add(v.sub(t, low), tail))  # pi / 2 - atan, smallest parts first
    return v.choose(beyond, complement, v.add(t, tail))


def atan2(v: Lanes, y: str, x: str) -> str:
    """The angle of (x, y), in the cases of C's atan2 (annex F of its standard)."""
    height, width = v.absolute(y), v.absolute(x)
    steep = v.compare(">", height, width)
    less, more = v.choose(steep, width, height), v.choose(steep, height, width)
    alike = v.choose(v.compare("==", more, 0.0), 0.0, 1.0)  # infinities too
    t = v.choose(v.compare("==", less, more), alike, v.div(less, more))
    angle = _arc_tangent(v, t, steep)
    high, low = (2.0 * part for part in _HALF_PI[v.dtype.bits])
    # left of the y axis it is pi less the angle
    angle = v.choose(v.is_negative(x), v.sub(high, v.sub(angle, low)), angle)
    return v.copy_sign(angle, y)


def _half_angle(v: Lanes, size: str) -> tuple[str, str]:
    """sqrt((1 - size) / 2), and what its arc sine has beside it."""
    square = v.mul_add(size, -0.5, 0.5)  # exact up to size 1 by one rounding: half of 1 - size
    root = v.call("sqrt", square)
    return root, _odd_tail(v, root, square, "ASIN")


def asin(v: Lanes, x: str) -> str:
    size = v.absolute(x)
    (high, low), (root, tail) = _HALF_PI[v.dtype.bits], _half_angle(v, size)
    difference, lost = sum_of_two(v, high, v.mul(root, -2.0))  # the greater parts are subtracted with what is lost
    beyond = v.add(difference, v.add(lost, v.mul_add(tail, -2.0, low)))
    within = v.add(size, _odd_tail(v, size, v.mul(size, size), "ASIN"))
    return v.copy_sign(v.choose(v.compare(">", size, 0.5), beyond, within), x)


def acos(v: Lanes, x: str) -> str:
    size = v.absolute(x)
    (high, low), (root, tail) = _HALF_PI[v.dtype.bits], _half_angle(v, size)
    within = v.sub(high, v.sub(v.add(x, _odd_tail(v, x, v.mul(x, x), "ASIN")), low))
    right = v.mul(v.add(root, tail), 2.0)
    left = v.add(v.mul_add(root, -2.0, 2.0 * high), v.mul_add(tail, -2.0, 2.0 * low))
    beyond = v.choose(v.is_negative(x), left, right)
    return v.choose(v.compare(">", size, 0.5), beyond, within)


def hypot(v: Lanes, x: str, y: str) -> str:
    """sqrt(x^2 + y^2), both scaled by a power of two where squares would leave the range. Of an infinite one it is infinite."""
    width, height = v.absolute(x), v.absolute(y)
    steep = v.compare(">", height, width)
    less, more = v.choose(steep, width, height), v.choose(steep, height, width)
    # squares would overflow, or lose all bits
    huge, tiny = v.compare(">", more, v.pick(2.0**60, 2.0**500)), v.compare("<", more, v.pick(2.0**-45, 2.0**-450))
    power = v.pick(2.0**100, 2.0**600)
    scale = v.choose(huge, 1 / power, v.choose(tiny, power, 1.0))
    back = v.choose(huge, power, v.choose(tiny, 1 / power, 1.0))
    less, more = v.mul(less, scale), v.mul(more, scale)
    result = v.mul(v.call("sqrt", v.mul_add(more, more, v.mul(less, less))), back)
    # infinite even where the other is a NaN (C's annex F)
    infinite = v.both("or", *(v.compare("==", size, float("inf")) for size in (width, height)))
    return v.choose(infinite, float("inf"), result)
