"""exp, exp2, log, log2, tanh, sigmoid and erf of float32, in operations that every machine has for vectors.

Scalars and vectors of any length run the same operations, so a loop's vector body and its scalar tail agree. Errors are
at most 2 units in the last place (exp, exp2, log, log2) and 3 (tanh, sigmoid, erf); subnormal arguments and results,
infinities and NaN are right. The coefficients are least-maximum fits made for these intervals (Lawson's reweighted
least squares: C. L. Lawson, 1961), rounded to float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.dtype import FLOAT32, INT32, DType
from ...ir.ops import round_float
from .arithmetic import compare, select
from .text import FunctionText
from .types import float_constant, int_constant, llvm_type, mangled

__all__ = ["FLOAT32_FUNCTIONS"]

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6
_ROUNDING = 12582912.0
"""1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits."""

# e^r = 1 + r + r^2 P(r), |r| <= ln(2) / 2
_EXP = (0.49999993050491404, 0.1666651478912084, 0.04166845683325397, 0.008369419043282787, 0.0013813142359079692)
# log(1 + t) = t - t^2 / 2 + t^3 P(t), 1 + t in [sqrt(1/2), sqrt(2)]
_LOG = (0.33333312602802817, -0.2500000960365515, 0.20002118732206173, -0.16667995667042987, 0.14219550908104028,
        -0.12405591418088328, 0.11888174600421096, -0.11675641297810521, 0.06746601315516584)
# tanh(x) = x + x^3 P(x^2), |x| <= 0.625
_TANH = (-0.3333327605726719, 0.13331274387980813, -0.053725123461707, 0.02058981753735954, -0.005648307609924715)
# erf(x) = x P(x^2), |x| <= 0.9
_ERF = (1.128379166764085, -0.37612634977045023, 0.11283714987720392, -0.02686050583546046, 0.0052038523044871,
        -0.0008175557470988087, 8.512740184850243e-05)
# erf(x) = 1 - e^-P(x), 0.9 <= x <= 4
_ERFC = (-0.0001705520312920571, 1.1294951590619657, 0.6333866465568884, 0.10823661933652672, -0.025091496782538573,
         0.004160526994219437, -0.0004323030054317234, 2.0909555617488012e-05)


class _Lanes:
    """float32 operations of one width. Constants are written where they are used."""

    def __init__(self, f: FunctionText, dtype: DType) -> None:
        self.f, self.dtype, self.word = f, dtype, INT32.with_lanes(dtype.lanes)
        self.kind, self.word_kind, self.suffix = llvm_type(dtype), llvm_type(self.word), mangled(dtype)

    def text(self, value: str | float) -> str:
        return value if isinstance(value, str) else float_constant(round_float(value, FLOAT32), self.dtype)

    def _binary(self, operation: str, a: str | float, b: str | float) -> str:
        return self.f.op(f"{operation} {self.kind} {self.text(a)}, {self.text(b)}")

    def add(self, a: str | float, b: str | float) -> str:
        return self._binary("fadd", a, b)

    def sub(self, a: str | float, b: str | float) -> str:
        return self._binary("fsub", a, b)

    def mul(self, a: str | float, b: str | float) -> str:
        return self._binary("fmul", a, b)

    def div(self, a: str | float, b: str | float) -> str:
        return self._binary("fdiv", a, b)

    def mul_add(self, a: str | float, b: str | float, c: str | float) -> str:
        """a * b + c, fused where that is an instruction."""
        operands = ", ".join(f"{self.kind} {self.text(x)}" for x in (a, b, c))
        return self.f.op(f"call {self.kind} @llvm.fmuladd.{self.suffix}({operands})")

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """By Horner's rule; the constant term first."""
        result: str | float = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            result = self.mul_add(result, x, coefficient)
        return self.text(result)

    def absolute(self, x: str) -> str:
        return self.f.op(f"call {self.kind} @llvm.fabs.{self.suffix}({self.kind} {x})")

    def with_sign(self, x: str, sign: str) -> str:
        return self.f.op(f"call {self.kind} @llvm.copysign.{self.suffix}({self.kind} {x}, {self.kind} {sign})")

    def choose(self, condition: str, a: str | float, b: str | float) -> str:
        return select(self.f, condition, self.text(a), self.text(b), self.dtype)

    def less(self, a: str, b: float) -> str:
        return compare(self.f, "<", a, self.text(b), self.dtype)

    def clamp(self, x: str, low: float, high: float) -> str:
        """x within [low, high]; a NaN stays."""
        x = self.choose(self.less(x, low), low, x)
        return self.choose(compare(self.f, ">", x, self.text(high), self.dtype), high, x)

    def bits(self, x: str) -> str:
        return self.f.op(f"bitcast {self.kind} {x} to {self.word_kind}")

    def from_bits(self, x: str) -> str:
        return self.f.op(f"bitcast {self.word_kind} {x} to {self.kind}")

    def integer(self, operation: str, a: str, b: str | int) -> str:
        right = b if isinstance(b, str) else int_constant(b, self.word)
        return self.f.op(f"{operation} {self.word_kind} {a}, {right}")

    def to_float(self, x: str) -> str:
        return self.f.op(f"sitofp {self.word_kind} {x} to {self.kind}")

    def power_of_two(self, n: str) -> str:
        """2^n for n from -126 to 127."""
        return self.from_bits(self.integer("shl", self.integer("add", n, 127), 23))


