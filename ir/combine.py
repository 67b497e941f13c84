"""Combination of a reduction's partial results with the elements that it takes up next."""

from __future__ import annotations

from collections.abc import Sequence

from .expr import Add, Call, Expr, IterVar, Mul, Reduce, Var
from .ops import is_const
from .visit import post_order, substitute

__all__ = ["FUSED", "captured_axes", "combine_values", "is_fused", "is_sum", "mul_add"]

FUSED = ("fma", "mul_add")
"""Calls that are a product and a sum."""


def mul_add(a: Expr, b: Expr, c: Expr) -> Expr:
    """c + a * b as a te.sum takes up a product: of float32 and float64 rounded once where the target fuses."""
    fuses = c.dtype.is_float and c.dtype.bits >= 32 and a.dtype == b.dtype == c.dtype
    return Call("mul_add", (a, b, c), c.dtype) if fuses else c + a * b


def is_fused(reduction: Reduce, at: int) -> bool:
    """Return whether source `at` is a product that the sum takes up with one rounding, where the target fuses."""
    return bool(reduction.fused) and reduction.fused[at]


def combine_values(reduction: Reduce, elements: Sequence[Expr], sources: Sequence[Expr]) -> list[Expr]:
    """The next value of each of the reduction's elements, from those they have and the next sources.

    A source that was declared as a product to be fused, and is one still, is taken up by `mul_add`. (It is one still but
    where simplification has found a factor to be 1, which rounds nothing.)
    """
    combiner = reduction.combiner
    operands: dict[Var, Expr] = dict(zip((*combiner.lhs, *combiner.rhs), (*elements, *sources), strict=True))
    results: list[Expr] = []
    for at, (result, element, source) in enumerate(zip(combiner.result, elements, sources, strict=True)):
        if is_fused(reduction, at) and isinstance(source, Mul):
            results.append(mul_add(source.a, source.b, element))
        else:
            results.append(substitute(result, operands))
    return results


def captured_axes(reduction: Reduce) -> list[IterVar]:
    """The axes that the combiner itself or its identity reads, beside the two values that it is given."""
    combiner = reduction.combiner
    return [node for node in post_order(*combiner.result, *combiner.identity) if isinstance(node, IterVar)]


def is_sum(reduction: Reduce) -> bool:
    """Return whether it adds up the terms of one source, from 0, and nothing else."""
    combiner = reduction.combiner
    result = combiner.result[0]
    return (
        len(reduction.sources) == 1
        and isinstance(result, Add)
        and is_const(combiner.identity[0], 0)
        and {result.a, result.b} == {combiner.lhs[0], combiner.rhs[0]}
    )
