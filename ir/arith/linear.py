"""Sums in linear form: `coeff * atom + ... + const`, in which terms cancel and divisions split.

Who makes a form says what its atoms are looked up by and what it means:

* The simplifier: interned expressions, by identity; the value over the integers. An atom may be of a narrower dtype than the
  sum that it stands in: casts that keep every value are left out.
* `ir.analysis.linear`: variables, and other expressions by their structure; the expression, wrapping as it does.
* The equations of gradients: unknown variables; `const` is an expression in which none of them occurs.
"""

from __future__ import annotations

from math import gcd
from typing import Any

__all__ = ["LinearForm", "add_term", "merge", "single"]


class LinearForm:
    """`sum(coeff * atom) + const`, with integer coefficients, none of which is 0. Treat it as frozen.

    An atom is a variable or an expression that is not a sum (a division, a product of variables ...).
    """

    __slots__ = ("coeffs", "const")

    def __init__(self, coeffs: dict[Any, int], const: Any = 0) -> None:
        self.coeffs = coeffs
        self.const = const

    def __repr__(self) -> str:
        terms = [f"{coeff}*({atom})" for atom, coeff in self.coeffs.items()]
        return "LinearForm(" + " + ".join([*terms, str(self.const)]) + ")"

    @property
    def is_const(self) -> bool:
        return not self.coeffs

    def plus(self, other: LinearForm, factor: int = 1) -> LinearForm:
        """self + factor * other."""
        coeffs = dict(self.coeffs)
        merge(coeffs, other.coeffs, factor)
        return LinearForm(coeffs, self.const + other.const * factor)

    def scale(self, factor: int) -> LinearForm:
        """factor * self."""
        if factor == 1:
            return self
        if factor == 0:
            return LinearForm({})
        return LinearForm({atom: coeff * factor for atom, coeff in self.coeffs.items()}, self.const * factor)

    def shift(self, offset: int) -> LinearForm:
        """self + offset."""
        return LinearForm(self.coeffs, self.const + offset) if offset else self

    def coefficient(self, atom: Any) -> int:
        """Return the coefficient of an atom standing alone (0 where it does not, though it may occur inside other atoms)."""
        return self.coeffs.get(atom, 0)

    def without(self, atom: Any) -> LinearForm:
        """self less its term in `atom`."""
        coeffs = dict(self.coeffs)
        coeffs.pop(atom, None)
        return LinearForm(coeffs, self.const)

    def replaced(self, atom: Any, value: LinearForm) -> LinearForm:
        """self with `value` in the place of `atom`."""
        coeff = self.coeffs.get(atom)
        return self.without(atom).plus(value, coeff) if coeff else self

    def divided(self, divisor: int) -> LinearForm:
        """self over a divisor of every coefficient; the constant is rounded down."""
        return LinearForm({atom: coeff // divisor for atom, coeff in self.coeffs.items()}, self.const // divisor)

    @property
    def content(self) -> int:
        """The greatest common divisor of the coefficients (0 for a constant)."""
        return gcd(*self.coeffs.values())

    @property
    def key(self) -> frozenset[tuple[Any, int]]:
        """The terms without the constant, as a dictionary key."""
        return frozenset(self.coeffs.items())


def merge(coeffs: dict[Any, int], others: dict[Any, int], factor: int = 1) -> None:
    """coeffs += factor * others, in place."""
    for atom, coeff in others.items():
        add_term(coeffs, atom, coeff * factor)


def add_term(coeffs: dict[Any, int], atom: Any, coeff: int) -> None:
    """coeffs += coeff * atom, in place."""
    total = coeffs.get(atom, 0) + coeff
    if total:
        coeffs[atom] = total
    else:
        coeffs.pop(atom, None)


def single(atom: Any) -> LinearForm:
    """The form of one atom."""
    return LinearForm({atom: 1})
