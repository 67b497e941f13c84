"""Guards of a tensorized loop that are the same for everything inside it.

    i * 16 + ii < 96, ii in 0..15      →      i * 16 < 96

A guard is met by all inner iterations or by none where what they add never reaches the next multiple that its other terms
step by: tiles that begin at multiples of their size, in a tensor that is a multiple of it, lie inside as a whole or not at
all.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.arith.analyzer import Analyzer
from ...ir.expr import GE, LT, Expr, Var
from ...ir.ops import const
from ...ir.visit import free_vars, substitute

__all__ = ["without_inner"]


def without_inner(condition: Expr, inner: Iterable[Var], analyzer: Analyzer) -> Expr:
    """`condition` at the first of the inner iterations, where it says the same at all of them; else as it is."""
    changing = set(inner) & set(free_vars(condition))
    if not changing or not isinstance(condition, (LT, GE)):
        return condition
    first: dict[Var, Expr] = {var: const(0, var.dtype) for var in changing}
    difference = condition.a - condition.b
    begin = analyzer.simplify(substitute(difference, first))
    added, steps = analyzer.interval(analyzer.simplify(difference - begin)), analyzer.modular(begin)
    if added.lo is None or added.hi is None or added.lo < 0 or steps.coeff <= 0:
        return condition
    greatest_negative = steps.base % steps.coeff - steps.coeff
    if greatest_negative + added.hi >= 0:
        return condition
    return analyzer.simplify(substitute(condition, first))
