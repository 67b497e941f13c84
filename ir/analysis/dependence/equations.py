"""Bounds of integer unknowns that fulfil linear equations.

    16 d + e = 0,  -15 <= e <= 15      →      d = 0 and e = 0

An equation is taken apart where its greater coefficients have a common divisor that the sum of the smaller terms cannot
reach: that sum is then one multiple of it, and the rest is what is left (V. Maslov, "Delinearization: an Efficient Way to
Break Multiloop Dependence Equations", PLDI 1992). The test by greatest common divisors and Banerjee's by bounds are the
cases in which no part, or the whole, is left. Each part then narrows the bounds of its unknowns, for all equations.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import gcd

from ...arith.interval import EVERYTHING, Interval

__all__ = ["Equation", "Unknown", "solve"]

Unknown = tuple[str, Hashable]
"""A role and what plays it."""

_ROUNDS = 8
"""Bounds are narrowed this often at most; any of the rounds leaves them true."""


@dataclass(frozen=True, slots=True)
class Equation:
    """The sum of coefficient * unknown over `terms`, and `constant`, is 0. No coefficient is 0."""

    terms: Mapping[Unknown, int]
    constant: int = 0


def solve(equations: Iterable[Equation], bounds: Mapping[Unknown, Interval]) -> dict[Unknown, Interval] | None:
    """Bounds of the unknowns in all solutions, as narrow as is found; None where there is proved to be no solution.

    bounds: of the unknowns that are bounded to begin with.
    """
    known = dict(bounds)
    parts = list(equations)
    for _ in range(_ROUNDS):
        before = known.copy()
        taken_apart: list[Equation] = []
        for equation in parts:
            smaller = _taken_apart(equation, known)
            if smaller is None or not all(_narrow(part, known) for part in smaller):
                return None
            taken_apart += smaller
        if known == before and len(taken_apart) == len(parts):
            break
        parts = taken_apart
    return known


def _taken_apart(equation: Equation, bounds: Mapping[Unknown, Interval]) -> list[Equation] | None:
    """Equations that hold exactly where `equation` does; None where it never holds."""
    constant = equation.constant
    terms: list[tuple[Unknown, int]] = []
    for unknown, coefficient in equation.terms.items():
        low, high = bounds.get(unknown, EVERYTHING)
        if low is not None and low == high:
            constant += coefficient * low
        else:
            terms.append((unknown, coefficient))
    terms.sort(key=lambda term: abs(term[1]))
    divisors = [0]
    for _, coefficient in reversed(terms):
        divisors.append(gcd(divisors[-1], coefficient))
    parts: list[Equation] = []
    part: dict[Unknown, int] = {}
    reach = Interval(constant, constant)
    for (unknown, coefficient), divisor in zip(terms, reversed(divisors), strict=False):
        if reach.lo is not None and reach.hi is not None:
            multiple = -(-reach.lo // divisor) * divisor
            if multiple > reach.hi:
                return None
            if multiple + divisor > reach.hi:  # the only one in reach
                if part:
                    parts.append(Equation(part, constant - multiple))
                part, constant, reach = {}, multiple, Interval(multiple, multiple)
        part[unknown] = coefficient
        reach = _plus(reach, coefficient, bounds.get(unknown, EVERYTHING))
    if 0 not in reach:
        return None
    return [*parts, Equation(part, constant)] if part else parts


def _plus(interval: Interval, coefficient: int, other: Interval) -> Interval:
    """interval + coefficient * other."""
    low, high = other if coefficient > 0 else (other.hi, other.lo)
    return Interval(None if interval.lo is None or low is None else interval.lo + coefficient * low,
                    None if interval.hi is None or high is None else interval.hi + coefficient * high)


def _narrow(equation: Equation, bounds: dict[Unknown, Interval]) -> bool:
    """Narrow the bounds of each unknown by those of the others. False: none of its values is left."""
    for unknown, coefficient in equation.terms.items():
        others = Interval(equation.constant, equation.constant)
        for other, factor in equation.terms.items():
            if other is not unknown:
                others = _plus(others, factor, bounds.get(other, EVERYTHING))
        least, greatest = (others.lo, others.hi) if coefficient < 0 else (
            None if others.hi is None else -others.hi, None if others.lo is None else -others.lo)
        size = abs(coefficient)  # size * unknown lies in [least, greatest]
        low, high = bounds.get(unknown, EVERYTHING)
        if least is not None and (low is None or low < -(-least // size)):
            low = -(-least // size)
        if greatest is not None and (high is None or high > greatest // size):
            high = greatest // size
        if low is not None and high is not None and low > high:
            return False
        bounds[unknown] = Interval(low, high)
    return True
