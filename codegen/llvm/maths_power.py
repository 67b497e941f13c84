"""pow of float32: 2^(y log2 |x|), whose logarithm needs some 31 bits, as the product with y may be 150.

By a table of 32 rows: x = 2^k m, the upper bits of m choose c near 1 / m of so few bits that d = m c - 1, less than 2^-5, is exact
(P.-T. P. Tang, 1990), and k - log2 c + log2(1 + d) is a sum of floats. The row around 1 has c = 1: there nothing cancels. Two
comparisons find the lanes whose power is something else, which is put right out of the way. Every machine that fuses does this, so
that all of them give the same bits; others take the logarithm in float64. Coefficients: tests/support/fit_maths.py, whose names for
them these are.
"""

from __future__ import annotations

import math

from .maths_calls import called, where
from .maths_exp import exp2_of, exp2_parts
from .maths_lanes import ROUNDING, Lanes, exponent_and_mantissa, power_of_two_times, rounded
from .maths_tables import looked_up
from .types import int_constant, llvm_type, mangled

__all__ = ["power"]

_CHOICES = (
    128,
    126,
    122,
    118,
    114,
    112,
    108,
    106,
    103,
    100,
    98,
    96,
    94,
    92,
    90,
    86,
    170,
    168,
    164,
    162,
    158,
    156,
    152,
    150,
    146,
    144,
    142,
    140,
    136,
    134,
    132,
    130,
)
"""128 c: for m from 1 on in steps of 1 / 32, from 3 / 4 on in steps of 1 / 64. Each row begins 3 / 4 of its step early."""
_HUGE = 1024.0
_LOG2_E = 1.4426950216293335
_POWER = (1.9247060834004515e-08, -0.7213475108146667, 0.48089849948883057, -0.360821932554245, 0.2891068458557129)
_POWER_FAST = (9.396086575463869e-09, -0.7213475704193115, 0.48105496168136597, -0.3609284460544586)

_POW_LOG2 = (
    1.4426950408885733,
    -0.7213475205958014,
    0.4808983474239557,
    -0.3606737213295918,
    0.2885388887198203,
    -0.2404519049619443,
    0.20610980831795003,
    -0.1802657754464644,
    0.15992482294598548,
    -0.14474774340701968,
    0.1365876935290013,
    -0.12676230229393862,
    0.09054891343652259,
    -0.03229348770131788,
)
_POW_LOG2_FAST = (
    1.4426950348994207,
    -0.7213475373702767,
    0.4809007725791781,
    -0.3606748553497089,
    0.2883840292498042,
    -0.2401481710786377,
    0.2091010504440895,
    -0.19027892889838377,
    0.15066769561080384,
    -0.06434449045369212,
)


def power(v: Lanes, x: str, y: str) -> str:
    """x^y, in the cases of C's pow (annex F of its standard)."""
    if not v.options.fused:
        return _through_float64(v, x, y)
    return _by_table(v, x, y) if v.dtype.lanes > 1 else called(v, "pow", _by_table, x, y)


def _by_table(v: Lanes, x: str, y: str) -> str:
    high, lost, low = _log2(v, x)
    product = v.mul(y, high)
    whole = v.call("roundeven", v.call("fma", y, low, product))
    rest = v.call("fma", y, lost, v.call("fma", y, high, v.negative(product)))
    rest = v.add(
        v.call("fma", y, low, v.sub(product, whole)), rest
    )  # the greatest first: what it leaves is less than 1 / 2
    result = _scaled(v, exp2_of(v, rest), whole)
    bits = llvm_type(v.word)
    # An x that is not above 0, infinite or a NaN, and a product whose last bits are no fraction or that is none.
    outside = v.f.op(f"icmp uge {bits} {v.integer('sub', v.bits(x), 1)}, {int_constant(0x7F7FFFFF, v.word)}")
    beyond = v.f.op(f"fcmp uge {v.kind} {v.absolute(product)}, {v.text(_HUGE)}")
    return where(v, v.both("or", outside, beyond), result, "pow_rare", _rare, x, y, product, result)


