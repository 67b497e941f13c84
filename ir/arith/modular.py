"""Modular sets: what is known of a value's remainder."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

__all__ = ["ANY_INTEGER", "Modular", "modular_add", "modular_multiply", "modular_union", "modular_wrap"]


class Modular(NamedTuple):
    """The integers `base + k * coeff`. A coeff of 0 says that the value is `base`; otherwise 0 <= base < coeff."""

    coeff: int
    base: int

    def remainder(self, divisor: int) -> int | None:
        """The value modulo `divisor` (above 0) where it is known."""
        return self.base % divisor if self.coeff % divisor == 0 else None


ANY_INTEGER = Modular(1, 0)


def _normal(coeff: int, base: int) -> Modular:
    return Modular(coeff, base % coeff if coeff else base)


def modular_add(a: Modular, b: Modular, factor: int = 1) -> Modular:
    """a + factor * b."""
    return _normal(gcd(a.coeff, b.coeff * factor), a.base + b.base * factor)


def modular_multiply(a: Modular, b: Modular) -> Modular:
    """a * b."""
    return _normal(gcd(a.coeff * b.coeff, a.coeff * b.base, b.coeff * a.base), a.base * b.base)


def modular_union(a: Modular, b: Modular) -> Modular:
    """Return the values of either of the two."""
    return _normal(gcd(a.coeff, b.coeff, a.base - b.base), a.base)


def modular_wrap(a: Modular, bits: int) -> Modular:
    """Return the remainders that stay known after wrapping to `bits` bits: those by powers of two."""
    return _normal(gcd(a.coeff, 1 << bits), a.base)
