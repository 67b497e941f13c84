"""Sums in linear form: `coeff * atom + ... + const`, in which terms cancel and divisions split."""

from __future__ import annotations

from math import gcd

from ..expr import Expr

__all__ = ["LinearForm"]


class LinearForm:
    """`sum(coeff * atom) + const` over the integers. No coefficient is 0. Treat it as frozen.

    An atom is a variable or an expression that is no sum (a division, a product of variables ...). It may be of a
    narrower dtype than the sum that it stands in: casts that keep every value are left out.
    """

    __slots__ = ("coeffs", "const")

    def __init__(self, coeffs: dict[Expr, int], const: int = 0) -> None:
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
        return LinearForm(coeffs, self.const + factor * other.const)

    def scaled(self, factor: int) -> LinearForm:
        """factor * self."""
        if factor == 1:
            return self
        if factor == 0:
            return LinearForm({})
        return LinearForm({atom: coeff * factor for atom, coeff in self.coeffs.items()}, self.const * factor)

    def shifted(self, offset: int) -> LinearForm:
        """self + offset."""
        return LinearForm(self.coeffs, self.const + offset) if offset else self

    def without(self, atom: Expr) -> LinearForm:
        """self less its term in `atom`."""
        return LinearForm({other: coeff for other, coeff in self.coeffs.items() if other is not atom}, self.const)

    def replaced(self, atom: Expr, value: LinearForm) -> LinearForm:
        """self with `value` in the place of `atom`."""
        return self.without(atom).plus(value, self.coeffs[atom])

    def divided(self, divisor: int) -> LinearForm:
        """self over a divisor of every coefficient; the constant is rounded down."""
        return LinearForm({atom: coeff // divisor for atom, coeff in self.coeffs.items()}, self.const // divisor)

    @property
    def content(self) -> int:
        """The greatest common divisor of the coefficients (0 for a constant)."""
        return gcd(*self.coeffs.values())

    @property
    def key(self) -> frozenset[tuple[Expr, int]]:
        """The terms without the constant, as a dictionary key."""
        return frozenset(self.coeffs.items())


def merge(coeffs: dict[Expr, int], others: dict[Expr, int], factor: int = 1) -> None:
    """coeffs += factor * others, in place."""
    for atom, coeff in others.items():
        total = coeffs.get(atom, 0) + coeff * factor
        if total:
            coeffs[atom] = total
        else:
            coeffs.pop(atom, None)


def single(atom: Expr) -> LinearForm:
    """The form of one atom."""
    return LinearForm({atom: 1})
