"""The mathematical functions of float32 and float64, in operations that every machine has for vectors.

Scalars and vectors of any length run the same operations, so a loop's vector body and its scalar tail agree. Errors are
at most 2 units in the last place (of float32 with fast_math 16); subnormal arguments and results, infinities, NaN and arguments of
any size are right. tools/benchmarks/ulp.py looks at every float32. Coefficients: maths_polynomials.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtype import DType
from .emitter import ExprEmitter
from .maths_arc import acos, asin, atan, atan2, hypot
from .maths_exp import erf, exp, exp2, exp10, expm1, sigmoid, tanh
from .maths_hyperbolic import acosh, asinh, atanh, cosh, sinh
from .maths_lanes import Lanes, concatenate, take_lanes
from .maths_log import log, log1p, log2, log10
from .maths_power import power
from .maths_trig import cos, sin, tan
from .types import float_constant

__all__ = ["FUNCTIONS", "FloatRow"]

FloatRow = Callable[["ExprEmitter", list[str], DType], str]
"""(emitter, operands, their dtype: float32, float64 or vectors of these) -> result."""

_WIDEST = 512
"""Bits of the registers that instructions called by name take."""


def _row(function: Callable[..., str], whole: bool = False) -> FloatRow:
    """Row of vectors longer than the instructions that are called by name take, piece by piece. whole: shorter ones, too, and what
    is left of longer ones, are filled up."""

    def build(em: ExprEmitter, operands: list[str], dtype: DType) -> str:
        widest = _WIDEST // dtype.bits
        # pow's table pays for filled vectors, other functions run at their own width
        wide = dtype.lanes > 1 if whole else dtype.lanes > widest and dtype.lanes % widest == 0
        if not em.maths.avx512 or not wide or dtype.lanes == widest:
            return function(Lanes(em.f, dtype, em.maths), *operands)
        lanes = Lanes(em.f, dtype.with_lanes(widest), em.maths)
        one = float_constant(1.0, dtype)  # 1 is in every function's range: no lane raises or is slow
        parts = [
            function(lanes, *(take_lanes(em.f, x, dtype, range(i, i + widest), one) for x in operands))
            for i in range(0, dtype.lanes, widest)
        ]
        return concatenate(em.f, parts, lanes.dtype, dtype)

    return build


def _rsqrt(v: Lanes, x: str) -> str:
    # the estimate has 14 bits, one step doubles them: enough for float32 alone
    if not (v.options.fast and v.has_avx512) or v.dtype.bits == 64:
        return v.div(1.0, v.call("sqrt", x))
    guess = v.avx512("rsqrt14", f"{v.kind} {x}")
    missing = v.mul_add(v.negative(v.mul(x, guess)), guess, 1.0)  # 1 - x guess^2
    better = v.mul_add(v.mul(guess, 0.5), missing, guess)  # a step of Newton's
    return v.choose(v.compare("==", missing, missing), better, guess)  # of 0 and infinity the guess is exact


FUNCTIONS: dict[str, FloatRow] = {
    function.__name__: _row(function)
    for function in (
        *(exp, exp2, exp10, expm1, tanh, sigmoid, erf, log, log2, log10, log1p, sin, cos, tan),
        *(asin, acos, atan, atan2, hypot, sinh, cosh, asinh, acosh, atanh),
    )
} | {"rsqrt": _row(_rsqrt), "pow": _row(power, whole=True)}
"""By intrinsic's name."""
