"""Collecting sums into linear forms, and writing linear forms as expressions."""

from __future__ import annotations

from collections.abc import Callable

from ..dtype import DType
from ..expr import Add, Cast, Expr, IntImm, Mul, Sub
from ..rounding import wrap_int
from .bounds import exact_form
from .linear import LinearForm, merge
from .scope import INDEX, Scope

__all__ = [
    "collect",
    "convert",
    "build_expression",
    "split_factors",
    "keeps_values",
    "narrowable",
    "product",
    "wrapped",
]

_TREE_STEPS = 8000
"""Nodes of one sum that are opened in place. What lies deeper is simplified on its own first, by way of the memo, so
that a sum over shared nodes (x + x of x + x ...) takes linear time."""


def keeps_values(source: DType, target: DType) -> bool:
    """Return whether every integer of `source` is one of `target`."""
    return (
        source.is_integer and target.is_integer and target.least <= source.least and source.greatest <= target.greatest
    )


def collect(scope: Scope, node: Expr, simplified: Callable[[Expr], Expr]) -> LinearForm:
    """The linear form of an integer scalar sum. Its atoms come from `simplified` and are merged where they are equal."""
    coeffs: dict[Expr, int] = {}
    const = 0
    forms, adopt = scope.nodes.forms, scope.nodes.adopt
    stack: list[tuple[Expr, int]] = [(node, 1)]
    steps = 0
    while stack:
        inner, factor = stack.pop()
        steps += 1
        if steps < _TREE_STEPS or inner is node:
            if type(inner) is Add or type(inner) is Sub:
                adopt(inner)
                stack.append((inner.b, factor if type(inner) is Add else -factor))
                stack.append((inner.a, factor))
                continue
            if type(inner) is Mul:
                if type(inner.b) is IntImm:
                    adopt(inner.b)
                    adopt(inner)
                    stack.append((inner.a, factor * inner.b.value))
                    continue
                if type(inner.a) is IntImm:
                    stack.append((inner.b, factor * inner.a.value))
                    continue
        if type(inner) is IntImm:
            adopt(inner)
            const += factor * inner.value
            continue
        if isinstance(inner, Mul):
            atom = product(scope, simplified(inner.a), simplified(inner.b))
        else:
            atom = simplified(inner)
        form = forms.get(atom)
        if form is None:
            form = scope.nodes.form(atom)
        const += factor * form.const
        merge(coeffs, form.coeffs, factor)
    return wrapped(LinearForm(coeffs, const), node.dtype)


def wrapped(form: LinearForm, dtype: DType) -> LinearForm:
    """The form with numbers that its dtype can hold, equal modulo 2^bits."""
    greatest = dtype.greatest
    least = -greatest if form.coeffs else dtype.least
    if least <= form.const <= greatest and all(-greatest <= coeff <= greatest for coeff in form.coeffs.values()):
        return form
    const = form.const if -greatest <= form.const <= greatest and form.coeffs else wrap_int(form.const, dtype)
    coeffs = {
        atom: coeff if -greatest <= coeff <= greatest else wrap_int(coeff, dtype) for atom, coeff in form.coeffs.items()
    }
    return LinearForm({atom: coeff for atom, coeff in coeffs.items() if coeff}, const)


def product(scope: Scope, a: Expr, b: Expr) -> Expr:
    """The interned product of two simplified integer scalars: constants in front, factors in canonical order."""
    nodes = scope.nodes
    form_a, form_b = nodes.form(a), nodes.form(b)
    if form_a.is_const or form_b.is_const:
        form = form_b.scale(form_a.const) if form_a.is_const else form_a.scale(form_b.const)
        return build_expression(scope, wrapped(form, a.dtype), a.dtype)
    (factor_a, a), (factor_b, b) = _content(scope, a, form_a), _content(scope, b, form_b)
    factors = [*split_factors(a), *split_factors(b)]
    if len(factors) > _FACTORS:
        factors = [a, b]
    else:
        factors.sort(key=nodes.sort_key)
    result = factors[0]
    for factor in factors[1:]:
        result = nodes.make(Mul, result, factor)
    return build_expression(scope, wrapped(LinearForm({result: factor_a * factor_b}), a.dtype), a.dtype)


def _content(scope: Scope, node: Expr, form: LinearForm) -> tuple[int, Expr]:
    """A single term's coefficient and the rest of it."""
    if len(form.coeffs) == 1 and not form.const:
        ((atom, coeff),) = form.coeffs.items()
        if coeff != 1:
            return coeff, convert(scope, atom, node.dtype)
    return 1, node


_FACTORS = 16
"""Longer products are left in the order that they came in."""


def split_factors(node: Expr) -> list[Expr]:
    """The factors of a canonical product; of a long one, what is left of it is one factor."""
    factors: list[Expr] = []
    while type(node) is Mul and len(factors) < _FACTORS:
        factors.append(node.b)
        node = node.a
    factors.append(node)
    return factors


def convert(scope: Scope, atom: Expr, dtype: DType) -> Expr:
    """An atom in the dtype of the sum that it stands in."""
    if atom.dtype is dtype:
        return atom
    widened = scope.nodes.make(Cast, atom, dtype)
    scope.nodes.forms[widened] = scope.nodes.form(atom)
    return widened


def build_expression(scope: Scope, form: LinearForm, dtype: DType) -> Expr:
    """The interned expression of a linear form: added terms first, then subtracted ones, then the constant. Terms of
    an index expression are put in canonical order, others stay as they came."""
    nodes = scope.nodes
    if not form.coeffs:
        return nodes.integer(form.const, dtype)
    terms = list(form.coeffs.items())
    if len(terms) > 1:
        traits = nodes.traits
        if all(traits(atom) & INDEX for atom, _ in terms):
            key = nodes.sort_key
            terms.sort(key=lambda term: (-abs(term[1]), key(term[0])))
        terms = [t for t in terms if t[1] > 0] + [t for t in terms if t[1] < 0]
    result: Expr | None = None
    const = form.const
    if terms[0][1] < 0 < const:
        result, const = nodes.integer(const, dtype), 0
    elif terms[0][1] == -1:
        result = nodes.integer(0, dtype)
    for atom, coeff in terms:
        result = _add_term(scope, result, convert(scope, atom, dtype), coeff, dtype)
    assert result is not None
    if const:
        kind, const = (Add, const) if const > 0 or -const > dtype.greatest else (Sub, -const)
        result = nodes.make(kind, result, nodes.integer(const, dtype))
    if result not in nodes.forms:
        nodes.forms[result] = form
    return result


def _add_term(scope: Scope, result: Expr | None, atom: Expr, coeff: int, dtype: DType) -> Expr:
    """result + coeff * atom."""
    nodes = scope.nodes
    subtracted = result is not None and coeff < 0 and -coeff <= dtype.greatest
    if subtracted:
        coeff = -coeff
    term = atom if coeff == 1 else nodes.make(Mul, atom, nodes.integer(coeff, dtype))
    return term if result is None else nodes.make(Sub if subtracted else Add, result, term)


def narrowable(scope: Scope, value: Expr, target: DType) -> LinearForm | None:
    """The form that a cast of `value` to `target` may take over: where no value changes, and no sum wraps."""
    if not keeps_values(value.dtype, target):
        return None
    form = scope.nodes.form(value)
    if len(form.coeffs) == 1 and not form.const and form.coeffs.get(value) == 1:
        return form
    if not exact_form(scope, form, value.dtype):
        return None
    return form if all(scope.nodes.traits(atom) & INDEX for atom in form.coeffs) else None
