"""Comparisons: decided by proof, else with shared terms and factors taken out."""

from __future__ import annotations

from ..expr import EQ, GE, GT, LE, LT, NE, Broadcast, CompareOp, Expr
from ..ops import FALSE, TRUE
from .bounds import bound_node, exact_form, value_form
from .core import Simplifier
from .linear import LinearForm
from .prove import always_nonzero, nonnegative
from .remainders import form_modular
from .scope import Scope
from .sums import build_expression, wrapped

__all__ = ["compare", "negate"]


def compare(simplifier: Simplifier, node: CompareOp) -> Expr:
    """A comparison; GT and GE are turned round."""
    a, b = simplifier.visit(node.a), simplifier.visit(node.b)
    kind = type(node)
    if kind is GT or kind is GE:
        kind, a, b = LT if kind is GT else LE, b, a
    folded = simplifier.fold_constants(kind, a, b)
    if folded is not None:
        return folded
    if a.dtype.is_integer and a.dtype.lanes == 1 and not simplifier.impure(node):
        decided = _decide(simplifier, kind, a, b)
        if decided is not None:
            return decided
        a, b, kind = _balance(simplifier, kind, a, b)
    elif a.dtype.is_integer and a.dtype.lanes > 1:
        decided = _decided_lanes(simplifier, kind, a, b)
        if decided is not None:
            return decided
    folded = simplifier.scope.nodes.make(kind, a, b)
    known = simplifier.scope.known.truth.get(folded)
    return simplifier.apply_rules(folded) if known is None else known


def _decide(simplifier: Simplifier, kind: type[CompareOp], a: Expr, b: Expr) -> Expr | None:
    """TRUE or FALSE where a comparison is proved one way or the other."""
    scope = simplifier.scope
    form = value_form(scope, b).plus(value_form(scope, a), -1)
    if kind is LT or kind is LE:
        form = form.shift(-1) if kind is LT else form
        if nonnegative(scope, form):
            return TRUE
        return FALSE if nonnegative(scope, form.scale(-1).shift(-1)) else None
    content = form.content
    if (not form.coeffs and not form.const) or (nonnegative(scope, form) and nonnegative(scope, form.scale(-1))):
        return TRUE if kind is EQ else FALSE
    if always_nonzero(scope, form) or (content and form.const % content):
        return FALSE if kind is EQ else TRUE
    known = form_modular(scope, form)
    if known.coeff > 1 and known.base % known.coeff:
        return FALSE if kind is EQ else TRUE
    if a.dtype is b.dtype and _same_modulo(simplifier, a, b):
        return TRUE if kind is EQ else FALSE
    return None


def _same_modulo(simplifier: Simplifier, a: Expr, b: Expr) -> bool:
    """Return whether two sums that may wrap are equal term by term."""
    form = wrapped(simplifier.scope.nodes.form(a).plus(simplifier.scope.nodes.form(b), -1), a.dtype)
    return not form.coeffs and not form.const


def _decided_lanes(simplifier: Simplifier, kind: type[CompareOp], a: Expr, b: Expr) -> Expr | None:
    """A comparison of vectors that comes out the same in every lane, by the bounds of both sides."""
    left, right = bound_node(simplifier.scope, a), bound_node(simplifier.scope, b)
    if left.lo is None or left.hi is None or right.lo is None or right.hi is None:
        return None
    lanes = a.dtype.lanes
    same, apart = left.is_point and left == right, left.hi < right.lo or right.hi < left.lo
    outcomes: dict[type[CompareOp], tuple[bool, bool]] = {
        LT: (left.hi < right.lo, left.lo >= right.hi),
        LE: (left.hi <= right.lo, left.lo > right.hi),
        EQ: (same, apart),
        NE: (apart, same),
    }
    always, never = outcomes[kind]
    return simplifier.scope.nodes.make(Broadcast, TRUE if always else FALSE, lanes) if always or never else None


def _balance(simplifier: Simplifier, kind: type[CompareOp], a: Expr, b: Expr) -> tuple[Expr, Expr, type[CompareOp]]:
    """A comparison with terms that stand on both sides cancelled and common factors divided out."""
    scope, dtype = simplifier.scope, a.dtype
    left, right = scope.nodes.form(a), scope.nodes.form(b)
    if (left.coeffs.get(a) == 1 and right.coeffs.get(b) == 1) or not (
        exact_form(scope, left, dtype) and exact_form(scope, right, dtype)
    ):
        return a, b, kind
    form = right.plus(left, -1)
    if not form.coeffs:
        return a, b, kind
    form = form.shift(-1) if kind is LT else form  # ordered: the comparison is form >= 0
    low, high, balanced_kind = _sides(form.divided(form.content), kind)
    if not exact_form(scope, low, dtype) or not exact_form(scope, high, dtype):
        return a, b, kind
    return build_expression(scope, low, dtype), build_expression(scope, high, dtype), balanced_kind


def _sides(form: LinearForm, kind: type[CompareOp]) -> tuple[LinearForm, LinearForm, type[CompareOp]]:
    """(low, high, comparison) without subtraction, for form >= 0 (from LT and LE) or form == 0 and form != 0."""
    low = LinearForm({atom: -coeff for atom, coeff in form.coeffs.items() if coeff < 0})
    high = LinearForm({atom: coeff for atom, coeff in form.coeffs.items() if coeff > 0})
    const = form.const
    if kind is EQ or kind is NE:
        if not low.coeffs:
            return high, LinearForm({}, -const), kind
        return (low, high.shift(const), kind) if const >= 0 or not high.coeffs else (low.shift(-const), high, kind)
    if not low.coeffs:
        return LinearForm({}, -const), high, LE
    if not high.coeffs:
        return low, LinearForm({}, const + 1), LT
    return (low.shift(-const - 1), high, LT) if const < 0 else (low, high.shift(const), LE)


def negate(scope: Scope, node: CompareOp) -> Expr:
    """The comparison of integers that holds where `node` does not."""
    kind = type(node)
    if kind is EQ or kind is NE:
        return scope.nodes.make(NE if kind is EQ else EQ, node.a, node.b)
    if kind is LT or kind is LE:
        return scope.nodes.make(LE if kind is LT else LT, node.b, node.a)
    return scope.nodes.make(LE if kind is GT else LT, node.a, node.b)
