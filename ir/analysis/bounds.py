"""Least and greatest values of integer expressions: as numbers, operator by operator, and as expressions of what stays fixed.

    0 <= i < 4, 0 <= j < 8:      i * 8 + j in [0, 31];      over j alone in [i * 8, i * 8 + 7]

`Analyzer.interval` knows more than IntervalEvaluator does, facts and what cancels, and takes longer to know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..arith.analyzer import Analyzer
from ..arith.bounds import bound_node, is_exact, value_form
from ..arith.interval import EVERYTHING, INTERVAL_OF, Interval
from ..arith.linear import LinearForm
from ..arith.sums import build_expression
from ..expr import Add, BinaryOp, Broadcast, Cast, Expr, IntImm, Mul, Ramp, Var
from ..visit import free_vars
from .linear import is_index
from .regions import Span, SpanEvaluator

__all__ = ["IntervalEvaluator", "symbolic_bounds"]


class IntervalEvaluator:
    """Intervals of integer expressions, by one look at each node, remembered.

    variable: the interval of a variable. is_index: whether an expression is index arithmetic, whose value is that over the
    integers; the sum of anything else may wrap, and has any value where its interval leaves its dtype.
    """

    def __init__(self, variable: Callable[[Var], Interval], is_index: Callable[[Expr], bool] = is_index) -> None:
        self._variable, self._is_index = variable, is_index
        self._known: dict[Expr, Interval] = {}

    def __call__(self, expr: Expr) -> Interval:
        """Return the bounds of an expression, over all lanes; open where nothing is known."""
        known = self._known.get(expr)
        if known is None:  # expressions share nodes: without this a chain takes exponential time
            known = self._known[expr] = self._compute(expr)
        return known

    def _compute(self, expr: Expr) -> Interval:
        match expr:
            case IntImm():
                return Interval(expr.value, expr.value)
            case Var():
                return self._variable(expr)
            case BinaryOp() if type(expr) in INTERVAL_OF:
                return self._evaluate_operator(expr)
            case Cast() if expr.value.dtype.element.is_integer and expr.dtype.element.is_integer:
                return self._fit(expr, self(expr.value), expr)
            case Ramp():
                return INTERVAL_OF[Add](
                    self(expr.base), INTERVAL_OF[Mul](self(expr.stride), Interval(0, expr.lanes - 1))
                )
            case Broadcast():
                return self(expr.value)
            case _:
                return EVERYTHING  # outside code, loads and the like may have any value of the dtype

    def _evaluate_operator(self, expr: BinaryOp) -> Interval:
        return self._fit(expr, INTERVAL_OF[type(expr)](self(expr.a), self(expr.b)), expr.a, expr.b)

    def _fit(self, expr: Expr, values: Interval, *index: Expr) -> Interval:
        """Fit bounds computed over the integers to a value that may wrap unless all of `index` is index arithmetic."""
        dtype = expr.dtype.element
        # a sum of data wraps, and may then be anything
        if dtype.is_integer and not values.within(dtype.least, dtype.greatest) and not all(map(self._is_index, index)):
            return EVERYTHING
        return values


def symbolic_bounds(analyzer: Analyzer, expr: Expr, over: Iterable[Var]) -> tuple[Expr | None, Expr | None]:
    """The least and the greatest value of an integer scalar where the variables in `over` run over the ranges that the
    analyzer knows and all others stay as they are. Each is exact where every variable occurs in linear terms alone, otherwise
    a bound; None where there is none."""
    scope, node = analyzer.scope, analyzer.simplify(expr)
    elimination = _Elimination(analyzer, set(over))
    low, high = (elimination.end(value_form(scope, node), upwards) for upwards in (False, True))
    return (
        None if low is None else analyzer.simplify(build_expression(scope, low, node.dtype)),
        None if high is None else analyzer.simplify(build_expression(scope, high, node.dtype)),
    )


class _Elimination:
    """Replace what depends on `over` in linear forms, the latest bound variable first, since ranges speak of earlier
    variables. What is not linear in them has the ends of its span."""

    def __init__(self, analyzer: Analyzer, over: set[Var]) -> None:
        self.scope, self.over = analyzer.scope, over
        self.spans = SpanEvaluator({var: self._range(var) for var in over}, analyzer)
        self._free: dict[Expr, bool] = {}

    def end(self, form: LinearForm, upwards: bool) -> LinearForm | None:
        """The greatest (upwards) or least value of a form."""
        for _ in range(64):  # each round puts in one bound; ranges that speak of each other do not end
            moving = [atom for atom in form.coeffs if self._depends(atom)]
            if not moving:
                return form
            # the variable that was bound last may speak of the earlier ones, never the other way
            atom = max(moving, key=lambda a: (not isinstance(a, Var), self.scope.known.order.get(a, -1)))
            end = self._eliminate_atom(atom, (form.coeffs[atom] > 0) == upwards)
            if end is None:
                return None
            form = form.replaced(atom, end)
        return None

    def _depends(self, atom: Expr) -> bool:
        depends = self._free.get(atom)
        if depends is None:
            depends = self._free[atom] = any(var in self.over for var in free_vars(atom))
        return depends

    def _range(self, var: Var) -> Span | None:
        """All values of a variable, perhaps in earlier variables."""
        low, high = self._eliminate_variable(var, False), self._eliminate_variable(var, True)
        if low is None or high is None:
            return None
        return Span(build_expression(self.scope, low, var.dtype), build_expression(self.scope, high, var.dtype), None)

    def _eliminate_variable(self, var: Var, upwards: bool) -> LinearForm | None:
        known = (self.scope.known.highs if upwards else self.scope.known.lows).get(var)
        return known if known is not None else self._constant(var, upwards)

    def _eliminate_atom(self, atom: Expr, upwards: bool) -> LinearForm | None:
        """The greatest or least value of an atom, perhaps in earlier variables of `over`."""
        if isinstance(atom, Var):
            return self._eliminate_variable(atom, upwards)
        span = self.spans(atom) if is_exact(self.scope, atom) else None  # an expression that may wrap has no span
        if span is None:
            return self._constant(atom, upwards)
        return value_form(self.scope, span.high if upwards else span.low)

    def _constant(self, atom: Expr, upwards: bool) -> LinearForm | None:
        lo, hi = bound_node(self.scope, atom)
        end = hi if upwards else lo
        return None if end is None else LinearForm({}, end)