def _scaled(v: Lanes, x: str, whole: str) -> str:
    """x 2^n of an x near 1, n an integer."""
    if v.has_avx512:
        return v.scaled(x, whole)
    near = v.clamp(whole, -200.0, 200.0)  # beyond, the result is 0 or infinite as well
    return power_of_two_times(v, x, near, v.add(near, ROUNDING))


def _log2(v: Lanes, x: str) -> tuple[str, str, str]:
    """log2 |x| as a sum of floats: the last is up to 1 / 80 of the first, the other one makes up for a rounding."""
    k, m = exponent_and_mantissa(v, v.absolute(x))
    # What is above the last row's m, which would be in the row of 3 / 4, is in the last one.
    bits = llvm_type(v.word)
    place = v.integer("add", v.bits(m), 3 << 16)
    place = v.f.op(
        f"call {bits} @llvm.smin.{mangled(v.word)}({bits} {place}, {bits} {int_constant(0x3FBFFFFF, v.word)})"
    )
    row = v.integer("lshr", place, 18)
    c, table_high, table_low = looked_up(v, "pow", _columns(), row)
    d = v.call("fma", m, c, -1.0)
    start = v.add(k, table_high)
    high = v.call("fma", d, _LOG2_E, start)
    lost = v.call("fma", d, _LOG2_E, v.sub(start, high))
    low = v.call("fma", d, v.polynomial(d, _POWER_FAST if v.options.fast else _POWER), table_low)
    return high, lost, low


def _columns() -> tuple[list[float], list[float], list[float]]:
    """c, and 16 bits of -log2 c behind the point and the rest."""
    c = [choice / 128 for choice in _CHOICES]
    logarithms = [-math.log2(value) for value in c]
    high = [round(value * 65536) / 65536 for value in logarithms]
    return c, high, [value - upper for value, upper in zip(logarithms, high, strict=True)]


def _rare(v: Lanes, x: str, y: str, product: str, result: str) -> str:
    """The result where x is not above 0 or y log2 |x| is huge: what is right already stays."""
    size = v.absolute(x)
    result = v.choose(v.compare(">=", product, _HUGE), float("inf"), result)
    result = v.choose(v.compare("<=", product, -_HUGE), 0.0, result)
    steady = v.both("and", v.compare("==", size, 1.0), v.compare("==", v.absolute(y), float("inf")))
    return _signed(v, x, y, v.choose(steady, 1.0, result))


def _through_float64(v: Lanes, x: str, y: str) -> str:
    size, wide = v.absolute(x), v.wide()
    k, m = exponent_and_mantissa(v, size)
    t = v.widened(v.sub(m, 1.0))
    logarithm = wide.mul_add(t, wide.split_polynomial(t, _POW_LOG2_FAST if v.options.fast else _POW_LOG2), v.widened(k))
    # An infinite y as a large one: times log2(1) it is 0.
    product = wide.clamp(wide.mul(v.widened(v.clamp(y, -1e15, 1e15)), logarithm), -160.0, 140.0)
    whole, shifted = rounded(v, v.narrowed(product))
    return _signed(v, x, y, exp2_parts(v, v.narrowed(wide.sub(product, v.widened(whole))), whole, shifted))


def _signed(v: Lanes, x: str, y: str, result: str) -> str:
    """x^y of |x|^y: the sign where y is odd, a NaN where x < 0 is finite and y no integer; 1 of x = 1 and of y = 0."""
    shown = v.choose(v.compare("<", v.absolute(y), 16777216.0), y, 0.0)  # above, all are even
    number = v.f.op(f"fptosi {v.kind} {shown} to {llvm_type(v.word)}")
    broken = v.compare("!=", v.to_float(number), shown)
    sign = v.integer("and", v.integer("and", v.integer("shl", number, 31), v.bits(x)), -0x80000000)
    result = v.choose(broken, result, v.flipped(result, sign))
    finite = v.compare("<", v.absolute(x), float("inf"))
    undefined = v.both("and", v.both("and", v.compare("<", x, 0.0), finite), broken)
    is_one = v.both("or", v.compare("==", x, 1.0), v.compare("==", y, 0.0))
    return v.choose(is_one, 1.0, v.choose(undefined, float("nan"), result))
