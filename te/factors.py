"""Factors of sums of products."""

from __future__ import annotations

from ..ir import Cast, Expr, FloatImm, IfThenElse, IntImm, Mul, ProducerLoad, post_order
from ..ir.combine import is_sum
from ..ir.ops import is_const
from .operation import Operation

__all__ = ["factors", "guarded_load", "product_factors", "strip_casts"]


def factors(op: Operation) -> tuple[Expr, Expr] | None:
    """Return what an operation multiplies, if it is a plain sum of products."""
    reduction = op.reduction
    # what the first term adds to, and conditions, belong to the sum
    if reduction is None or len(op.values) > 1 or reduction.init or not is_const(reduction.condition, 1):
        return None
    value = reduction.sources[0]
    return (value.a, value.b) if is_sum(reduction) and isinstance(value, Mul) else None


def product_factors(value: Expr) -> list[Expr]:
    """Return what a product multiplies, left to right, however it is put in brackets."""
    factors: list[Expr] = []
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, Mul):
            stack += [node.b, node.a]  # right before left, as the stack gives the last first
        else:
            factors.append(node)
    return factors


def strip_casts(value: Expr) -> Expr:
    """Return what is converted, however often."""
    while isinstance(value, Cast):
        value = value.value
    return value


def guarded_load(value: Expr) -> ProducerLoad | None:
    """Return what an element of a padded image reads, `te.if_then_else(0 < i, A[i - 1], 0.0)`: the load that happens where a condition of
    axes holds, a constant being there otherwise; None of any other expression."""
    if (
        isinstance(value, IfThenElse)
        and isinstance(value.true_value, ProducerLoad)
        and isinstance(value.false_value, (FloatImm, IntImm))
        # a condition that reads a tensor is data
        and not any(isinstance(node, ProducerLoad) for node in post_order(value.condition))
    ):
        return value.true_value
    return None
