"""Values that are 0 unless a condition holds."""

from __future__ import annotations

from ..expr import Cast, Expr, IfThenElse, Select
from ..ops import cast, const, is_const

__all__ = ["value_or_zero"]


def value_or_zero(value: Expr) -> tuple[Expr, Expr] | None:
    """The condition and what the value is where it holds, of one that is 0 elsewhere: a choice, or a truth as a number."""
    if isinstance(value, IfThenElse | Select) and is_const(value.false_value, 0):
        return value.condition, value.true_value
    if not isinstance(value, Cast):
        return None
    if value.value.dtype.is_bool:
        return value.value, const(1, value.dtype)
    inner = value_or_zero(value.value)
    return None if inner is None else (inner[0], cast(inner[1], value.dtype))
