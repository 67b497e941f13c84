"""sin, cos and tan.

x = n pi + r (cos: (n + 1/2) pi + r) with |r| <= pi / 2, and the sine of r, an odd polynomial. tan: x = n pi / 2 + r with
|r| <= pi / 4, the tangent of r and what it lacks, also an odd polynomial, and -1 over it where n is odd. Angles beyond 2^17 (float64:
2^20) are reduced out of the way (maths_angles).
"""

from __future__ import annotations

from collections.abc import Callable

from .maths_angles import HALF_PI, PI, far_angle, less_multiple, pair_less_multiple
from .maths_calls import called, where
from .maths_lanes import Lanes, rounded, sum_of_two

__all__ = ["cos", "sin", "tan"]

# rounded to the dtype where they are used
_PER_PI, _PER_HALF_PI = 0.3183098861837907, 0.6366197723675814

Near = Callable[[Lanes, str], str]


def sin(v: Lanes, x: str) -> str:
    return _reduce_angle(v, "sin", _near_sin, x)


def cos(v: Lanes, x: str) -> str:
    return _reduce_angle(v, "cos", _near_cos, x)


def tan(v: Lanes, x: str) -> str:
    return _reduce_angle(v, "tan", _near_tan, x)


def _reduce_angle(v: Lanes, name: str, near: Near, x: str) -> str:
    def body(v: Lanes, x: str) -> str:
        return where(v, v.compare(">", v.absolute(x), _far(v)), near(v, x), f"{name}_far", _FAR_BODIES[name], x)

    # scalars are a call that LLVM may replace by that of vectors
    return body(v, x) if v.dtype.lanes > 1 else called(v, name, body, x)


def _far(v: Lanes) -> float:
    return v.pick(2.0**17, 2.0**20)


def _near_sin(v: Lanes, x: str) -> str:
    if v.options.fast:
        whole, shifted = rounded(v, x, _PER_PI)
        return _signed_sine(v, less_multiple(v, x, whole, PI), v.bits(shifted))
    size = v.absolute(x)  # so that the sign of a zero is none of the sum's
    whole, shifted = rounded(v, size, _PER_PI)
    return _copy_sign(v, _signed_sine(v, less_multiple(v, size, whole, PI), v.bits(shifted)), x)


def _near_cos(v: Lanes, x: str) -> str:
    whole, shifted = rounded(v, v.mul_add(x, _PER_PI, -0.5))  # odd multiples of pi / 2: minus a half before rounding
    r = less_multiple(v, x, v.mul_add(whole, 2.0, 1.0), HALF_PI)
    # the sign alternates the other way round for cosine
    return _signed_sine(v, r, v.integer("xor", v.bits(shifted), -1))


def _near_tan(v: Lanes, x: str) -> str:
    size = v.absolute(x)
    whole, shifted = rounded(v, size, _PER_HALF_PI)
    return _copy_sign(v, _tangent(v, *pair_less_multiple(v, size, whole, HALF_PI), v.bits(shifted)), x)


def _copy_sign(v: Lanes, result: str, x: str) -> str:
    """The result, negated where x is negative."""
    return v.flip_bits(result, v.integer("and", v.bits(x), v.sign_bit))


def _signed_sine(v: Lanes, r: str, turns: str) -> str:
    """sin(r), |r| <= pi / 2, negated where the lowest bit of `turns` is set."""
    square = v.mul(r, r)
    sine = v.mul_add(v.mul(square, r), v.polynomial(square, v.coefficients("SIN")), r)
    return v.flip_bits(sine, v.integer("shl", turns, v.dtype.bits - 1))  # the lowest bit becomes the sign's


def _tangent(v: Lanes, r: str, low: str, quarters: str) -> str:
    """tan(r + low), |r| <= pi / 4, or where the lowest bit of `quarters` is set -1 over it."""
    square = v.mul(r, r)
    cubic = v.mul(v.mul(square, r), v.polynomial(square, v.coefficients("TAN")))
    tangent, lost = sum_of_two(v, r, v.add(cubic, v.mul_add(low, square, low)))  # the derivative of tan is 1 + tan^2
    inverse = v.div(-1.0, tangent)
    inverse = v.mul_add(v.mul(inverse, inverse), lost, inverse)  # the derivative of 1 / x is -1 / x^2
    return v.choose(v.is_set(quarters, 1), inverse, tangent)


# Beyond


def _far_sin(v: Lanes, x: str) -> str:
    r, _, halves = far_angle(v, v.absolute(x), ahead=0, quarters=False)
    return _where_far(v, x, _copy_sign(v, _signed_sine(v, r, halves), x), _near_sin(v, x))


def _far_cos(v: Lanes, x: str) -> str:
    r, _, halves = far_angle(v, v.absolute(x), ahead=1, quarters=False)  # a quarter ahead: cos is a shifted sine
    return _where_far(v, x, _signed_sine(v, r, halves), _near_cos(v, x))


def _far_tan(v: Lanes, x: str) -> str:
    tangent = _tangent(v, *far_angle(v, v.absolute(x), ahead=0, quarters=True))
    return _where_far(v, x, _copy_sign(v, tangent, x), _near_tan(v, x))


_FAR_BODIES = {"sin": _far_sin, "cos": _far_cos, "tan": _far_tan}


def _where_far(v: Lanes, x: str, far: str, near: str) -> str:
    """The result, the same for lanes that are near."""
    size = v.absolute(x)  # computed for all lanes, chosen by each
    result = v.choose(v.compare(">", size, _far(v)), far, near)
    return v.choose(v.compare("==", size, float("inf")), float("nan"), result)  # infinite angles have none
