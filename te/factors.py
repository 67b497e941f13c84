"""What sums of products multiply."""

from __future__ import annotations

from ..ir.combine import is_sum
from ..ir.expr import Expr, Mul
from ..ir.ops import is_const
from .operation import Operation

__all__ = ["factors"]


def factors(op: Operation) -> tuple[Expr, Expr] | None:
    """What an operation multiplies, if it is a plain sum of products."""
    reduction = op.reduction
    if reduction is None or len(op.values) > 1 or reduction.init or not is_const(reduction.condition, 1):
        return None
    value = reduction.sources[0]
    return (value.a, value.b) if is_sum(reduction) and isinstance(value, Mul) else None
