"""Least and greatest values of integer expressions: as numbers, operator by operator, and as expressions of what stays fixed.

    0 <= i < 4, 0 <= j < 8:      i * 8 + j in [0, 31];      over j alone in [i * 8, i * 8 + 7]

`Analyzer.interval` knows more than IntervalEvaluator does, facts and what cancels, and takes longer to know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..arith.analyzer import Analyzer
from ..arith.bounds import form_interval, interval_of, is_exact, value_form
from ..arith.interval import EVERYTHING, INTERVAL_OF, Interval
from ..arith.linear import LinearForm
from ..arith.scope import Scope
from ..arith.sums import converted, expression_of, factors_of, product
from ..expr import Add, BinaryOp, Broadcast, Cast, Expr, FloorDiv, FloorMod, IfThenElse, IntImm, Max, Min, Mul, Ramp, Select, Var
from ..visit import free_vars
from .linear import is_index

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
        """What the values of an expression lie within, over all lanes; open where nothing is known."""
        known = self._known.get(expr)
        if known is None:
            known = self._known[expr] = self._compute(expr)
        return known

    def _compute(self, expr: Expr) -> Interval:
        match expr:
            case IntImm():
                return Interval(expr.value, expr.value)
            case Var():
                return self._variable(expr)
            case BinaryOp() if type(expr) in INTERVAL_OF:
                return self._of_operator(expr)
            case Cast() if self._is_index(expr):
                return self(expr.value)
            case Ramp():
                return INTERVAL_OF[Add](self(expr.base), INTERVAL_OF[Mul](self(expr.stride), Interval(0, expr.lanes - 1)))
            case Broadcast():
                return self(expr.value)
            case _:
                return EVERYTHING

    def _of_operator(self, expr: BinaryOp) -> Interval:
        values, dtype = INTERVAL_OF[type(expr)](self(expr.a), self(expr.b)), expr.dtype.element
        if dtype.is_integer and not values.within(dtype.least, dtype.greatest) and not (
                self._is_index(expr.a) and self._is_index(expr.b)):
            return EVERYTHING
        return values


class _Ends(NamedTuple):
    """Least and greatest value as linear forms; None where unknown."""

    lo: LinearForm | None
    hi: LinearForm | None


def symbolic_bounds(analyzer: Analyzer, expr: Expr, over: Iterable[Var]) -> tuple[Expr | None, Expr | None]:
    """The least and the greatest value of an integer scalar where the variables in `over` run over the ranges that the
    analyzer knows and all others stay as they are. Each is exact where every variable occurs in linear terms alone, otherwise
    a bound; None where there is none."""
    scope, node = analyzer.scope, analyzer.simplify(expr)
    low, high = _Elimination(scope, set(over), analyzer.simplify).of_form(value_form(scope, node))
    return (None if low is None else analyzer.simplify(expression_of(scope, low, node.dtype)),
            None if high is None else analyzer.simplify(expression_of(scope, high, node.dtype)))


class _Elimination:
    """Replaces what depends on `over`, the latest bound variable first, since ranges speak of earlier variables."""

    def __init__(self, scope: Scope, over: set[Var], simplified: Callable[[Expr], Expr]) -> None:
        self.scope, self.over, self.simplified = scope, over, simplified
        self._free: dict[Expr, bool] = {}

    def depends(self, atom: Expr) -> bool:
        depends = self._free.get(atom)
        if depends is None:
            depends = self._free[atom] = any(var in self.over for var in free_vars(atom))
        return depends

    def of_form(self, form: LinearForm) -> _Ends:
        return _Ends(self._end(form, -1), self._end(form, 1))

    def _end(self, form: LinearForm, direction: int) -> LinearForm | None:
        """The greatest (direction 1) or least (-1) value of a form."""
        for _ in range(64):
            moving = [atom for atom in form.coeffs if self.depends(atom)]
            if not moving:
                return form
            atom = max(moving, key=lambda a: (not isinstance(a, Var), self._rank(a)))
            upwards = (form.coeffs[atom] > 0) == (direction > 0)
            end = self._of_atom(atom, upwards)
            if end is None:
                return None
            form = form.replaced(atom, end)
        return None

    def _rank(self, atom: Expr) -> int:
        return self.scope.known.order.get(atom, -1)

    def _of_atom(self, atom: Expr, upwards: bool) -> LinearForm | None:
        """The greatest or least value of an atom, perhaps in earlier variables of `over`."""
        if isinstance(atom, Var):
            known = (self.scope.known.highs if upwards else self.scope.known.lows).get(atom)
            return known if known is not None else self._constant(atom, upwards)
        end: LinearForm | None = None
        if isinstance(atom, FloorDiv | FloorMod):
            end = self._of_division(atom, upwards)
        elif isinstance(atom, Min | Max):
            end = self._of_pair(type(atom), atom.a, atom.b, upwards)
        elif isinstance(atom, Select | IfThenElse):
            end = self._of_pair(Max if upwards else Min, atom.true_value, atom.false_value, upwards)
        elif isinstance(atom, Mul) and is_exact(self.scope, atom):
            end = self._of_product(atom, upwards)
        elif isinstance(atom, Cast) and atom.value.dtype.is_integer and is_exact(self.scope, atom):
            end = self._end(value_form(self.scope, atom.value), 1 if upwards else -1)
        return end if end is not None else self._constant(atom, upwards)

    def _constant(self, atom: Expr, upwards: bool) -> LinearForm | None:
        lo, hi = interval_of(self.scope, atom)
        end = hi if upwards else lo
        return None if end is None else LinearForm({}, end)

    def _inner(self, node: Expr, upwards: bool) -> Expr | None:
        """The end of an operand's range as a simplified expression without variables of `over`."""
        end = self._end(value_form(self.scope, node), 1 if upwards else -1)
        return None if end is None else self.simplified(expression_of(self.scope, end, node.dtype))

    def _value(self, node: Expr) -> LinearForm:
        return value_form(self.scope, self.simplified(node))

    def _of_division(self, atom: FloorDiv | FloorMod, upwards: bool) -> LinearForm | None:
        divisor = atom.b
        if self.depends(divisor) or (interval_of(self.scope, divisor).lo or 0) < 1:
            return None
        if isinstance(atom, FloorDiv):
            end = self._inner(atom.a, upwards)
            return None if end is None else self._value(self.scope.nodes.make(FloorDiv, end, divisor))
        low, high = self._inner(atom.a, False), self._inner(atom.a, True)
        if low is None or high is None:
            return value_form(self.scope, divisor).shifted(-1) if upwards else LinearForm({})
        make = self.scope.nodes.make
        blocks = self._value(make(FloorDiv, high, divisor)).plus(self._value(make(FloorDiv, low, divisor)), -1)
        if not blocks.coeffs and not blocks.const:  # within one block the remainder grows with its numerator
            return self._value(make(FloorMod, high if upwards else low, divisor))
        if not upwards:
            return LinearForm({})
        last = value_form(self.scope, divisor).shifted(-1)
        above = form_interval(self.scope, value_form(self.scope, low))
        if above.lo is None or above.lo < 0:
            return last
        return self._value(make(Min, high, expression_of(self.scope, last, atom.dtype)))

    def _of_pair(self, kind: type[Min] | type[Max], a: Expr, b: Expr, upwards: bool) -> LinearForm | None:
        left, right = self._inner(a, upwards), self._inner(b, upwards)
        if left is None or right is None:
            # One arm bounds a minimum from above, and a maximum from below.
            known = left if left is not None else right
            return value_form(self.scope, known) if known is not None and (kind is Min) == upwards else None
        return self._value(self.scope.nodes.make(kind, left, right))

    def _of_product(self, atom: Mul, upwards: bool) -> LinearForm | None:
        """One factor moves and the others, which do not, are of known sign."""
        factors = factors_of(atom)
        moving = [factor for factor in factors if self.depends(factor)]
        if len(moving) != 1:
            return None
        others = [factor for factor in factors if factor is not moving[0]]
        negative = False
        rest: Expr | None = None
        for other in others:
            bounds = interval_of(self.scope, other)
            if bounds.hi is not None and bounds.hi <= 0:
                negative = not negative
            elif bounds.lo is None or bounds.lo < 0:
                return None
            rest = other if rest is None else product(self.scope, rest, other)
        end = self._inner(moving[0], upwards != negative)
        if end is None or rest is None:
            return None
        extreme = product(self.scope, converted(self.scope, end, rest.dtype), rest)
        return value_form(self.scope, extreme) if is_exact(self.scope, extreme) else None
