"""The simplifier: which handler simplifies which class of node."""

from __future__ import annotations

from ..dtype import DType
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Reduce,
    Select,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from ..ops import cast
from ..rounding import SIGNIFICANT_BITS
from ..visit import rebuild
from . import facts
from .bounds import bound_node, is_exact
from .comparisons import compare
from .conditions import choice, logic, negation
from .core import Handler, Simplifier
from .integers import division, extremum, simplify_sum
from .rules.cast import cast_of_cast
from .scope import IMPURE, Scope
from .sums import build_expression, keeps_values, narrowable

__all__ = ["simplifier"]


def simplifier(scope: Scope) -> Simplifier:
    """A simplifier within a scope."""
    return Simplifier(scope, _HANDLERS)


def _leaf(simplifier: Simplifier, node: Expr) -> Expr:
    return simplifier.scope.nodes.intern(node)


def _variable(simplifier: Simplifier, node: Var) -> Expr:
    return simplifier.scope.known.truth.get(node, node)


def _call(simplifier: Simplifier, node: Call) -> Expr:
    call = simplifier.rebuilt(node)
    if not isinstance(call, Call):
        return call
    if call.name == "likely":
        return call.args[0] if isinstance(call.args[0], IntImm | Broadcast) else call
    if simplifier.scope.nodes.traits(call) & IMPURE:
        simplifier.effects = True
    return call


def _let(simplifier: Simplifier, node: Let) -> Expr:
    value = simplifier.visit(node.value)
    if isinstance(value, IntImm | Var):
        simplifier.scope.known.truth[node.var] = value
        return simplifier.visit(node.body)
    facts.bind_value(simplifier.scope, node.var, value)
    return rebuild(node, [value, simplifier.visit(node.body)])


def _reduce(simplifier: Simplifier, node: Reduce) -> Expr:
    for axis in node.axes:
        if axis.dom is not None and axis not in simplifier.scope.known.bounds:
            begin, extent = simplifier.visit(axis.dom.begin), simplifier.visit(axis.dom.extent)
            facts.bind_range(simplifier.scope, axis, begin, extent)
    return simplifier.rebuilt(node)


def _cast(simplifier: Simplifier, node: Cast) -> Expr:
    scope = simplifier.scope
    value, dtype = simplifier.visit(node.value), node.dtype
    if value.dtype is dtype:
        return value
    if isinstance(value, IntImm | FloatImm):
        return scope.nodes.intern(cast(value, dtype))
    if isinstance(value, Broadcast):
        inner = simplifier.visit(scope.nodes.make(Cast, value.value, dtype.element))
        return scope.nodes.make(Broadcast, inner, dtype.lanes)
    if isinstance(value, Ramp) and keeps_values(value.dtype.element, dtype.element) and is_exact(scope, value):
        parts = [simplifier.visit(scope.nodes.make(Cast, part, dtype.element)) for part in (value.base, value.stride)]
        return scope.nodes.make(Ramp, *parts, value.lanes)
    if isinstance(value, Cast) and cast_of_cast(value.value.dtype.element, value.dtype.element, dtype.element):
        return simplifier.visit(scope.nodes.make(Cast, value.value, dtype))
    if isinstance(value, Cast) and dtype.lanes == 1 and _is_preserved(scope, value, dtype):
        return simplifier.visit(scope.nodes.make(Cast, value.value, dtype))
    if dtype.lanes == 1 and value.dtype.is_integer and dtype.is_integer:
        form = narrowable(scope, value, dtype)
        if form is not None:
            return build_expression(scope, form, dtype)
    return simplifier.apply_rules(scope.nodes.make(Cast, value, dtype))


def _is_preserved(scope: Scope, value: Cast, dtype: DType) -> bool:
    """Return whether an integer that went by way of a float or of fewer bits arrives as it was: no rounding on the way, and no
    saturation, or nothing cut off."""
    source, middle = value.value.dtype, value.dtype
    if source.is_integer and middle.is_integer and not middle.is_bool and dtype.is_integer and not dtype.is_bool:
        return bound_node(scope, value.value).within(middle.least, middle.greatest)
    if not (source.is_integer and middle.is_float and dtype.is_integer) or dtype.is_bool:
        return False
    bounds, exact = bound_node(scope, value.value), 1 << SIGNIFICANT_BITS[middle.kind, middle.bits]
    return (
        bounds.lo is not None
        and bounds.hi is not None
        and max(-exact, dtype.least) <= bounds.lo
        and bounds.hi <= min(exact, dtype.greatest)
    )


_HANDLERS: dict[type[Expr], Handler] = {
    **dict.fromkeys((Var, *Var.__subclasses__()), _variable),
    **dict.fromkeys((IntImm, FloatImm, StringImm), _leaf),
    **dict.fromkeys((Add, Sub, Mul), simplify_sum),
    **dict.fromkeys((FloorDiv, FloorMod), division),
    **dict.fromkeys((Div, TruncDiv, TruncMod), Simplifier.operator),
    **dict.fromkeys((Min, Max), extremum),
    **dict.fromkeys((LT, LE, GT, GE, EQ, NE), compare),
    **dict.fromkeys((And, Or), logic),
    **dict.fromkeys((Select, IfThenElse), choice),
    Not: negation,
    Cast: _cast,
    Call: _call,
    Let: _let,
    Reduce: _reduce,
}