def _round(v: _Lanes, x: str) -> tuple[str, str]:
    """The nearest integer to |x| < 2^22 as a float and as an int32 (which is anything for a NaN)."""
    shifted = v.add(x, _ROUNDING)
    return v.sub(shifted, _ROUNDING), v.integer("sub", v.bits(shifted), 0x4B400000)


def _exp_scaled(v: _Lanes, r: str, n: str) -> str:
    """e^r 2^n. In two steps, so that results below 2^-126 and above 2^127 come out right."""
    tail = v.mul_add(v.mul(r, r), v.polynomial(r, _EXP), r)
    half = v.integer("ashr", n, 1)
    scaled = v.mul(v.add(tail, 1.0), v.power_of_two(half))
    return v.mul(scaled, v.power_of_two(v.integer("sub", n, half)))


def _exp(v: _Lanes, x: str) -> str:
    x = v.clamp(x, -105.0, 89.0)  # beyond, the result is 0 and infinity as it is at these ends
    whole, n = _round(v, v.mul(x, _LOG2E))
    r = v.mul_add(whole, -_LN2_LOW, v.mul_add(whole, -_LN2_HIGH, x))
    return _exp_scaled(v, r, n)


def _exp2(v: _Lanes, x: str) -> str:
    x = v.clamp(x, -151.0, 129.0)
    whole, n = _round(v, x)
    return _exp_scaled(v, v.mul(v.sub(x, whole), 0.6931471805599453), n)


def _log_parts(v: _Lanes, x: str) -> tuple[str, str, str]:
    """x = 2^k (1 + t) as k, t and log(1 + t) - t, for finite x > 0."""
    small = v.less(x, 1.1754943508222875e-38)
    bits = v.bits(v.choose(small, v.mul(x, 8388608.0), x))
    exponent = v.integer("ashr", v.integer("sub", bits, 0x3F3504F3), 23)
    t = v.sub(v.from_bits(v.integer("sub", bits, v.integer("shl", exponent, 23))), 1.0)
    k = v.sub(v.to_float(exponent), v.choose(small, 23.0, 0.0))
    square = v.mul(t, t)
    rest = v.mul_add(v.mul(square, t), v.polynomial(t, _LOG), v.mul(square, -0.5))
    return k, t, rest


def _log_ends(v: _Lanes, x: str, result: str) -> str:
    """log(0) is -infinity, of less a NaN; infinity and NaN stay."""
    infinity = float("inf")
    result = v.choose(compare(v.f, "<", x, v.text(infinity), v.dtype), result, x)
    result = v.choose(compare(v.f, "==", x, v.text(0.0), v.dtype), -infinity, result)
    return v.choose(v.less(x, 0.0), float("nan"), result)


def _log(v: _Lanes, x: str) -> str:
    k, t, rest = _log_parts(v, x)
    return _log_ends(v, x, v.mul_add(k, _LN2_HIGH, v.add(v.mul_add(k, _LN2_LOW, rest), t)))


def _log2(v: _Lanes, x: str) -> str:
    k, t, rest = _log_parts(v, x)
    # log2(e) in two parts, so that the product with t, which dominates near x = 1, keeps its last bits.
    low = v.mul_add(v.add(t, rest), _LOG2E - 1.4423828125, v.mul(rest, 1.4423828125))
    return _log_ends(v, x, v.add(v.mul_add(t, 1.4423828125, low), k))


def _tanh(v: _Lanes, x: str) -> str:
    size = v.absolute(x)
    square = v.mul(x, x)
    near = v.mul_add(v.mul(square, x), v.polynomial(square, _TANH), x)
    far = v.sub(1.0, v.div(2.0, v.add(_exp(v, v.add(size, size)), 1.0)))
    return v.with_sign(v.choose(v.less(size, 0.625), near, far), x)  # near is +0 for -0


def _sigmoid(v: _Lanes, x: str) -> str:
    negative = v.less(x, 0.0)
    size = v.absolute(x)
    decayed = _exp(v, v.sub(0.0, size))  # at most 1: neither side can overflow
    return v.div(v.choose(negative, decayed, 1.0), v.add(decayed, 1.0))


def _erf(v: _Lanes, x: str) -> str:
    size = v.absolute(x)
    near = v.mul(x, v.polynomial(v.mul(x, x), _ERF))
    far_argument = v.clamp(size, 0.0, 4.0)  # erf(4) rounds to 1
    far = v.sub(1.0, _exp(v, v.sub(0.0, v.polynomial(far_argument, _ERFC))))
    return v.choose(v.less(size, 0.9), near, v.with_sign(far, x))


def _emitter(function: Callable[[_Lanes, str], str]) -> Callable[[FunctionText, str, DType], str]:
    return lambda f, x, dtype: function(_Lanes(f, dtype), x)


FLOAT32_FUNCTIONS: dict[str, Callable[[FunctionText, str, DType], str]] = {
    name: _emitter(function)
    for name, function in (("exp", _exp), ("exp2", _exp2), ("log", _log), ("log2", _log2), ("tanh", _tanh),
                           ("sigmoid", _sigmoid), ("erf", _erf))
}
"""By intrinsic's name: (function being written, operand, its dtype) -> result."""
