"""Whether the order matters in which a reduction takes up its terms."""

from __future__ import annotations

from ...ir.expr import Add, And, Call, Expr, Max, Min, Mul, Or, Reduce, Var
from ...ir.visit import post_order

__all__ = ["is_ordered"]


def is_ordered(reduction: Reduce) -> bool:
    """Whether the bits of a reduction depend on the order in which it takes up its terms."""
    combiner = reduction.combiner
    if not any(var.dtype.is_float for var in combiner.lhs):
        return any(node.dtype.is_float for result in combiner.result for node in post_order(result))
    return not all(map(_any_order, combiner.result, combiner.lhs, combiner.rhs))


def _any_order(result: Expr, lhs: Var, rhs: Var) -> bool:
    """Whether an element is joined by an operator that is associative and commutative to the last bit."""
    if isinstance(result, Call):
        return result.name in ("bitwise_and", "bitwise_or", "bitwise_xor") and {*result.args} == {lhs, rhs}
    if not isinstance(result, (Add, Mul, Min, Max, And, Or)) or {result.a, result.b} != {lhs, rhs}:
        return False
    return isinstance(result, (Min, Max, And, Or)) or not result.dtype.is_float
