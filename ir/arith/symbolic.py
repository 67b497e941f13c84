"""Least and greatest values of an expression over some of its variables, as expressions of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..expr import Cast, Expr, FloorDiv, FloorMod, IfThenElse, Max, Min, Mul, Select, Var
from ..visit import free_vars
from .bounds import form_interval, interval_of, is_exact, value_form
from .linear import LinearForm
from .scope import Scope
from .sums import converted, expression_of, factors_of, product

__all__ = ["symbolic_bounds"]


class _Ends(NamedTuple):
    """Least and greatest value as linear forms; None where unknown."""

    lo: LinearForm | None
    hi: LinearForm | None


def symbolic_bounds(
    scope: Scope, node: Expr, over: set[Var], simplified: Callable[[Expr], Expr],
) -> tuple[Expr | None, Expr | None]:
    """Bounds of `node`, a simplified integer scalar, where the variables in `over` take every value of their ranges."""
    ends = _Elimination(scope, over, simplified).of_form(value_form(scope, node))
    return tuple(None if end is None else simplified(expression_of(scope, end, node.dtype)) for end in ends)  # pyright: ignore[reportReturnType]


class _Elimination:
    """Replaces what depends on `over`, the latest bound variable first, since ranges speak of earlier variables."""

    def __init__(self, scope: Scope, over: set[Var], simplified: Callable[[Expr], Expr]) -> None:
        self.scope, self.over, self.simplified = scope, over, simplified
        self._free: dict[Expr, bool] = {}

    def depends(self, atom: Expr) -> bool:
        found = self._free.get(atom)
        if found is None:
            found = self._free[atom] = any(var in self.over for var in free_vars(atom))
        return found

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
        found: LinearForm | None = None
        if isinstance(atom, FloorDiv | FloorMod):
            found = self._of_division(atom, upwards)
        elif isinstance(atom, Min | Max):
            found = self._of_pair(type(atom), atom.a, atom.b, upwards)
        elif isinstance(atom, Select | IfThenElse):
            found = self._of_pair(Max if upwards else Min, atom.true_value, atom.false_value, upwards)
        elif isinstance(atom, Mul) and is_exact(self.scope, atom):
            found = self._of_product(atom, upwards)
        elif isinstance(atom, Cast) and atom.value.dtype.is_integer and is_exact(self.scope, atom):
            found = self._end(value_form(self.scope, atom.value), 1 if upwards else -1)
        return found if found is not None else self._constant(atom, upwards)

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
        made = product(self.scope, converted(self.scope, end, rest.dtype), rest)
        return value_form(self.scope, made) if is_exact(self.scope, made) else None
