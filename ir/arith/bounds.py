"""Intervals of interned expressions, under what a scope knows, and whether their arithmetic wraps.

A sum is bounded by its linear form, so that terms which cancel do not widen it. A result that may leave its dtype has
wrapped and can be anything of that dtype; an index expression cannot overflow unless its finite bounds say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..dtype import DType
from ..expr import (
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Mul,
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    Var,
)
from ..visit import children
from .floats import FloatBounds
from .interval import BOOLEAN, EVERYTHING, INTERVAL_OF, Interval, intersect, scale, shift, union
from .linear import LinearForm, single
from .scope import INDEX, Scope

__all__ = ["dtype_interval", "exact_form", "form_interval", "bound_node", "is_exact", "value_form"]


def dtype_interval(dtype: DType) -> Interval:
    """All values of a dtype; unbounded for floats and handles."""
    if dtype.is_integer:
        return Interval(dtype.least, dtype.greatest)
    return BOOLEAN if dtype.is_bool else EVERYTHING


# Intervals


def bound_node(scope: Scope, node: Expr) -> Interval:
    """Bounds of the values of `node`, over all lanes."""
    interval = scope.known.intervals.get(node)
    if interval is not None:
        return interval
    dtype = node.dtype.element
    if dtype.is_bool:
        interval = Interval(node.value, node.value) if isinstance(node, IntImm) else BOOLEAN
    elif not dtype.is_integer:
        interval = EVERYTHING
    else:
        interval = _INTERVALS.get(type(node), _interval_unknown)(scope, node)
        known = scope.known.bounds.get(node)
        if known is not None:
            interval = intersect(interval, known)
    scope.known.intervals[node] = interval
    return interval


def form_interval(scope: Scope, form: LinearForm) -> Interval:
    """Bounds of a linear form over the integers, term by term, and by a fact on the same terms."""
    lo: int | None = form.const
    hi: int | None = form.const
    intervals = scope.known.intervals
    for atom, coeff in form.coeffs.items():
        a, b = intervals.get(atom) or bound_node(scope, atom)
        if coeff < 0:
            a, b = b, a
        lo = None if lo is None or a is None else lo + coeff * a
        hi = None if hi is None or b is None else hi + coeff * b
    facts = scope.known.facts
    if facts and len(form.coeffs) > 1:
        below = facts.get(form.key)
        if below is not None and (lo is None or lo < form.const - below.const):
            lo = form.const - below.const
        above = facts.get(form.scale(-1).key)
        if above is not None and (hi is None or hi > form.const + above.const):
            hi = form.const + above.const
    return Interval(lo, hi)


def _fit(scope: Scope, interval: Interval, node: Expr) -> Interval:
    """`found`, computed over the integers, as the bounds of a node that may wrap."""
    dtype = node.dtype.element
    lo, hi = interval
    least, greatest = dtype.least, dtype.greatest
    if lo is not None and hi is not None and least <= lo and hi <= greatest:
        return interval
    if not scope.nodes.traits(node) & INDEX:
        return Interval(least, greatest)
    low_fits, high_fits = lo is None or least <= lo <= greatest, hi is None or least <= hi <= greatest
    if low_fits and high_fits:
        return interval
    if not _is_open(scope, node):
        return Interval(least, greatest)
    return Interval(lo if low_fits else None, hi if high_fits else None)


_LIMIT = 1 << 29
"""A bound as wide as this is a limit on what a symbol may be, no extent that occurs: it does not show an overflow."""


def _is_open(scope: Scope, node: Expr) -> bool:
    """Return whether a variable in `node` has no bounds but its limits."""
    is_open = scope.known.open.get(node)
    if is_open is None:
        is_open = False
        if isinstance(node, Var):
            lo, hi = bound_node(scope, node)
            is_open = lo is None or hi is None or lo <= -_LIMIT or hi >= _LIMIT
        else:
            for child in children(node):
                if _is_open(scope, child):
                    is_open = True
                    break
        scope.known.open[node] = is_open
    return is_open


def _interval_var(scope: Scope, node: Var) -> Interval:
    if node.dtype.kind == "int" and node.dtype.bits >= 32:
        return Interval(0, None) if isinstance(node, SizeVar) else EVERYTHING
    whole = dtype_interval(node.dtype)
    return Interval(0, whole.hi) if isinstance(node, SizeVar) else whole


def _interval_binary(scope: Scope, node: BinaryOp) -> Interval:
    form = scope.nodes.forms.get(node)
    if form is not None and form.coeffs.get(node) is None:
        return _fit(scope, form_interval(scope, form), node)
    interval = INTERVAL_OF[type(node)](bound_node(scope, node.a), bound_node(scope, node.b))
    if isinstance(node, FloorDiv | FloorMod):
        interval = _sharpen(scope, node, interval)
    return _fit(scope, interval, node)


def _sharpen(scope: Scope, node: FloorDiv | FloorMod, interval: Interval) -> Interval:
    """x // y for x in [0, y * k): the ends of a symbolic divisor are open, but its remainder's sign is not."""
    if isinstance(node, FloorDiv) and interval.lo is None and node.b.dtype.kind == "int":
        numerator, divisor = bound_node(scope, node.a), bound_node(scope, node.b)
        if numerator.lo is not None and divisor.lo is not None and divisor.lo >= 0:
            return Interval(min(numerator.lo, 0), interval.hi)
    return interval


