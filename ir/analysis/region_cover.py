"""Regions that move with variables: what they cover together, where that is a box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..arith import Analyzer
from ..expr import Expr, IntImm, Range, Var
from .linear import expression, linear, occurs

__all__ = ["covered_box"]


def covered_box(region: Sequence[Range], domains: Mapping[Var, Range]) -> list[tuple[Expr, Expr]] | None:
    """The least and the greatest index of each dimension, all of which lie in the region for some values of the variables, in every
    combination; None where that is not known: two dimensions move with one variable, steps are longer than what was covered before,
    or extents move themselves."""
    moved: set[Var] = set()
    boxes: list[tuple[Expr, Expr]] = []
    for within in region:
        found = _cover_dimension(within, domains)
        if found is None:
            return None
        low, high, variables = found
        if moved & variables:
            return None
        moved |= variables
        boxes.append((low, high))
    return boxes


def _cover_dimension(within: Range, domains: Mapping[Var, Range]) -> tuple[Expr, Expr, set[Var]] | None:
    """Cover of one dimension, with the variables that move it."""
    analyzer = Analyzer()
    form, extent = linear(analyzer.simplify(within.begin)), analyzer.simplify(within.extent)
    if any(occurs(var, form) for var in domains) or not isinstance(extent, IntImm) or extent.value < 1:
        return None
    variables = {var for var in domains if form.coefficient(var)}
    length, low = extent.value, form
    for var in sorted(variables, key=lambda var: abs(form.coefficient(var))):
        step, begin, count = (
            form.coefficient(var),
            analyzer.simplify(domains[var].begin),
            analyzer.simplify(domains[var].extent),
        )
        if abs(step) > length or not isinstance(count, IntImm) or count.value < 1:
            return None
        first = linear(begin).shift(count.value - 1 if step < 0 else 0)
        low = low.replaced(var, first)
        length += abs(step) * (count.value - 1)
    least = analyzer.simplify(expression(low, within.begin.dtype))
    return least, analyzer.simplify(least + (length - 1)), variables
