"""Bounds that guards imply for a loop: up to where, or from where on, they hold."""

from __future__ import annotations

from collections.abc import Iterator

from ....base import INT32_EXTENT_LIMIT, dataclass
from ...analysis.linear import atom_key, expression, is_index, linear, terms
from ...arith.linear import LinearForm
from ...dtype import INT64
from ...expr import GE, GT, LE, LT, Add, And, Call, Expr, FloorDiv, FloorMod, Var
from ...ops import cast, const, floordiv, integer_value, maximum, minimum
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


def guard_bound(
    condition: Expr, var: Var, inner: tuple[For, ...], every: bool = True, digits: bool = False
) -> GuardBound | None:
    """Up to where, or from where on, a comparison holds for every iteration of the loops inside, or for some; None where it is
    not a bound of the variable. digits: with quotients and remainders of these loops, for every iteration."""
    assert isinstance(condition, (LT, LE, GT, GE))
    upward = isinstance(condition, (LT, LE))  # rewritten as form < 0
    form = linear(condition.a).plus(linear(condition.b), -1)
    if not upward:
        form = form.scale(-1)
    if isinstance(condition, (LE, GE)):
        form = form.shift(-1)  # a <= b is a - b - 1 < 0 for integers
    if digits:
        form = _settle_digits(form, inner)
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


def _settle_digits(form: LinearForm, inner: tuple[For, ...]) -> LinearForm:
    """A form that is to be below 0 for every iteration of loops, with the worst value of each quotient and remainder of these loops alone:
    of columns and channels as one, `i // 3` is the column."""
    for atom, coefficient in terms(form):
        if not isinstance(atom, (FloorDiv, FloorMod)):
            continue
        ends, by = _value_range(linear(atom.a), inner), integer_value(atom.b)
        if ends is None or not by or by < 0:
            continue
        low, high = ends[0] // by, ends[1] // by
        if isinstance(atom, FloorMod):
            low, high = (ends[0] % by, ends[1] % by) if low == high else (0, by - 1)
        form = form.without(atom_key(atom)).shift(coefficient * (high if coefficient > 0 else low))
    return form


def _value_range(form: LinearForm, inner: tuple[For, ...]) -> tuple[int, int] | None:
    """The least and the greatest value of a sum of variables of loops; None where another one is in it, or they have no numbers."""
    low = high = form.const
    loops = {loop.var: loop for loop in inner}
    for atom, coefficient in terms(form):
        loop = loops.get(atom) if isinstance(atom, Var) else None
        begin, extent = (integer_value(loop.begin), integer_value(loop.extent)) if loop is not None else (None, None)
        if begin is None or not extent:
            return None
        first, last = sorted((coefficient * begin, coefficient * (begin + extent - 1)))
        low, high = low + first, high + last
    return low, high


def _number(form: LinearForm) -> LinearForm | int:
    return form.const if form.is_const else form


def _mentions(form: LinearForm, variables: set[Var]) -> bool:
    return any(isinstance(node, Var) and node in variables for atom, _ in terms(form) for node in walk(atom))
