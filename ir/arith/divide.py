"""Floor division and remainder of linear forms: the index arithmetic that split and fuse leave behind.

With 0 <= j < 32: (i*32 + j) // 32 is i, (i*32 + j) % 32 is j, (i*8 + k) // 32 with 0 <= k < 8 is i // 4. Everything
here speaks of integers that do not wrap; callers check that with `exact_form`.
"""

from __future__ import annotations

from math import gcd

from ..dtype import DType
from ..expr import Expr, FloorDiv, FloorMod, Mul
from .bounds import exact_form, form_interval, is_exact, value_form
from .linear import LinearForm
from .prove import nonnegative
from .remainders import form_modular
from .scope import Scope
from .sums import build_expression, convert, product, split_factors

__all__ = ["divided", "divided_by_symbol", "remainder"]


def divided(scope: Scope, form: LinearForm, divisor: int, dtype: DType) -> LinearForm | None:
    """form // divisor, for a divisor above 0, as the form of whole terms plus at most one division."""
    whole, rest = _split_dividend(form, divisor)
    while rest.coeffs:
        lo, hi = form_interval(scope, rest)
        if lo is not None and hi is not None and lo // divisor == hi // divisor:
            return whole.shift(lo // divisor)
        reduced = _split_small_part(scope, rest, divisor)
        if reduced is None:
            break
        _, rest, divisor = reduced
        if divisor == 1:
            return whole.plus(rest)
    if not rest.coeffs:
        return whole.shift(rest.const // divisor)
    if not exact_form(scope, rest, dtype) or not exact_form(scope, whole, dtype):
        return None
    quotient = scope.nodes.make(FloorDiv, build_expression(scope, rest, dtype), scope.nodes.integer(divisor, dtype))
    return whole.plus(scope.nodes.form(quotient))


def _split_dividend(form: LinearForm, divisor: int) -> tuple[LinearForm, LinearForm]:
    """(quotient of what divides, rest): form = quotient * divisor + rest, with the rest's constant in [0, divisor)."""
    whole = {atom: coeff // divisor for atom, coeff in form.coeffs.items() if coeff % divisor == 0}
    rest = {atom: coeff for atom, coeff in form.coeffs.items() if coeff % divisor}
    return LinearForm(whole, form.const // divisor), LinearForm(rest, form.const % divisor)


def _split_small_part(scope: Scope, rest: LinearForm, divisor: int) -> tuple[LinearForm, LinearForm, int] | None:
    """(small, reduced, divisor // g) where rest = g * reduced + small, 0 <= small < g, and g divides the divisor, so
    that rest // divisor = reduced // (divisor // g). The largest such g is found, for the shortest remainder."""
    for step in sorted({gcd(coeff, divisor) for coeff in rest.coeffs.values()}, reverse=True):
        if step == 1:
            return None
        small = LinearForm({a: c for a, c in rest.coeffs.items() if c % step}, rest.const % step)
        if not small.coeffs or form_interval(scope, small).within(0, step - 1):
            reduced = LinearForm({a: c // step for a, c in rest.coeffs.items() if c % step == 0}, rest.const // step)
            return small, reduced, divisor // step
    return None


def remainder(scope: Scope, form: LinearForm, divisor: int, dtype: DType) -> LinearForm | None:
    """form % divisor, for a divisor above 0."""
    known = form_modular(scope, form).remainder(divisor)
    if known is not None:
        return LinearForm({}, known)
    rest = LinearForm(
        {a: _least_residue(c, divisor) for a, c in form.coeffs.items() if c % divisor}, form.const % divisor
    )
    lo, hi = form_interval(scope, rest)
    if lo is not None and hi is not None and lo // divisor == hi // divisor:
        return rest.shift(-(lo // divisor) * divisor)
    reduced = _split_small_part(scope, rest, divisor)
    if reduced is not None:
        small, quotient, modulus = reduced
        step = divisor // modulus
        inner = remainder(scope, quotient, modulus, dtype)
        return None if inner is None else inner.scale(step).plus(small)
    if not exact_form(scope, rest, dtype):
        return None
    atom = scope.nodes.make(FloorMod, build_expression(scope, rest, dtype), scope.nodes.integer(divisor, dtype))
    return scope.nodes.form(atom)


def _least_residue(coeff: int, divisor: int) -> int:
    """A coefficient's remainder, of its own sign, so that n - i stays n - i."""
    return coeff % divisor if coeff > 0 else -(-coeff % divisor)


def divided_by_symbol(scope: Scope, form: LinearForm, divisor: Expr) -> tuple[LinearForm, LinearForm] | None:
    """(quotient, remainder) of form by a symbolic divisor n, where form = quotient * n + rest with 0 <= rest < n proved."""
    quotient: list[tuple[LinearForm, int]] = []
    rest = dict(form.coeffs)
    for atom, coeff in form.coeffs.items():
        other = _divide_atom(scope, atom, divisor)
        if other is not None:
            quotient.append((other, coeff))
            del rest[atom]
    remaining = LinearForm(rest, form.const)
    below = value_form(scope, divisor).plus(remaining, -1).shift(-1)
    if not nonnegative(scope, remaining) or not nonnegative(scope, below):
        return None
    whole = LinearForm({})
    for other, coeff in quotient:
        whole = whole.plus(other, coeff)
    return whole, remaining


def _divide_atom(scope: Scope, atom: Expr, divisor: Expr) -> LinearForm | None:
    """atom / divisor, where the divisor is one of its factors."""
    if atom is divisor:
        return LinearForm({}, 1)
    if type(atom) is not Mul or not is_exact(scope, atom):
        return None
    factors = split_factors(atom)
    if divisor not in factors:
        return None
    factors.remove(divisor)
    quotient = factors[0]
    for factor in factors[1:]:
        quotient = product(scope, quotient, factor)
    return scope.nodes.form(convert(scope, quotient, atom.dtype))
