"""pow: 2^(y log2 |x|), whose logarithm needs some 8 bits (float64: 11) more than a float has, as the product with y may be 150 (1075).

float32, by a table of 32 rows: x = 2^k m, the upper bits of m choose c near 1 / m of so few bits that d = m c - 1, less than 2^-5, is
exact (P.-T. P. Tang, 1990), and k - log2 c + log2(1 + d) is a sum of floats. The row around 1 has c = 1: there nothing cancels.
Every machine that fuses does this, so that all of them give the same bits; others take the logarithm in float64.

float64: log2 m = 2 / ln 2 (s + s^3 / 3 + s^5 P(s^2)) of s = (m - 1) / (m + 1), all but the last term in pairs of floats.

Two comparisons find the lanes whose power is something else, which is put right out of the way.
"""

from __future__ import annotations

import math

from .maths_calls import called, where
from .maths_exp import emit_exp2, exp2_parts
from .maths_lanes import Lanes, exponent_and_mantissa, power_of_two_times, product_of_two, rounded, sum_of_two
from .maths_tables import looked_up
from .types import int_constant, llvm_type, mangle_type

__all__ = ["power"]

# fmt: off
_CHOICES = (  # 8 bits each, so that d = m c - 1 is exact
    128, 126, 122, 118, 114, 112, 108, 106, 103, 100, 98, 96, 94, 92, 90, 86,
    170, 168, 164, 162, 158, 156, 152, 150, 146, 144, 142, 140, 136, 134, 132, 130,
)
# fmt: on
"""128 c: for m from 1 on in steps of 1 / 32, from 3 / 4 on in steps of 1 / 64. Each row begins 3 / 4 of its step early."""
_LOG2_E = 1.4426950216293335
_SLOPE = (2.8853900817779268, 4.0710547481862066e-17)
"""2 / ln 2, as a pair."""
_THIRD = (0.3333333333333333, 1.850371707708594e-17)


def power(v: Lanes, x: str, y: str) -> str:
    """x^y, in the cases of C's pow (annex F of its standard)."""
    if v.dtype.bits == 32 and not v.options.fused:  # the table's products are exact only by fused operations
        return _emit_in_float64(v, x, y)
    body = _emit_table if v.dtype.bits == 32 else _emit_pairs
    # scalars are calls, so that LLVM can make vectors of their loops
    return body(v, x, y) if v.dtype.lanes > 1 else called(v, "pow", body, x, y)


def _emit_table(v: Lanes, x: str, y: str) -> str:
    high, lost, low = _log2(v, x)
    product = v.mul(y, high)
    whole = v.call("roundeven", v.call("fma", y, low, product))  # to the nearest, whatever mode the caller has set
    rest = v.call("fma", y, lost, v.call("fma", y, high, v.negative(product)))  # what the product lost
    rest = v.add(
        v.call("fma", y, low, v.sub(product, whole)), rest
    )  # the greatest first: what it leaves is less than 1 / 2
    return _put_right(v, x, y, product, _scale_by_power(v, emit_exp2(v, rest), whole))


def _emit_pairs(v: Lanes, x: str, y: str) -> str:
    high, low = _log2_pair(v, x)
    exponent = y if v.options.fused else v.clamp(y, -1e250, 1e250)  # halves of greater ones are infinite
    product, lost = product_of_two(v, exponent, high)
    whole, _ = rounded(v, product)
    rest = v.add(v.sub(product, whole), v.add(lost, v.mul(exponent, low)))
    return _put_right(v, x, y, product, _scale_by_power(v, emit_exp2(v, rest), whole))


def _put_right(v: Lanes, x: str, y: str, product: str, result: str) -> str:
    """The result, but where x is not above 0, infinite or a NaN, or the product's last bits are no fraction or it is none."""
    bits, greatest = llvm_type(v.word), 0x7F7FFFFF if v.dtype.bits == 32 else 0x7FEFFFFFFFFFFFFF
    # x - 1 as an unsigned number: 0, negatives, infinity and NaN are beyond the greatest
    outside = v.f.op(f"icmp uge {bits} {v.integer('sub', v.bits(x), 1)}, {int_constant(greatest, v.word)}")
    beyond = v.f.op(f"fcmp uge {v.kind} {v.absolute(product)}, {v.text(_huge(v))}")  # uge is true of a NaN
    # two comparisons tell all that is rare
    return where(v, v.both("or", outside, beyond), result, "pow_rare", _rare, x, y, product, result)


def _huge(v: Lanes) -> float:
    """An exponent of which 2 is not a float."""
    return v.pick(1024.0, 8192.0)


def _scale_by_power(v: Lanes, x: str, whole: str) -> str:
    """x 2^n of an x near 1, n an integer."""
    if v.has_avx512:
        return v.scale(x, whole)
    most = v.pick(200.0, 1600.0)  # beyond, the result is 0 or infinite as well
    near = v.clamp(whole, -most, most)
    return power_of_two_times(v, x, near, v.add(near, v.rounding))


