"""Conditions on the lanes of a vector, as facts about all of them."""

from __future__ import annotations

from ...analysis.linear import is_index, linear, occurs
from ...expr import EQ, GE, GT, LE, LT, NE, And, CompareOp, Expr, Not, Var
from ...ops import const, logical_not
from ...visit import walk
from ..common.fresh_copy import substitute_expr

__all__ = ["negation", "some_active"]


def negation(condition: Expr) -> Expr:
    """The opposite, as a comparison where `condition` is one on integers (floats have NaN)."""
    opposites: dict[type[Expr], type[CompareOp]] = {LT: GE, GE: LT, GT: LE, LE: GT, EQ: NE, NE: EQ}
    opposite = opposites.get(type(condition))
    # not (a < b) is not a >= b where one of them is NaN
    if opposite is not None and isinstance(condition, CompareOp) and not condition.a.dtype.is_float:
        return opposite(condition.a, condition.b)
    return logical_not(condition)


def some_active(condition: Expr, lane: Var, lanes: int) -> Expr | None:
    """A scalar condition that holds exactly where `condition` holds for some lane: that of the first lane where all
    its parts are upper bounds of the lane, of the last where all are lower bounds; else None."""
    signs: set[int] = set()
    stack = [condition]
    while stack:
        part = stack.pop()
        if isinstance(part, And):
            stack += (part.a, part.b)
        elif any(node is lane for node in walk(part)):
            signs.add(_direction(part, lane))
    if len(signs) != 1 or 0 in signs:  # parts that bound the lane from both sides have no extreme lane
        return None
    # the first lane meets every upper bound first, the last one every lower bound
    where = 0 if signs == {1} else lanes - 1
    return substitute_expr(condition, {lane: const(where, lane.dtype)})


def _direction(part: Expr, lane: Var) -> int:
    """1 where `part` bounds the lane from above, -1 from below, 0 where it does something else."""
    if isinstance(part, Not):
        return 0
    if not isinstance(part, (LT, LE, GT, GE)) or not (is_index(part.a) and is_index(part.b)):
        return 0  # an index does not wrap, which the linear form relies on
    form = linear(part.a).plus(linear(part.b), -1)
    coefficient = form.coefficient(lane)
    if coefficient == 0 or occurs(lane, form):
        return 0
    upper = isinstance(part, (LT, LE)) == (coefficient > 0)
    return 1 if upper else -1
