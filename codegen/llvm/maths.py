"""The mathematical functions of float32 that are our own, in operations that every machine has for vectors.

Scalars and vectors of any length run the same operations, so a loop's vector body and its scalar tail agree. Errors are
at most 2 units in the last place (with fast_math 16); subnormal arguments and results, infinities, NaN and arguments of
any size are right. tools/benchmarks/ulp.py looks at every float32.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtype import DType
from .emitter import ExprEmitter
from .maths_exp import erf, exp, exp2, expm1, sigmoid, tanh
from .maths_lanes import Lanes, joined, part_of
from .maths_log import log, log1p, log2, log10
from .maths_power import power
from .maths_trig import cos, sin
from .types import float_constant

__all__ = ["FLOAT32_FUNCTIONS"]

_WIDEST = 16


def _row(function: Callable[..., str], whole: bool = False) -> Callable[[ExprEmitter, list[str], DType], str]:
    """Of vectors longer than the instructions that are called by name take, piece by piece. whole: shorter ones, too, and what
    is left of longer ones, are filled up."""

    def build(em: ExprEmitter, operands: list[str], dtype: DType) -> str:
        wide = dtype.lanes > 1 if whole else dtype.lanes > _WIDEST and dtype.lanes % _WIDEST == 0
        if not em.maths.avx512 or not wide or dtype.lanes == _WIDEST:
            return function(Lanes(em.f, dtype, em.maths), *operands)
        lanes = Lanes(em.f, dtype.with_lanes(_WIDEST), em.maths)
        one = float_constant(1.0, dtype)
        parts = [
            function(lanes, *(part_of(em.f, x, dtype, range(i, i + _WIDEST), one) for x in operands))
            for i in range(0, dtype.lanes, _WIDEST)
        ]
        return joined(em.f, parts, lanes.dtype, dtype)

    return build


def _rsqrt(v: Lanes, x: str) -> str:
    if not (v.options.fast and v.has_avx512):
        return v.div(1.0, v.call("sqrt", x))
    guess = v.avx512("rsqrt14.ps", f"{v.kind} {x}")
    missing = v.mul_add(v.negative(v.mul(x, guess)), guess, 1.0)
    better = v.mul_add(v.mul(guess, 0.5), missing, guess)  # a step of Newton's
    return v.choose(v.compare("==", missing, missing), better, guess)  # of 0 and infinity the guess is exact


FLOAT32_FUNCTIONS: dict[str, Callable[[ExprEmitter, list[str], DType], str]] = {
    name: _row(function)
    for name, function in (
        ("exp", exp),
        ("exp2", exp2),
        ("expm1", expm1),
        ("tanh", tanh),
        ("sigmoid", sigmoid),
        ("erf", erf),
        ("log", log),
        ("log2", log2),
        ("log10", log10),
        ("log1p", log1p),
        ("sin", sin),
        ("cos", cos),
        ("rsqrt", _rsqrt),
    )
} | {"pow": _row(power, whole=True)}
"""By intrinsic's name: (emitter, operands, their dtype) -> result."""
