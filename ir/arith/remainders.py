"""Remainders of interned expressions, under what a scope knows. A sum is treated by its linear form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtype import DType
from ..expr import BinaryOp, Cast, Expr, FloorDiv, FloorMod, IfThenElse, IntImm, Max, Min, Mul, Select
from ..ops import integer_value
from .bounds import bound_node, exact_form, is_exact
from .interval import INTERVAL_OF
from .linear import LinearForm
from .modular import ANY_INTEGER, Modular, modular_add, modular_multiply, modular_union, modular_wrap
from .scope import Scope
from .sums import keeps_values

__all__ = ["form_modular", "find_modular"]


def find_modular(scope: Scope, node: Expr) -> Modular:
    """Return the known remainders of an integer scalar."""
    modular = scope.known.modulars.get(node)
    if modular is None:
        modular = _MODULARS.get(type(node), _modular_unknown)(scope, node) if node.dtype.is_integer else ANY_INTEGER
        modular = _sharper(modular, scope.known.remainders.get(node))
        bounds = bound_node(scope, node)
        if bounds.is_point and bounds.lo is not None:
            modular = Modular(0, bounds.lo)
        scope.known.modulars[node] = modular
    return modular


def _sharper(found: Modular, known: Modular | None) -> Modular:
    if known is None or found.coeff == 0:
        return found
    return known if known.coeff == 0 or known.coeff > found.coeff else found


def form_modular(scope: Scope, form: LinearForm) -> Modular:
    """Return the known remainders of a linear form, over the integers."""
    modular = Modular(0, form.const)
    for atom, coeff in form.coeffs.items():
        modular = modular_add(modular, find_modular(scope, atom), coeff)
        if modular.coeff == 1:
            break
    return modular


def _modular_binary(scope: Scope, node: BinaryOp) -> Modular:
    form = scope.nodes.forms.get(node)
    if form is not None and form.coeffs.get(node) is None:
        modular = form_modular(scope, form)
        return modular if exact_form(scope, form, node.dtype) else _wrap(modular, node.dtype)
    if isinstance(node, Mul):
        modular = modular_multiply(find_modular(scope, node.a), find_modular(scope, node.b))
        return modular if is_exact(scope, node) else _wrap(modular, node.dtype)
    if isinstance(node, Min | Max):
        return modular_union(find_modular(scope, node.a), find_modular(scope, node.b))
    divisor = integer_value(node.b, 0)
    if isinstance(node, FloorDiv | FloorMod) and divisor > 0:
        of = find_modular(scope, node.a)
        if of.coeff % divisor == 0:
            if isinstance(node, FloorMod):
                return Modular(0, of.base % divisor)
            coeff = of.coeff // divisor
            return Modular(coeff, of.base // divisor % coeff if coeff else of.base // divisor)
        if isinstance(node, FloorMod):
            return modular_add(of, Modular(divisor, 0))
    return ANY_INTEGER


def _wrap(found: Modular, dtype: DType) -> Modular:
    return modular_wrap(found, dtype.bits)


def _modular_cast(scope: Scope, node: Cast) -> Modular:
    source, target = node.value.dtype, node.dtype
    if not source.is_integer:
        return ANY_INTEGER
    modular = find_modular(scope, node.value)
    return modular if keeps_values(source, target) else _wrap(modular, target)


def _modular_choice(scope: Scope, node: Select | IfThenElse) -> Modular:
    return modular_union(find_modular(scope, node.true_value), find_modular(scope, node.false_value))


def _modular_unknown(scope: Scope, node: Expr) -> Modular:
    return ANY_INTEGER


_MODULARS: dict[type[Expr], Callable[[Scope, Any], Modular]] = {
    IntImm: lambda scope, node: Modular(0, node.value),
    **dict.fromkeys(INTERVAL_OF, _modular_binary),
    Cast: _modular_cast,
    Select: _modular_choice,
    IfThenElse: _modular_choice,
}
