"""Bounds that guards imply for a loop: up to where, or from where on, they hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....base.limits import INT32_EXTENT_LIMIT
from ...analysis.linear import expression, is_index, linear, terms
from ...arith.linear import LinearForm
from ...dtype import INT64
from ...expr import GE, GT, LE, LT, Add, And, Call, Expr, Var
from ...ops import cast, const, floordiv, maximum, minimum
from ...stmt import For
from ...visit import walk
from .fresh_copy import fold

__all__ = ["GuardBound", "guard_bound", "split_comparisons"]


@dataclass(frozen=True, slots=True)
class GuardBound:
    """A guard holds for iterations below (`upper`) or from `value` / `divisor` on."""

    value: LinearForm | int
    upper: bool
    divisor: int

    def expr(self, var: Var) -> Expr:
        """The bound as an expression in the loop variable's dtype: what int64 decides, and int32 may not hold, as far as loops of
        int32 go."""
        wide = not isinstance(self.value, int) and any(  # a symbol of int64 in the bound may be beyond every int32 loop
            atom.dtype.bits > var.dtype.bits for atom, _ in terms(self.value)
        )
        dtype = INT64 if wide else var.dtype
        value = const(self.value, dtype) if isinstance(self.value, int) else expression(self.value, dtype)
        if self.divisor > 1:
            value = floordiv(value, const(self.divisor, dtype))
        value = value if self.upper else fold(Add, value, const(1, dtype))
        if not wide:
            return value
        return cast(  # clamped before the cast, which would wrap
            maximum(minimum(value, const(INT32_EXTENT_LIMIT, dtype)), const(-INT32_EXTENT_LIMIT, dtype)), var.dtype
        )


def split_comparisons(condition: Expr) -> Iterator[tuple[Expr, bool]]:
    """The comparisons all of which must hold for `condition` to hold, and whether each is likely."""
    stack = [(condition, False)]
    while stack:
        part, likely = stack.pop()
        if isinstance(part, And):
            stack += [(part.a, likely), (part.b, likely)]
        elif isinstance(part, Call) and part.name == "likely":
            stack.append((part.args[0], True))
        elif isinstance(part, (LT, LE, GT, GE)) and is_index(part.a) and is_index(part.b):
            yield part, likely


def guard_bound(condition: Expr, var: Var, inner: tuple[For, ...], every: bool = True) -> GuardBound | None:
    """Up to where, or from where on, a comparison holds for every iteration of the loops inside, or for some; None where it is
    not a bound of the variable."""
    assert isinstance(condition, (LT, LE, GT, GE))
    upward = isinstance(condition, (LT, LE))  # rewritten as form < 0
    form = linear(condition.a).plus(linear(condition.b), -1)
    if not upward:
        form = form.scale(-1)
    if isinstance(condition, (LE, GE)):
        form = form.shift(-1)  # a <= b is a - b - 1 < 0 for integers
    for loop in reversed(inner):
        coefficient = form.coefficient(loop.var)
        if coefficient:
            form = form.replaced(loop.var, linear(loop.begin))
            if (coefficient > 0) == every:  # the worst iteration of an inner loop for "every", the best one for "some"
                form = form.plus(linear(loop.extent).shift(-1), coefficient)
    step = form.coefficient(var)
    rest = form.without(var)
    if step == 0 or _mentions(rest, {var, *(loop.var for loop in inner)}):  # the bound would change within the loop
        return None
    if step > 0:  # var < ceil(-rest / step)
        return GuardBound(_number(rest.scale(-1).shift(step - 1)), True, step)
    return GuardBound(_number(rest), False, -step)


def _number(form: LinearForm) -> LinearForm | int:
    return form.const if form.is_const else form


def _mentions(form: LinearForm, variables: set[Var]) -> bool:
    return any(isinstance(node, Var) and node in variables for atom, _ in terms(form) for node in walk(atom))
