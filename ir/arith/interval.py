"""Intervals of integers, and what each operator makes of them.

An end that is None is open. The arithmetic is that of mathematical integers with the conventions of `ir.expr` for
division by zero (the result is 0); whether a result still fits its dtype is the caller's question.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..expr import Add, BinaryOp, FloorDiv, FloorMod, Max, Min, Mul, Sub, TruncDiv, TruncMod

__all__ = ["BOOLEAN", "EVERYTHING", "INTERVAL_OF", "Interval", "add", "intersect", "negate", "scale", "shift", "union"]


class Interval(NamedTuple):
    """The integers from `lo` to `hi`, both included; None is unbounded."""

    lo: int | None
    hi: int | None

    @property
    def is_point(self) -> bool:
        """Return whether one integer alone is left."""
        return self.lo is not None and self.lo == self.hi

    def within(self, lo: int, hi: int) -> bool:
        """Return whether every value is known to lie in [lo, hi]."""
        return self.lo is not None and self.hi is not None and lo <= self.lo and self.hi <= hi

    def __contains__(self, value: object) -> bool:
        return (
            isinstance(value, int) and (self.lo is None or self.lo <= value) and (self.hi is None or value <= self.hi)
        )


EVERYTHING = Interval(None, None)
BOOLEAN = Interval(0, 1)


def union(a: Interval, b: Interval) -> Interval:
    """The least interval that holds both."""
    return Interval(
        None if a.lo is None or b.lo is None else min(a.lo, b.lo),
        None if a.hi is None or b.hi is None else max(a.hi, b.hi),
    )


def intersect(a: Interval, b: Interval) -> Interval:
    """Return the intersection of both. Where the two exclude each other (code that never runs), `a`."""
    lo = b.lo if a.lo is None else a.lo if b.lo is None else max(a.lo, b.lo)
    hi = b.hi if a.hi is None else a.hi if b.hi is None else min(a.hi, b.hi)
    return a if lo is not None and hi is not None and lo > hi else Interval(lo, hi)


def negate(a: Interval) -> Interval:
    """-a."""
    return Interval(None if a.hi is None else -a.hi, None if a.lo is None else -a.lo)


def scale(a: Interval, factor: int) -> Interval:
    """factor * a."""
    if factor == 0:
        return Interval(0, 0)
    lo, hi = (a.lo, a.hi) if factor > 0 else (a.hi, a.lo)
    return Interval(None if lo is None else lo * factor, None if hi is None else hi * factor)


def shift(a: Interval, offset: int) -> Interval:
    """a + offset."""
    return Interval(None if a.lo is None else a.lo + offset, None if a.hi is None else a.hi + offset)


def add(a: Interval, b: Interval) -> Interval:
    """a + b."""
    return Interval(
        None if a.lo is None or b.lo is None else a.lo + b.lo, None if a.hi is None or b.hi is None else a.hi + b.hi
    )


def _subtract(a: Interval, b: Interval) -> Interval:
    return add(a, negate(b))


def _multiply(a: Interval, b: Interval) -> Interval:
    if a.is_point:
        return scale(b, a.lo or 0)
    if b.is_point:
        return scale(a, b.lo or 0)
    # An open end acts as an infinity of its sign; 0 * infinity is 0, since every single value is finite.
    ends = [_times(p, q) for p in (_low(a), _high(a)) for q in (_low(b), _high(b))]
    lo, hi = min(ends), max(ends)
    return Interval(None if lo == _LEAST else int(lo), None if hi == _GREATEST else int(hi))


_LEAST, _GREATEST = float("-inf"), float("inf")


def _low(a: Interval) -> float:
    return _LEAST if a.lo is None else a.lo


def _high(a: Interval) -> float:
    return _GREATEST if a.hi is None else a.hi


def _times(p: float, q: float) -> float:
    return 0 if p == 0 or q == 0 else p * q


def _positive_part(a: Interval) -> Interval | None:
    if a.hi is not None and a.hi < 1:
        return None
    return Interval(1 if a.lo is None else max(a.lo, 1), a.hi)


def _divide_by_sign(
    a: Interval,
    b: Interval,
    positive: Callable[[Interval, Interval], Interval],
    negative: Callable[[Interval, Interval], Interval],
) -> Interval:
    """The union over the divisors above, below and equal to 0 of what each of them gives."""
    hull: Interval | None = Interval(0, 0) if 0 in b else None
    above, below = _positive_part(b), _positive_part(negate(b))
    if above is not None:
        part = positive(a, above)
        hull = part if hull is None else union(hull, part)
    if below is not None:
        part = negative(a, below)
        hull = part if hull is None else union(hull, part)
    return EVERYTHING if hull is None else hull


def _floordiv_positive(a: Interval, b: Interval) -> Interval:
    least, greatest = b.lo or 1, b.hi
    lo = hi = None
    if a.lo is not None:
        lo = a.lo // least if a.lo < 0 else 0 if greatest is None else a.lo // greatest
    if a.hi is not None:
        hi = a.hi // least if a.hi >= 0 else -1 if greatest is None else a.hi // greatest
    return Interval(lo, hi)


def _floordiv(a: Interval, b: Interval) -> Interval:
    return _divide_by_sign(a, b, _floordiv_positive, lambda x, y: _floordiv_positive(negate(x), y))


def _floormod_positive(a: Interval, b: Interval) -> Interval:
    if b.is_point and a.lo is not None and a.hi is not None and b.lo and a.lo // b.lo == a.hi // b.lo:
        return Interval(a.lo % b.lo, a.hi % b.lo)
    greatest = None if b.hi is None else b.hi - 1
    if a.lo is not None and a.lo >= 0:
        if a.hi is not None and b.lo is not None and a.hi < b.lo:
            return a
        greatest = a.hi if greatest is None else greatest if a.hi is None else min(a.hi, greatest)
    return Interval(0, greatest)


def _floormod(a: Interval, b: Interval) -> Interval:
    return _divide_by_sign(a, b, _floormod_positive, lambda x, y: negate(_floormod_positive(negate(x), y)))


def _divide_by_numerator_sign(a: Interval, b: Interval, natural: Callable[[Interval, Interval], Interval]) -> Interval:
    """Divide in the truncating forms, whose result is odd in the numerator: `natural` serves numerators of at least 0."""
    hull: Interval | None = None
    if a.hi is None or a.hi >= 0:
        hull = natural(Interval(0 if a.lo is None else max(a.lo, 0), a.hi), b)
    if a.lo is None or a.lo < 0:
        flipped = negate(a)
        below = negate(natural(Interval(1 if flipped.lo is None else max(flipped.lo, 1), flipped.hi), b))
        hull = below if hull is None else union(hull, below)
    return EVERYTHING if hull is None else hull


def _truncdiv(a: Interval, b: Interval) -> Interval:
    return _divide_by_sign(
        a,
        b,
        lambda x, y: _divide_by_numerator_sign(x, y, _floordiv_positive),
        lambda x, y: negate(_divide_by_numerator_sign(x, y, _floordiv_positive)),
    )


def _truncmod(a: Interval, b: Interval) -> Interval:
    return _divide_by_sign(
        a,
        b,
        lambda x, y: _divide_by_numerator_sign(x, y, _floormod_positive),
        lambda x, y: _divide_by_numerator_sign(x, y, _floormod_positive),
    )


def _minimum(a: Interval, b: Interval) -> Interval:
    return Interval(
        None if a.lo is None or b.lo is None else min(a.lo, b.lo),
        b.hi if a.hi is None else a.hi if b.hi is None else min(a.hi, b.hi),
    )


def _maximum(a: Interval, b: Interval) -> Interval:
    return Interval(
        b.lo if a.lo is None else a.lo if b.lo is None else max(a.lo, b.lo),
        None if a.hi is None or b.hi is None else max(a.hi, b.hi),
    )


INTERVAL_OF: dict[type[BinaryOp], Callable[[Interval, Interval], Interval]] = {
    Add: add,
    Sub: _subtract,
    Mul: _multiply,
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    TruncDiv: _truncdiv,
    TruncMod: _truncmod,
    Min: _minimum,
    Max: _maximum,
}
"""The interval of an operator's results from those of its operands."""
