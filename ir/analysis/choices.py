"""Choices that are clamps: an index that is chosen by comparisons, as one expression whose ends can be told.

    select(i < 0, 0, select(i >= n, n - 1, i))      is      min(max(i, 0), n - 1)
    if_then_else(i > 0, i - 1, 0)                   is      max(i, 1) - 1

A region takes both arms of a choice for possible. Here is asked whether one arm, continued beyond where it applies, is the
other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..arith.analyzer import Analyzer
from ..arith.linear import LinearForm
from ..dtype import INT32, INT64
from ..expr import GE, GT, LE, LT, Add, Call, Expr, IfThenElse, IntImm, Max, Min, Select, Sub, Var
from ..ops import maximum, minimum
from ..visit import Rewriter
from .linear import linear

__all__ = ["merge_choices"]


def merge_choices(choice: Select | IfThenElse, analyzer: Analyzer) -> Expr | None:
    """An integer choice as an expression that has its value, in which the comparison is a minimum or maximum or is not
    there at all; None where none is found."""
    condition = choice.condition
    while isinstance(condition, Call) and condition.name == "likely":  # the hint is no part of the condition
        condition = condition.args[0]
    for arm, other, sides in (
        (choice.true_value, choice.false_value, _sides(condition, holds=True)),
        (choice.false_value, choice.true_value, _sides(condition, holds=False)),
    ):
        for x, edge, above in sides:
            for end in (edge, edge - 1 if above else edge + 1):  # at both of which the arms may be the same
                at_end = _Replaced(x, end).visit(arm)
                if at_end is not arm and analyzer.can_prove_equal(at_end, other):
                    return _Replaced(x, maximum(x, end) if above else minimum(x, end)).visit(arm)
    # under the condition the arms may be equal although they look different
    with analyzer.constraint(choice.condition):
        same = analyzer.can_prove_equal(choice.true_value, choice.false_value)
    return choice.false_value if same else None


def _sides(condition: Expr, holds: bool) -> Iterator[tuple[Expr, Expr, bool]]:
    """(x, edge, above): where a comparison of indices holds (or does not), x is at least (above) or at most `edge`."""
    if not isinstance(condition, (LT, LE, GT, GE)) or condition.a.dtype not in (INT32, INT64):  # other dtypes may wrap
        return
    upwards, strict = isinstance(condition, (GT, GE)), isinstance(condition, (LT, GT))
    for x, y, above in ((condition.a, condition.b, upwards), (condition.b, condition.a, not upwards)):
        if not isinstance(x, IntImm):  # a constant is no index that could be clamped
            offset = int(strict) if holds else int(not strict)
            above = above == holds
            yield x, y + offset if above else y - offset, above


class _Replaced(Rewriter):
    """Replace an index, also where a constant is added to it."""

    def __init__(self, x: Expr, by: Expr) -> None:
        self.x, self.by, self.form = x, by, linear(x)

    def visit(self, node: Any) -> Any:
        if isinstance(node, (Var, Add, Sub, Min, Max)) and node.dtype == self.x.dtype:
            apart: LinearForm = linear(node).plus(self.form, -1)
            if apart.is_const:  # an index plus a constant is the same index, moved
                return self.by + apart.const if apart.const else self.by
        return super().visit(node)