def _interval_cast(scope: Scope, node: Cast) -> Interval:
    source, target = node.value.dtype.element, node.dtype.element
    if source.is_float and target.is_integer:
        floats = FloatBounds(lambda integer: bound_node(scope, integer), scope.known.floats)
        return floats.bound(node.value).to_integers(target.least, target.greatest)
    if source.is_float or source.kind == "handle":
        return dtype_interval(target)
    interval = bound_node(scope, node.value)
    if interval.within(target.least, target.greatest):
        return interval
    if source.kind == "int" and target.kind == "int" and target.bits >= source.bits:
        return interval
    return dtype_interval(target)


def _interval_choice(scope: Scope, node: Select | IfThenElse) -> Interval:
    return union(bound_node(scope, node.true_value), bound_node(scope, node.false_value))


def _interval_ramp(scope: Scope, node: Ramp) -> Interval:
    base, stride = bound_node(scope, node.base), bound_node(scope, node.stride)
    steps = INTERVAL_OF[Mul](stride, Interval(0, node.lanes - 1))
    return _fit(
        scope,
        Interval(
            None if base.lo is None or steps.lo is None else base.lo + steps.lo,
            None if base.hi is None or steps.hi is None else base.hi + steps.hi,
        ),
        node,
    )


def _interval_call(scope: Scope, node: Call) -> Interval:
    dtype = node.dtype.element
    rule = _CALL_INTERVALS.get(node.name)
    if rule is None:
        return dtype_interval(dtype)
    interval = rule(dtype, [bound_node(scope, argument) for argument in node.args])
    return _fit(scope, interval, node)


def _interval_unknown(scope: Scope, node: Expr) -> Interval:
    return dtype_interval(node.dtype.element)


_INTERVALS: dict[type[Expr], Callable[[Scope, Any], Interval]] = {
    **dict.fromkeys(Var.__subclasses__(), _interval_var),
    Var: _interval_var,
    IntImm: lambda scope, node: Interval(node.value, node.value),
    **dict.fromkeys(INTERVAL_OF, _interval_binary),
    Cast: _interval_cast,
    Select: _interval_choice,
    IfThenElse: _interval_choice,
    Ramp: _interval_ramp,
    Broadcast: lambda scope, node: bound_node(scope, node.value),
    Call: _interval_call,
    Shuffle: lambda scope, node: _unite(scope, node.vectors),
}


def _unite(scope: Scope, nodes: tuple[Expr, ...]) -> Interval:
    hull = bound_node(scope, nodes[0])
    for node in nodes[1:]:
        hull = union(hull, bound_node(scope, node))
    return hull


def _magnitude(dtype: DType, operands: list[Interval]) -> Interval:
    (a,) = operands
    if a.lo is not None and a.lo >= 0:
        return a
    return union(Interval(0, 0), union(Interval(max(a.lo or 0, 0), a.hi), scale(a, -1)))._replace(lo=0)


