"""Proving that a linear form is at least 0.

First by the bounds of its terms; then by replacing one atom after another by a symbolic bound: a variable by the ends
of its range, a quotient by its numerator, a minimum by an arm, a combination by a fact. Every step is sound whatever
the choice, the number of steps is limited, and so the search may fail but never runs long.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from ..dtype import DType
from ..expr import Cast, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Select
from .bounds import form_interval, is_exact, value_form
from .linear import LinearForm
from .scope import Scope
from .sums import convert, product, split_factors

__all__ = ["always_nonzero", "expand", "nonnegative"]

_STEPS = 48
_DEPTH = 8


def nonnegative(scope: Scope, form: LinearForm) -> bool:
    """Return whether `form`, over the integers, is proved to be at least 0."""
    lo, hi = form_interval(scope, form)
    if lo is not None and lo >= 0:
        return True
    if hi is not None and hi < 0:
        return False
    if not form.coeffs or not _symbolic(scope, form):
        return False
    return _Search(scope).proves(form, _DEPTH)


def always_nonzero(scope: Scope, form: LinearForm) -> bool:
    """Return whether `form` is proved never to be 0."""
    if not form.coeffs:
        return form.const != 0
    if scope.known.disequal and (
        (form.key, form.const) in scope.known.disequal or (form.scale(-1).key, -form.const) in scope.known.disequal
    ):
        return True
    return nonnegative(scope, form.shift(-1)) or nonnegative(scope, form.scale(-1).shift(-1))


_STRUCTURED = (Min, Max, Select, FloorDiv, FloorMod, Mul, Cast)


def _symbolic(scope: Scope, form: LinearForm) -> bool:
    """Return whether more than the bounds of its terms is known of a form."""
    known = scope.known
    if known.facts:
        return True
    for atom in form.coeffs:
        if atom in known.order or isinstance(atom, _STRUCTURED):
            return True
    return False


class _Search:
    """One proof: a depth-first search with a budget of steps for the whole of it."""

    __slots__ = ("budget", "scope", "seen")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.budget = _STEPS
        self.seen: set[tuple[frozenset[tuple[Expr, int]], int]] = set()

    def proves(self, form: LinearForm, depth: int) -> bool:
        lo, hi = form_interval(self.scope, form)
        if lo is not None and lo >= 0:
            return True
        if (hi is not None and hi < 0) or not form.coeffs:
            return False
        state = (form.key, form.const)
        if depth == 0 or self.budget <= 0 or state in self.seen:
            return False
        self.seen.add(state)
        self.budget -= 1
        for alternatives in self.steps(form):
            proved = True
            for alternative in alternatives:
                if not self.proves(alternative, depth - 1):
                    proved = False
                    break
            if proved:
                return True
        return False

    def steps(self, form: LinearForm) -> Iterator[tuple[LinearForm, ...]]:
        """Ways to go on: `form` is at least 0 if all forms of one way are."""
        multiplied = expand(self.scope, form)
        if multiplied is not None:
            yield (multiplied,)
            return
        order = self.scope.known.order
        symbols = sorted((atom for atom in form.coeffs if atom in order), key=order.__getitem__, reverse=True)
        for atom in symbols:
            bound = (self.scope.known.lows if form.coeffs[atom] > 0 else self.scope.known.highs).get(atom)
            if bound is not None:
                yield (form.replaced(atom, bound),)
        for atom, coeff in form.coeffs.items():
            yield from _atom_steps(self.scope, form, atom, coeff)
        for fact in list(self.scope.known.facts.values()):
            yield from _fact_steps(form, fact)


def _atom_steps(scope: Scope, form: LinearForm, atom: Expr, coeff: int) -> Iterator[tuple[LinearForm, ...]]:
    if isinstance(atom, Min | Max):
        arms = (form.replaced(atom, value_form(scope, atom.a)), form.replaced(atom, value_form(scope, atom.b)))
        if isinstance(atom, Min) == (coeff > 0):
            yield arms  # the worse arm counts, whichever it is
        else:
            yield arms[:1]
            yield arms[1:]
    elif isinstance(atom, Select):
        yield (
            form.replaced(atom, value_form(scope, atom.true_value)),
            form.replaced(atom, value_form(scope, atom.false_value)),
        )
    elif isinstance(atom, FloorDiv) and isinstance(atom.b, IntImm) and atom.b.value > 0:
        divisor, numerator = atom.b.value, value_form(scope, atom.a)
        step = divisor // gcd(coeff, divisor)  # divisor * quotient lies in [numerator - divisor + 1, numerator]
        bound = numerator.shift(1 - divisor) if coeff > 0 else numerator
        yield (form.without(atom).scale(step).plus(bound, coeff * step // divisor),)
    elif isinstance(atom, FloorMod) and coeff < 0:
        numerator, greatest = value_form(scope, atom.a), value_form(scope, atom.b).shift(-1)
        if nonnegative_terms(scope, numerator):
            yield (form.replaced(atom, numerator),)  # x % y <= x for x >= 0, whatever y
        if nonnegative_terms(scope, greatest):
            yield (form.replaced(atom, greatest),)  # x % y < y for y > 0
    elif isinstance(atom, Mul) and is_exact(scope, atom):
        yield from _product_steps(scope, form, atom, coeff)


def nonnegative_terms(scope: Scope, form: LinearForm) -> bool:
    """Prove as `nonnegative` does, by the bounds of the terms alone."""
    lo = form_interval(scope, form).lo
    return lo is not None and lo >= 0


def _product_steps(scope: Scope, form: LinearForm, atom: Mul, coeff: int) -> Iterator[tuple[LinearForm, ...]]:
    """A factor that has symbolic bounds is replaced by one, where the other factors are at least 0."""
    bounds = scope.known.lows if coeff > 0 else scope.known.highs
    factors = split_factors(atom)
    for place, factor in enumerate(factors):
        bound = bounds.get(factor)
        others = [*factors[:place], *factors[place + 1 :]]
        if bound is None or not all(nonnegative_terms(scope, value_form(scope, other)) for other in others):
            continue
        grown = _times(scope, bound, others, atom.dtype)
        if grown is not None:
            yield (form.without(atom).plus(grown, coeff),)


def _times(scope: Scope, form: LinearForm, factors: list[Expr], dtype: DType) -> LinearForm | None:
    """form * factors, term by term; None where a product may leave the dtype."""
    rest = factors[0]
    for factor in factors[1:]:
        rest = product(scope, rest, factor)
    result = value_form(scope, rest).scale(form.const)
    for atom, coeff in form.coeffs.items():
        term = product(scope, convert(scope, atom, dtype), rest)
        if not is_exact(scope, term):
            return None
        result = result.plus(value_form(scope, term), coeff)
    return result


def expand(scope: Scope, form: LinearForm) -> LinearForm | None:
    """The form with one product of a sum multiplied out, or None where there is none."""
    for atom, coeff in form.coeffs.items():
        if type(atom) is not Mul or not is_exact(scope, atom):
            continue
        factors = split_factors(atom)
        for place, factor in enumerate(factors):
            inner = value_form(scope, factor)
            if len(inner.coeffs) > 1 or (inner.coeffs and inner.const):
                grown = _times(scope, inner, [*factors[:place], *factors[place + 1 :]], atom.dtype)
                if grown is not None:
                    return form.without(atom).plus(grown, coeff)
    return None


def _fact_steps(form: LinearForm, fact: LinearForm) -> Iterator[tuple[LinearForm, ...]]:
    """form >= form - k * fact for k > 0: the multiple that removes an atom, for each that both share."""
    tried: set[tuple[int, int]] = set()
    for atom, coeff in fact.coeffs.items():
        mine = form.coeffs.get(atom)
        if mine is None or (mine > 0) != (coeff > 0):
            continue
        step = gcd(mine, coeff)
        scale, times = abs(coeff) // step, abs(mine) // step
        if (scale, times) not in tried:
            tried.add((scale, times))
            yield (form.scale(scale).plus(fact, -times),)
