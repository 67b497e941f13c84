"""Bounds of integer unknowns that fulfil linear equations.

    16 d + e = 0,  -15 <= e <= 15      →      d = 0 and e = 0

An equation is a linear form of unknowns that is to be 0. It is taken apart where its greater coefficients have a common
divisor that the sum of the smaller terms cannot reach: that sum is then one multiple of it, and the rest is what is left
(V. Maslov, "Delinearization: an Efficient Way to Break Multiloop Dependence Equations", PLDI 1992). The test by greatest
common divisors and Banerjee's by bounds are the cases in which no part, or the whole, is left. Each part then narrows the
bounds of its unknowns, for all equations.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import gcd

from ...arith.interval import EVERYTHING, Interval, add, scale
from ...arith.linear import LinearForm

__all__ = ["Unknown", "solve"]

Unknown = tuple[str, Hashable]
"""A role and what plays it."""

_ROUNDS = 8
"""Bounds are narrowed this often at most; any of the rounds leaves them true."""


def solve(equations: Iterable[LinearForm], bounds: Mapping[Unknown, Interval]) -> dict[Unknown, Interval] | None:
    """Bounds of the unknowns in all solutions, as narrow as is found; None where there is proved to be no solution.

    equations: forms of unknowns, each of which is 0. bounds: of the unknowns that are bounded to begin with.
    """
    known = dict(bounds)
    parts = list(equations)
    for _ in range(_ROUNDS):
        before = known.copy()
        taken_apart: list[LinearForm] = []
        for equation in parts:
            smaller = _split_equation(equation, known)
            if smaller is None or not all(_narrow(part, known) for part in smaller):
                return None
            taken_apart += smaller
        if known == before and len(taken_apart) == len(parts):  # another round would find nothing new
            break
        parts = taken_apart
    return known


def _split_equation(equation: LinearForm, bounds: Mapping[Unknown, Interval]) -> list[LinearForm] | None:
    """Equations that hold exactly where `equation` does; None where it never holds."""
    constant = equation.const
    terms: list[tuple[Unknown, int]] = []
    for unknown, coefficient in equation.coeffs.items():
        low, high = bounds.get(unknown, EVERYTHING)
        if low is not None and low == high:  # an unknown of one value is a constant
            constant += coefficient * low
        else:
            terms.append((unknown, coefficient))
    terms.sort(key=lambda term: abs(term[1]))  # smaller coefficients first, as the theorem asks
    divisors = [0]
    for _, coefficient in reversed(terms):
        divisors.append(gcd(divisors[-1], coefficient))
    parts: list[LinearForm] = []
    part: dict[Unknown, int] = {}
    reach = Interval(constant, constant)
    for (unknown, coefficient), divisor in zip(terms, reversed(divisors), strict=False):
        if reach.lo is not None and reach.hi is not None:
            multiple = -(-reach.lo // divisor) * divisor
            if multiple > reach.hi:  # no multiple of the divisor is in reach: no solution
                return None
            if multiple + divisor > reach.hi:  # the only one in reach
                if part:
                    parts.append(LinearForm(part, constant - multiple))
                part, constant, reach = {}, multiple, Interval(multiple, multiple)
        part[unknown] = coefficient
        reach = add(reach, scale(bounds.get(unknown, EVERYTHING), coefficient))
    if 0 not in reach:  # the rest must be able to be 0
        return None
    return [*parts, LinearForm(part, constant)] if part else parts


def _narrow(equation: LinearForm, bounds: dict[Unknown, Interval]) -> bool:
    """Narrow the bounds of each unknown by those of the others. False: none of its values is left."""
    for unknown, coefficient in equation.coeffs.items():
        others = Interval(equation.const, equation.const)
        for other, factor in equation.coeffs.items():
            if other is not unknown:
                others = add(others, scale(bounds.get(other, EVERYTHING), factor))
        least, greatest = (
            (others.lo, others.hi)
            if coefficient < 0
            else (None if others.hi is None else -others.hi, None if others.lo is None else -others.lo)
        )
        size = abs(coefficient)  # size * unknown lies in [least, greatest]
        low, high = bounds.get(unknown, EVERYTHING)
        # rounded towards the inside: unknowns are integers
        if least is not None and (low is None or low < -(-least // size)):
            low = -(-least // size)
        if greatest is not None and (high is None or high > greatest // size):
            high = greatest // size
        if low is not None and high is not None and low > high:
            return False
        bounds[unknown] = Interval(low, high)
    return True
