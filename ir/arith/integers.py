"""Arithmetic on integer scalars: sums, divisions, minima and maxima, by their linear forms."""

from __future__ import annotations

from math import gcd

from ..dtype import DType
from ..expr import BinaryOp, Expr, FloorDiv, FloorMod, IntImm, Max, Min
from .bounds import exact_form, value_form
from .core import Simplifier
from .divide import divided, divided_by_symbol, remainder
from .linear import LinearForm
from .prove import nonnegative
from .sums import build_expression, collect, wrapped

__all__ = ["division", "extremum", "simplify_sum"]


def simplify_sum(simplifier: Simplifier, node: BinaryOp) -> Expr:
    """Add, Sub and Mul."""
    dtype = node.dtype
    if not dtype.is_integer or dtype.lanes > 1:
        return simplifier.operator(node)
    form = collect(simplifier.scope, node, simplifier.visit)
    if simplifier.impure(node):
        return simplifier.rebuilt(node)
    return simplifier.settle(form, dtype)


def division(simplifier: Simplifier, node: BinaryOp) -> Expr:
    """FloorDiv and FloorMod."""
    a, b = simplifier.visit(node.a), simplifier.visit(node.b)
    folded = simplifier.fold_constants(type(node), a, b)
    if folded is not None:
        return folded
    dtype = node.dtype
    kind = FloorDiv if type(node) is FloorDiv else FloorMod
    if dtype.is_integer and dtype.lanes == 1 and not simplifier.impure(node):
        form = simplifier.scope.nodes.form(a)
        result = _divide(simplifier, kind, form, b, dtype) if exact_form(simplifier.scope, form, dtype) else None
        if result is not None:
            (atom, coeff), *more = result.coeffs.items() or [(a, 0)]
            if more or coeff != 1 or result.const or type(atom) is not kind or atom.dtype is not dtype:
                return simplifier.settle(_ruled_atoms(simplifier, wrapped(result, dtype)), dtype)
            a, b = atom.a, atom.b
    return simplifier.apply_rules(simplifier.scope.nodes.make(kind, a, b))


def _divide(
    simplifier: Simplifier, kind: type[BinaryOp], form: LinearForm, divisor: Expr, dtype: DType
) -> LinearForm | None:
    """The quotient or remainder of a form as a form, or None where nothing can be said."""
    if isinstance(divisor, IntImm):
        if divisor.value <= 0:
            return None
        return (divided if kind is FloorDiv else remainder)(simplifier.scope, form, divisor.value, dtype)
    parts = divided_by_symbol(simplifier.scope, form, divisor)
    return None if parts is None else parts[0] if kind is FloorDiv else parts[1]


def _ruled_atoms(simplifier: Simplifier, form: LinearForm) -> LinearForm:
    """The form with divisions that were just split off simplified by the rules."""
    results = simplifier.scope.known.results
    for atom in [atom for atom in form.coeffs if type(atom) in (FloorDiv, FloorMod)]:
        ruled = results.get(atom)
        if ruled is None:
            ruled = simplifier.apply_rules(atom)
        if ruled is not atom:
            form = form.replaced(atom, simplifier.scope.nodes.form(ruled))
    return form


def extremum(simplifier: Simplifier, node: BinaryOp) -> Expr:
    """Min and Max."""
    a, b = simplifier.visit(node.a), simplifier.visit(node.b)
    kind = Min if type(node) is Min else Max
    if a is b and not simplifier.impure(node):
        return a
    folded = simplifier.fold_constants(kind, a, b)
    if folded is not None:
        return folded
    if node.dtype.is_integer and node.dtype.lanes == 1 and not simplifier.impure(node):
        difference = value_form(simplifier.scope, b).plus(value_form(simplifier.scope, a), -1)
        if nonnegative(simplifier.scope, difference):
            return a if kind is Min else b
        if nonnegative(simplifier.scope, difference.scale(-1)):
            return b if kind is Min else a
        apart = _extract_common(simplifier, kind, a, b)
        if apart is not None:
            return apart
        first, second = map(simplifier.scope.nodes.sort_key, (a, b))  # what is asked for first comes first
        if isinstance(a, IntImm) or (not isinstance(b, IntImm) and second < first):
            a, b = b, a
    return simplifier.apply_rules(simplifier.scope.nodes.make(kind, a, b))


def _extract_common(simplifier: Simplifier, kind: type[BinaryOp], a: Expr, b: Expr) -> Expr | None:
    """min(x + s, y + s) as min(x, y) + s, and min(x * k, y * k) as min(x, y) * k."""
    dtype = a.dtype
    left, right = value_form(simplifier.scope, a), value_form(simplifier.scope, b)
    shared = {atom: coeff for atom, coeff in left.coeffs.items() if right.coeffs.get(atom) == coeff}
    common = LinearForm(shared)
    left, right = left.plus(common, -1), right.plus(common, -1)
    if left.coeffs and right.coeffs and ((left.const and right.const) or shared):
        # The smaller constant comes out. Beside a constant arm it stays in: min(n - i * 32, 32) is what one reads.
        offset = min(left.const, right.const, key=lambda value: (value == 0, abs(value)))
        common, left, right = common.shift(offset), left.shift(-offset), right.shift(-offset)
    factor = _common_factor(left, right)
    if common.is_const and not common.const and factor <= 1:
        return None
    left, right = left.divided(factor), right.divided(factor)
    if not all(exact_form(simplifier.scope, form, dtype) for form in (left, right, common)):
        return None
    scope = simplifier.scope
    arms = [build_expression(scope, form, dtype) for form in (left, right)]
    inner = simplifier.visit(scope.nodes.make(kind, *arms))
    return simplifier.settle(wrapped(common.plus(scope.nodes.form(inner), factor), dtype), dtype)


def _common_factor(left: LinearForm, right: LinearForm) -> int:
    """Return the common factor of the coefficients and constants of both."""
    return gcd(left.content, left.const, right.content, right.const)
