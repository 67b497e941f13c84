"""log, log2, log10, log1p and pow of float32.

x = 2^k m with m in [3/4, 3/2); log m of t = m - 1, which is exact, by t - t^2 / 2 + t^3 P(t). pow takes log2 in float64,
whose spare bits the product with the exponent uses up. Coefficients: tests/fit_maths.py, whose names for them these are.
"""

from __future__ import annotations

from .maths_exp import exp2_parts
from .maths_lanes import Lanes, exponent_and_mantissa, rounded
from .types import llvm_type

__all__ = ["log", "log1p", "log2", "log10", "power"]

_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6
_LOG10_2_HIGH, _LOG10_2_LOW = 0.301025390625, 4.605038981195214e-06

_LOG = (0.3333345055580139, -0.25000107288360596, 0.1999082863330841, -0.16646894812583923, 0.14477960765361786,
        -0.13164564967155457, 0.104725681245327, -0.04514699429273605)
_LOG_FAST = (0.3333107531070709, -0.24985617399215698, 0.20094811916351318, -0.17274846136569977, 0.14064480364322662,
             -0.06708359718322754)
_POW_LOG2 = (1.4426950408885733, -0.7213475205958014, 0.4808983474239557, -0.3606737213295918, 0.2885388887198203,
             -0.2404519049619443, 0.20610980831795003, -0.1802657754464644, 0.15992482294598548, -0.14474774340701968,
             0.1365876935290013, -0.12676230229393862, 0.09054891343652259, -0.03229348770131788)
_POW_LOG2_FAST = (1.4426950348994207, -0.7213475373702767, 0.4809007725791781, -0.3606748553497089, 0.2883840292498042,
                  -0.2401481710786377, 0.2091010504440895, -0.19027892889838377, 0.15066769561080384, -0.06434449045369212)


def _tail(v: Lanes, t: str) -> str:
    """log(1 + t) - t."""
    square = v.mul(t, t)
    return v.mul_add(v.mul(square, t), v.polynomial(t, _LOG_FAST if v.options.fast else _LOG), v.mul(square, -0.5))


def _natural(v: Lanes, k: str, t: str) -> str:
    """k ln 2 + log(1 + t)."""
    return v.mul_add(k, _LN2_HIGH, v.add(v.mul_add(k, _LN2_LOW, _tail(v, t)), t))


def log(v: Lanes, x: str) -> str:
    k, m = exponent_and_mantissa(v, x)
    return _natural(v, k, v.sub(m, 1.0))


def _less_greatest(v: Lanes, t: str, high: float, low: float) -> str:
    """log(1 + t) (high + low) - t high: the product with t, which dominates near x = 1, is to keep its last bits."""
    tail = _tail(v, t)
    return v.mul_add(v.add(t, tail), low, v.mul(tail, high))


def log2(v: Lanes, x: str) -> str:
    k, m = exponent_and_mantissa(v, x)
    t, high = v.sub(m, 1.0), 1.5  # times t it is exact
    small = _less_greatest(v, t, high, -0.05730495911103659)
    if v.options.fused:
        return v.add(v.mul_add(t, high, small), k)
    greatest = v.mul(t, high)
    whole = v.add(k, greatest)
    result = v.add(whole, v.add(v.sub(greatest, v.sub(whole, k)), small))  # with what `whole` was rounded by (T. Dekker, 1971)
    return v.choose(v.compare("<", v.absolute(k), 1000.0), result, k)


def log10(v: Lanes, x: str) -> str:
    k, m = exponent_and_mantissa(v, x)
    t, high = v.sub(m, 1.0), 0.43408203125
    small = v.add(_less_greatest(v, t, high, 0.00021245065325182765), v.mul(k, _LOG10_2_LOW))
    return v.mul_add(k, _LOG10_2_HIGH, v.mul_add(t, high, small))


def log1p(v: Lanes, x: str) -> str:
    """log(u) of u = 1 + x as it is rounded, whose rounding error (D. Knuth's sum of two) goes into t."""
    u = v.add(x, 1.0)
    taken = v.sub(u, 1.0)
    lost = v.add(v.sub(1.0, v.sub(u, taken)), v.sub(x, taken))
    k, m = exponent_and_mantissa(v, u)
    # 2^-k; for k beyond 100 nothing is lost that counts.
    _, shifted = rounded(v, v.clamp(k, -30.0, 100.0), -1.0)
    scale = v.from_bits(v.integer("add", v.integer("shl", v.bits(shifted), 23), 0x3F800000))
    t = v.mul_add(lost, scale, v.sub(m, 1.0))
    result = _natural(v, k, t)
    result = v.choose(v.compare("<", x, float("inf")), result, x)  # where the rounding error is a NaN
    return v.with_sign(result, x)


def power(v: Lanes, x: str, y: str) -> str:
    """2^(y log2 |x|), and the cases of C's pow (annex F of its standard)."""
    size, wide = v.absolute(x), v.wide()
    k, m = exponent_and_mantissa(v, size)
    t = v.widened(v.sub(m, 1.0))
    logarithm = wide.mul_add(t, wide.polynomial(t, _POW_LOG2_FAST if v.options.fast else _POW_LOG2), v.widened(k))
    # An infinite y as a large one: times log2(1) it is 0.
    product = wide.clamp(wide.mul(v.widened(v.clamp(y, -1e15, 1e15)), logarithm), -160.0, 140.0)
    whole, shifted = rounded(v, v.narrowed(product))
    result = exp2_parts(v, v.narrowed(wide.sub(product, v.widened(whole))), whole, shifted)
    one = v.both("or", v.compare("==", x, 1.0), v.compare("==", y, 0.0))
    return v.choose(one, 1.0, _of_negative(v, x, y, size, result))


def _of_negative(v: Lanes, x: str, y: str, size: str, result: str) -> str:
    """x^y of |x|^y: the sign where y is odd, a NaN where x < 0 is finite and y no integer."""
    shown = v.choose(v.compare("<", v.absolute(y), 16777216.0), y, 0.0)  # above, all are even
    number = v.f.op(f"fptosi {v.kind} {shown} to {llvm_type(v.word)}")
    broken = v.compare("!=", v.to_float(number), shown)
    sign = v.integer("and", v.integer("and", v.integer("shl", number, 31), v.bits(x)), -0x80000000)
    result = v.choose(broken, result, v.flipped(result, sign))
    undefined = v.both("and", v.both("and", v.compare("<", x, 0.0), v.compare("<", size, float("inf"))), broken)
    return v.choose(undefined, float("nan"), result)
