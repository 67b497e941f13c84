"""Terms of a sum that belong together: the rules of `rules.add`, matched against the terms of a linear form.

A rule's pattern is a sum of two terms. One of them is matched with an atom, at a coefficient that may be a multiple k
of the pattern's; the other with k times another atom or, where it is a variable that the first has bound, with k times
the terms of its linear form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..dtype import DType
from ..expr import NE, Add, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub
from .bounds import is_exact, value_form
from .divide import divided
from .linear import LinearForm
from .pattern import WATCHERS, Operation, Pattern, Rule, Wild, build, evaluate, has_wild, match, variants
from .prove import always_nonzero, expand, nonnegative
from .remainders import find_modular
from .rules.add import EXACT_SUM_RULES, SUM_RULES
from .scope import Scope
from .sums import build_expression

__all__ = ["combine"]

_TERMS = 24
"""Sums of more terms than this are left as they are, since pairs of terms are compared."""


def combine(scope: Scope, form: LinearForm, dtype: DType, simplified: Callable[[Expr], Expr]) -> LinearForm | None:
    """A simpler form of the same value, or None."""
    if len(form.coeffs) > _TERMS:
        return None
    atom: Expr
    for atom, coeff in form.coeffs.items():
        if isinstance(atom, FloorDiv) and isinstance(atom.b, IntImm):
            result = _exact_quotient(scope, form, atom, atom.b.value, coeff)
            if result is not None:
                return result
        for candidate in _SUMS.get(type(atom), ()):
            result = candidate.applied(scope, form, atom, coeff, simplified)
            if result is not None:
                return result
        if isinstance(atom, FloorDiv) and isinstance(atom.b, IntImm):  # after the rule for the remainder of the same
            result = _put_together(scope, form, atom, atom.b.value, coeff)
            if result is not None:
                return result
    if form.const and len(form.coeffs) == 1:
        return _move_into_arms(scope, form, dtype, simplified)
    grown = expand(scope, form)
    return grown if grown is not None and len(grown.coeffs) < len(form.coeffs) else None


def _exact_quotient(scope: Scope, form: LinearForm, atom: FloorDiv, divisor: int, coeff: int) -> LinearForm | None:
    """(a // c) * c is a - r where the remainder r of a by c, the divisor, is known."""
    if divisor <= 0 or coeff % divisor:
        return None
    known = find_modular(scope, atom.a).remainder(divisor)
    if known is None:
        return None
    return form.without(atom).plus(value_form(scope, atom.a).shift(-known), coeff // divisor)


def _put_together(scope: Scope, form: LinearForm, atom: FloorDiv, divisor: int, coeff: int) -> LinearForm | None:
    """(a // cd) * c + b // d % c is a // d where a and b differ by a multiple of cd, and with d = 1 a: of (i * 32 + j) % 3 only
    (i * 2 + j) % 3 is left."""
    for other, times in form.coeffs.items() if divisor > 1 else ():
        if not isinstance(other, FloorMod) or not isinstance(other.b, IntImm):
            continue
        digit = other.b.value
        if digit <= 1 or times * digit != coeff or divisor % digit:
            continue
        below, inner = divisor // digit, other.a
        if below > 1:
            if not isinstance(inner, FloorDiv) or not isinstance(inner.b, IntImm) or inner.b.value != below:
                continue
            inner = inner.a
        whole = value_form(scope, atom.a)
        apart = whole.plus(value_form(scope, inner), -1)
        if apart.content % divisor == 0 and apart.const % divisor == 0:
            joined = whole if below == 1 else divided(scope, whole, below, atom.dtype)
            return None if joined is None else form.without(atom).without(other).plus(joined, times)
    return None


def _move_into_arms(
    scope: Scope, form: LinearForm, dtype: DType, simplified: Callable[[Expr], Expr]
) -> LinearForm | None:
    """min(x, c0) + c1 as min(x + c1, c0 + c1), and c1 - min(x, c0) as max(c1 - x, c1 - c0)."""
    ((atom, coeff),) = form.coeffs.items()
    if (
        not isinstance(atom, Min | Max)
        or abs(coeff) != 1
        or not isinstance(atom.b, IntImm)
        or not is_exact(scope, atom)
    ):
        return None
    kind = type(atom) if coeff > 0 else Max if isinstance(atom, Min) else Min
    arms = [value_form(scope, arm).scale(coeff).shift(form.const) for arm in (atom.a, atom.b)]
    joined = scope.nodes.make(kind, *[build_expression(scope, arm, dtype) for arm in arms])
    joined = simplified(joined)
    return scope.nodes.form(joined) if is_exact(scope, joined) else None


class _Term(NamedTuple):
    """One of the two terms of a pattern: sign * number * atom."""

    sign: int
    atom: Pattern
    number: Pattern | None

    def factor(self, bound: dict[str, Any]) -> int:
        value = 1 if self.number is None else evaluate(self.number, bound)
        assert value is not None
        return self.sign * value


class _SumRule(NamedTuple):
    rule: Rule
    first: _Term
    second: _Term
    exact: bool

    def applied(
        self, scope: Scope, form: LinearForm, atom: Expr, coeff: int, simplified: Callable[[Expr], Expr]
    ) -> LinearForm | None:
        """The form with the rule applied to the term in `atom`, or None."""
        bound: dict[str, Any] = {}
        if not match(self.first.atom, atom, bound) or not self.rule.applies(bound):
            return None
        factor = self.first.factor(bound)
        if factor == 0 or coeff % factor:
            return None
        times = coeff // factor
        rest = self._rest(scope, form, atom, times, bound)
        if rest is None or (self.exact and not is_exact(scope, atom)) or not self._is_given(scope, bound):
            return None
        built = build(self.rule.result, bound, atom, scope.nodes)
        if built is None:
            return None
        result = simplified(built)
        if self.exact and not is_exact(scope, result):
            return None
        for watcher in WATCHERS:
            watcher(self.rule)
        return rest.plus(scope.nodes.form(result), times)

    def _rest(self, scope: Scope, form: LinearForm, atom: Expr, times: int, bound: dict[str, Any]) -> LinearForm | None:
        """Return the terms of the form beside the two, or None if it lacks the second."""
        remaining = form.without(atom)
        if isinstance(self.second.atom, Wild):
            value = scope.nodes.form(bound[self.second.atom.name])
            factor = times * self.second.factor(bound)
            if not value.coeffs or any(remaining.coeffs.get(a) != c * factor for a, c in value.coeffs.items()):
                return None
            return remaining.plus(value, -factor)
        for other, coeff in remaining.coeffs.items():
            trial = dict(bound)
            if (
                match(self.second.atom, other, trial)
                and self.rule.applies(trial)
                and coeff == times * self.second.factor(trial)
            ):
                bound.update(trial)
                return remaining.without(other)
        return None

    def _is_given(self, scope: Scope, bound: dict[str, Any]) -> bool:
        """Conditions of sum rules all say of one thing that it is not 0, or that it is at least 0."""
        for condition in self.rule.given:
            subject = condition.operands[0]
            proves = always_nonzero if condition.kind is NE else nonnegative
            if not isinstance(subject, Wild) or not proves(scope, value_form(scope, bound[subject.name])):
                return False
        return True


def _terms(pattern: Operation) -> tuple[_Term, _Term]:
    """The terms of a two-term pattern, the one with structure first."""
    assert pattern.kind in (Add, Sub)
    left, right = pattern.operands
    first, second = _term(1, left), _term(1 if pattern.kind is Add else -1, right)
    return (second, first) if isinstance(first.atom, Wild) else (first, second)


def _term(sign: int, pattern: Pattern) -> _Term:
    if isinstance(pattern, Operation) and pattern.kind is Mul and not has_wild(pattern.operands[1]):
        return _Term(sign, pattern.operands[0], pattern.operands[1])
    return _Term(sign, pattern, None)


def _group_by_class() -> dict[type[Expr], list[_SumRule]]:
    rules: dict[type[Expr], list[_SumRule]] = {}
    for rule in (*SUM_RULES, *EXACT_SUM_RULES):
        for pattern in variants(rule.pattern):
            first, second = _terms(pattern)
            assert isinstance(first.atom, Operation)
            rules.setdefault(first.atom.kind, []).append(_SumRule(rule, first, second, rule in EXACT_SUM_RULES))
    return rules


_SUMS = _group_by_class()
