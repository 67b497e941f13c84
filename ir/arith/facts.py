"""Putting ranges, values and conditions into a scope."""

from __future__ import annotations

from ..expr import EQ, LE, LT, And, Call, CompareOp, Expr, FloorMod, IntImm, Not, Or, Var
from ..ops import FALSE, TRUE
from .bounds import bound_node, dtype_interval, exact_form, form_interval, value_form
from .interval import EVERYTHING, Interval, intersect
from .linear import LinearForm
from .modular import Modular
from .remainders import find_modular
from .scope import IMPURE, READS, Scope

__all__ = ["bind_interval", "bind_range", "bind_value", "learn"]


def bind_interval(scope: Scope, var: Var, bounds: Interval) -> None:
    """`var` lies within constant bounds. What was bound before is forgotten."""
    known = scope.known
    for table in (known.lows, known.highs, known.order, known.remainders, known.truth):
        table.pop(var, None)
    known.bounds[var] = bounds
    known.forget()


def bind_range(scope: Scope, var: Var, begin: Expr, extent: Expr) -> None:
    """`var` lies in [begin, begin + extent - 1]; both ends are simplified and may be symbolic."""
    dtype = var.dtype
    first = value_form(scope, begin)
    last = first.plus(value_form(scope, extent)).shift(-1)
    lo, hi = bound_node(scope, begin).lo, form_interval(scope, last).hi
    bind_interval(scope, var, intersect(dtype_interval(dtype) if dtype.bits < 32 else EVERYTHING, Interval(lo, hi)))
    if not ((first.is_const and last.is_const) or _unstable(scope, begin) or _unstable(scope, extent)):
        scope.known.lows[var], scope.known.highs[var] = first, last
        scope.known.order[var] = len(scope.known.order)


def bind_value(scope: Scope, var: Var, value: Expr) -> None:
    """`var` is `value`, which is simplified."""
    if not value.dtype.is_integer or value.dtype.lanes > 1:
        return
    bounds, remainder = bound_node(scope, value), find_modular(scope, value)
    form = scope.nodes.form(value)
    exact = exact_form(scope, form, value.dtype) and not _unstable(scope, value)
    bind_interval(scope, var, bounds)
    scope.known.remainders[var] = remainder
    if exact and not form.is_const:
        scope.known.lows[var] = scope.known.highs[var] = form
        scope.known.order[var] = len(scope.known.order)


def _unstable(scope: Scope, node: Expr) -> bool:
    """Return whether another evaluation of `node` may give another value: it reads memory that may be written to meanwhile."""
    return bool(scope.nodes.traits(node) & (READS | IMPURE))


def learn(scope: Scope, condition: Expr, holds: bool = True) -> None:
    """Take in that a simplified condition holds, or does not. What is no use is left aside."""
    stack = [(condition, holds)]
    while stack:
        node, truth = stack.pop()
        if isinstance(node, Call) and node.name == "likely":
            stack.append((node.args[0], truth))
        elif isinstance(node, Not):
            stack.append((node.value, not truth))
        elif isinstance(node, And if truth else Or):
            stack.append((node.a, truth))
            stack.append((node.b, truth))
        elif not isinstance(node, IntImm) and node.dtype.lanes == 1 and not _unstable(scope, node):
            scope.known.truth[node] = TRUE if truth else FALSE
            if isinstance(node, CompareOp) and node.a.dtype.is_integer:
                _learn_comparison(scope, node, truth)
    for key, const in scope.known.disequal:
        _learn_unequal(scope, LinearForm(dict(key), const))
    scope.known.forget()


def _learn_comparison(scope: Scope, node: CompareOp, truth: bool) -> None:
    left, right = scope.nodes.form(node.a), scope.nodes.form(node.b)
    if not exact_form(scope, left, node.a.dtype) or not exact_form(scope, right, node.a.dtype):
        return
    form = right.plus(left, -1)
    kind = type(node)
    if kind is LT or kind is LE:
        if truth:
            _learn_nonnegative(scope, form.shift(-1) if kind is LT else form)
        else:
            form = form.scale(-1)
            _learn_nonnegative(scope, form if kind is LT else form.shift(-1))
    elif (kind is EQ) == truth:
        _learn_nonnegative(scope, form)
        _learn_nonnegative(scope, form.scale(-1))
        _learn_remainder(scope, node)
    elif form.coeffs:
        scope.known.disequal.add((form.key, form.const))


def _learn_nonnegative(scope: Scope, form: LinearForm) -> None:
    """form >= 0."""
    if not form.coeffs:
        return
    content = form.content
    if content > 1:
        form = form.divided(content)
    if len(form.coeffs) == 1:
        ((atom, coeff),) = form.coeffs.items()
        _narrow(scope, atom, Interval(-form.const, None) if coeff > 0 else Interval(None, form.const))
        return
    facts = scope.known.facts
    before = facts.get(form.key)
    if before is None or before.const > form.const:
        facts[form.key] = form


def _narrow(scope: Scope, atom: Expr, bounds: Interval) -> None:
    known = scope.known.bounds.get(atom)
    scope.known.bounds[atom] = bounds if known is None else intersect(known, bounds)
    scope.known.forget()


def _learn_remainder(scope: Scope, node: CompareOp) -> None:
    """x % c == k."""
    if isinstance(node.a, FloorMod) and isinstance(node.a.b, IntImm) and isinstance(node.b, IntImm):
        divisor = node.a.b.value
        if divisor > 0 and 0 <= node.b.value < divisor:
            scope.known.remainders[node.a.a] = Modular(divisor, node.b.value)


def _learn_unequal(scope: Scope, form: LinearForm) -> None:
    """form != 0, where it is one variable at the end of its range."""
    if len(form.coeffs) == 1:
        ((atom, coeff),) = form.coeffs.items()
        if abs(coeff) == 1:
            bounds, value = bound_node(scope, atom), -form.const * coeff
            if bounds.lo == value:
                _narrow(scope, atom, Interval(value + 1, None))
            elif bounds.hi == value:
                _narrow(scope, atom, Interval(None, value - 1))