def _mask(dtype: DType, operands: list[Interval]) -> Interval:
    nonnegative = [a.hi for a in operands if a.lo is not None and a.lo >= 0 and a.hi is not None]
    return Interval(0, min(nonnegative)) if nonnegative else dtype_interval(dtype)


def _joined_bits(dtype: DType, operands: list[Interval]) -> Interval:
    a, b = operands
    if a.lo is None or b.lo is None or a.lo < 0 or b.lo < 0 or a.hi is None or b.hi is None:
        return dtype_interval(dtype)
    return Interval(0, (1 << max(a.hi, b.hi).bit_length()) - 1)


def _shifted_right(dtype: DType, operands: list[Interval]) -> Interval:
    a, b = operands
    if not b.is_point or b.lo is None or not 0 <= b.lo < dtype.bits:
        return dtype_interval(dtype)
    return Interval(None if a.lo is None else a.lo >> b.lo, None if a.hi is None else a.hi >> b.lo)


def _shifted_left(dtype: DType, operands: list[Interval]) -> Interval:
    a, b = operands
    if not b.is_point or b.lo is None or not 0 <= b.lo < dtype.bits or a.lo is None or a.hi is None:
        return dtype_interval(dtype)
    return scale(a, 1 << b.lo)


def _flip(dtype: DType, operands: list[Interval]) -> Interval:
    return shift(scale(operands[0], -1), -1 if dtype.kind == "int" else dtype.greatest)


_CALL_INTERVALS: dict[str, Callable[[DType, list[Interval]], Interval]] = {
    "abs": _magnitude,
    "popcount": lambda dtype, operands: Interval(0, min(dtype.bits, dtype.greatest)),
    "clz": lambda dtype, operands: Interval(0, 64),
    "bitwise_and": _mask,
    "bitwise_or": _joined_bits,
    "bitwise_xor": _joined_bits,
    "bitwise_not": _flip,
    "shift_right": _shifted_right,
    "shift_left": _shifted_left,
    "likely": lambda dtype, operands: operands[0],
}


# Whether arithmetic is that of the integers


def exact_form(scope: Scope, form: LinearForm, dtype: DType) -> bool:
    """Return whether the sum that `form` describes, computed in `dtype`, is its value over the integers."""
    lo, hi = form_interval(scope, form)
    least, greatest = dtype.least, dtype.greatest
    if lo is not None and hi is not None and least <= lo and hi <= greatest:
        return True
    traits = scope.nodes.traits
    for atom in form.coeffs:
        if not traits(atom) & INDEX:
            return False
    if (lo is None or least <= lo <= greatest) and (hi is None or least <= hi <= greatest):
        return True
    for atom in form.coeffs:
        if _is_open(scope, atom):
            return True
    return False


def value_form(scope: Scope, node: Expr) -> LinearForm:
    """The value of an integer scalar over the integers: its linear form, or itself as an atom where the sum may wrap."""
    form = scope.nodes.form(node)
    if form.coeffs.get(node) == 1 or exact_form(scope, form, node.dtype):
        return form
    return single(node)


def is_exact(scope: Scope, node: Expr) -> bool:
    """Return whether every operator in `node`, an interned expression, gives its value over the integers."""
    exact = scope.known.exact.get(node)
    if exact is None:
        exact = scope.known.exact[node] = _is_exact(scope, node)
    return exact


def _is_exact(scope: Scope, node: Expr) -> bool:
    if isinstance(node, (Var, IntImm)):
        return True
    if not scope.nodes.traits(node) & INDEX:
        return False
    if node.dtype.is_integer:
        form = scope.nodes.forms.get(node)
        if form is not None and form.coeffs.get(node) is None:
            return exact_form(scope, form, node.dtype) and _all_exact(scope, list(form.coeffs))
        # The bounds of a node that overflowed are those of its dtype, as are those of one that may be anything.
        if isinstance(node, Mul | FloorDiv | Call | Cast | Ramp) and bound_node(scope, node) == dtype_interval(
            node.dtype.element
        ):
            return False
    return _all_exact(scope, children(node))


def _all_exact(scope: Scope, nodes: Iterable[Expr]) -> bool:
    for node in nodes:
        if not is_exact(scope, node):
            return False
    return True