def _log2(v: Lanes, x: str) -> tuple[str, str, str]:
    """log2 |x| as a sum of floats: the last is up to 1 / 80 of the first, the other one makes up for a rounding."""
    k, m = exponent_and_mantissa(v, v.absolute(x))
    # What is above the last row's m, which would be in the row of 3 / 4, is in the last one.
    bits = llvm_type(v.word)
    place = v.integer("add", v.bits(m), 3 << 16)  # 3/4 of a step early, half a row's width
    place = v.f.op(
        f"call {bits} @llvm.smin.{mangle_type(v.word)}({bits} {place}, {bits} {int_constant(0x3FBFFFFF, v.word)})"
    )
    row = v.integer("lshr", place, 18)  # 18 bits below the five that choose
    c, table_high, table_low = looked_up(v, "pow", _columns(), row)
    d = v.call("fma", m, c, -1.0)  # exact, as c has so few bits
    start = v.add(k, table_high)
    high = v.call("fma", d, _LOG2_E, start)
    lost = v.call("fma", d, _LOG2_E, v.sub(start, high))
    low = v.call("fma", d, v.polynomial(d, v.coefficients("POWER")), table_low)
    return high, lost, low


def _columns() -> tuple[list[float], list[float], list[float]]:
    """c, and 16 bits of -log2 c behind the point and the rest."""
    c = [choice / 128 for choice in _CHOICES]
    logarithms = [-math.log2(value) for value in c]
    high = [round(value * 65536) / 65536 for value in logarithms]  # 16 bits behind the point: sums with k are exact
    return c, high, [value - upper for value, upper in zip(logarithms, high, strict=True)]


def _log2_pair(v: Lanes, x: str) -> tuple[str, str]:
    """log2 |x| as a sum of two floats."""
    k, m = exponent_and_mantissa(v, v.absolute(x))
    above, lost = sum_of_two(v, 1.0, m)
    inverse = v.div(1.0, above)
    difference = v.sub(m, 1.0)  # exact, as m is near 1
    s = v.mul(difference, inverse)
    product, product_low = product_of_two(v, s, above)
    # the quotient's rest, divided once more
    rest = v.sub(v.sub(v.sub(difference, product), product_low), v.mul(s, lost))
    s_low = v.mul(rest, inverse)
    square, square_low = product_of_two(v, s, s)
    square_low = v.add(square_low, v.mul(v.add(s, s), s_low))  # 2 s s_low
    cube, cube_low = product_of_two(v, square, s)
    cube_low = v.add(cube_low, v.mul_add(square, s_low, v.mul(square_low, s)))
    factor, factor_low = sum_of_two(v, _THIRD[0], v.mul(square, v.polynomial(square, v.coefficients("POWER"))))
    factor_low = v.add(factor_low, _THIRD[1])
    tail, tail_low = product_of_two(v, cube, factor)
    tail_low = v.add(tail_low, v.mul_add(cube, factor_low, v.mul(cube_low, factor)))
    total, total_low = sum_of_two(v, s, tail)
    total_low = v.add(v.add(total_low, s_low), tail_low)
    high, low = product_of_two(v, total, _SLOPE[0])
    low = v.add(low, v.mul_add(total, _SLOPE[1], v.mul(total_low, _SLOPE[0])))
    result, result_low = sum_of_two(v, k, high)  # k is an integer, the greater of both
    return result, v.add(result_low, low)


def _rare(v: Lanes, x: str, y: str, product: str, result: str) -> str:
    """The result where x is not above 0 or y log2 |x| is huge: what is right already stays."""
    size = v.absolute(x)
    # 2^huge is infinite, and y log2 |x| has that sign
    result = v.choose(v.compare(">=", product, _huge(v)), float("inf"), result)
    result = v.choose(v.compare("<=", product, -_huge(v)), 0.0, result)
    # 1 to the infinite is 1, though inf * 0 is a NaN
    steady = v.both("and", v.compare("==", size, 1.0), v.compare("==", v.absolute(y), float("inf")))
    return _restore_sign(v, x, y, v.choose(steady, 1.0, result))


def _emit_in_float64(v: Lanes, x: str, y: str) -> str:
    size, wide = v.absolute(x), v.wide()
    k, m = exponent_and_mantissa(v, size)
    t = v.widen(v.sub(m, 1.0))
    logarithm = wide.mul_add(t, wide.split_polynomial(t, v.coefficients("POW_LOG2")), v.widen(k))
    # An infinite y as a large one: times log2(1) it is 0.
    # beyond these bounds float32 is 0 or infinite
    product = wide.clamp(wide.mul(v.widen(v.clamp(y, -1e15, 1e15)), logarithm), -160.0, 140.0)
    whole, shifted = rounded(v, v.narrow(product))
    return _restore_sign(v, x, y, exp2_parts(v, v.narrow(wide.sub(product, v.widen(whole))), whole, shifted))


def _restore_sign(v: Lanes, x: str, y: str, result: str) -> str:
    """x^y of |x|^y: the sign where y is odd, a NaN where x < 0 is finite and y no integer; 1 of x = 1 and of y = 0."""
    shown = v.choose(v.compare("<", v.absolute(y), 2.0 ** (v.mantissa_bits + 1)), y, 0.0)  # above, all are even
    number = v.f.op(f"fptosi {v.kind} {shown} to {llvm_type(v.word)}")
    broken = v.compare("!=", v.convert_to_float(number), shown)  # fractional y
    # the lowest bit of y at the sign's place, where x is negative
    sign = v.integer("and", v.integer("and", v.integer("shl", number, v.dtype.bits - 1), v.bits(x)), v.sign_bit)
    result = v.choose(broken, result, v.flip_bits(result, sign))  # parity is asked of integers alone
    finite = v.compare("<", v.absolute(x), float("inf"))
    undefined = v.both("and", v.both("and", v.compare("<", x, 0.0), finite), broken)
    is_one = v.both("or", v.compare("==", x, 1.0), v.compare("==", y, 0.0))  # even of a NaN
    return v.choose(is_one, 1.0, v.choose(undefined, float("nan"), result))
