"""Values of a variable for which a comparison holds.

4 a + b < c      holds for a <= (c - 1 - b) // 4; for every b from 2 to 3, where a <= (c - 4) // 4
b * a >= c       with b > 0 holds for a >= c // b + 1, and from c // b on where b divides c
"""

from __future__ import annotations

from collections.abc import Iterable

from ..arith.analyzer import Analyzer, simplify
from ..expr import EQ, GE, GT, LE, LT, Add, CompareOp, Expr, IntImm, Mul, Sub, Var
from ..ops import const, floordiv, floormod, multiply, subtract
from ..visit import children, free_vars
from .bounds import symbolic_bounds

__all__ = ["collect_coefficients", "solved_bound"]


def collect_coefficients(node: Expr, over: set[Var]) -> dict[Var | None, Expr] | None:
    """A sum of the variables `over`, each by a coefficient, and of the rest, under None; what is 0 has no entry. None where it is
    no such sum."""
    if isinstance(node, Var) and node in over:
        return {node: const(1, node.dtype)}
    if over.isdisjoint(free_vars(node)):
        return {} if isinstance(node, IntImm) and node.value == 0 else {None: node}
    if not isinstance(node, (Add, Sub, Mul)):
        return None
    a, b = collect_coefficients(node.a, over), collect_coefficients(node.b, over)
    if a is None or b is None:
        return None
    if isinstance(node, Mul):
        if set(a) <= {None}:
            a, b = b, a
        factor = b.get(None, const(0, node.dtype))
        return {var: simplify(value * factor) for var, value in a.items()} if set(b) <= {None} else None
    zero = const(0, node.dtype)
    sums = {var: simplify(type(node)(a.get(var, zero), b.get(var, zero))) for var in {**a, **b}}
    return {var: value for var, value in sums.items() if not (isinstance(value, IntImm) and value.value == 0)}


def solved_bound(
    var: Var,
    condition: Expr,
    analyzer: Analyzer,
    relaxed: Iterable[Var] = (),
) -> tuple[Expr | None, Expr | None] | None:
    """The least and the greatest value of `var` (None: none) between which the condition surely holds, whatever values within
    their ranges the variables in `relaxed` have. Where a quotient is not known to be whole, a bound from below is the next value.

    condition: a comparison of integers in which `var` occurs once, linearly, by a coefficient whose sign the analyzer knows and
    which does not depend on `relaxed`; None for any other, and where no value suffices.
    """
    if not isinstance(condition, CompareOp) or not _occurs_once(condition, var):
        return None
    kind, difference = type(condition), subtract(condition.a, condition.b)
    if var in free_vars(condition.b):
        kind, difference = _MIRRORED.get(kind, kind), subtract(condition.b, condition.a)
    if kind in (LT, GT):  # of integers: a < b where a + 1 <= b
        kind, difference = (LE, difference + 1) if kind is LT else (GE, difference - 1)
    form = collect_coefficients(difference, {var})
    if kind not in (LE, GE, EQ) or form is None or var not in form:
        return None
    factor, rest = form[var], form.get(None, const(0, difference.dtype))
    span, over = analyzer.interval(factor), set(relaxed)
    positive = span.lo is not None and span.lo > 0
    if not positive and not (span.hi is not None and span.hi < 0) or not over.isdisjoint(free_vars(factor)):
        return None
    least, most = symbolic_bounds(analyzer, rest, over) if over else (rest, rest)
    if kind is EQ:
        if least is None or most is None or not analyzer.can_prove_equal(least, most):
            return None
        value = _quotient(analyzer, multiply(least, -1), factor)
        return None if value is None else (value, value)
    rest = most if kind is LE else least
    if rest is None:
        return None
    wanted = analyzer.simplify(multiply(rest, -1))
    floor, value = simplify(floordiv(wanted, factor)), _quotient(analyzer, wanted, factor)
    if (kind is LE) == positive:
        return None, floor
    return (value if value is not None else simplify(floor + 1)), None


_MIRRORED: dict[type[CompareOp], type[CompareOp]] = {LT: GT, GT: LT, LE: GE, GE: LE}


def _occurs_once(condition: Expr, var: Var) -> bool:
    count, stack = 0, [condition]
    while stack and count < 2:
        node = stack.pop()
        count += node is var
        if var in free_vars(node):
            stack += children(node)
    return count == 1


def _quotient(analyzer: Analyzer, value: Expr, divisor: Expr) -> Expr | None:
    """value / divisor where that is known to be whole."""
    if not analyzer.can_prove_equal(floormod(value, divisor), 0):
        return None
    return simplify(floordiv(value, divisor))
