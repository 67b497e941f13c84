"""Memory plan of a model: offsets of values in one arena, so that values that live at one time do not overlap.

Of values whose sizes speak of symbols, those that are multiples of the same expression share a part of the arena, in which they lie
as numbers of bytes would, each place that many times further on: so a place is good for every size.

Values get their places one after another, the largest first and in other orders, each the lowest that fits between those that live
at the same time (Y. Pisarchyk and J. Lee, 2020, "Efficient memory management for deep neural net inference", greedy by size).
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

from ..base import dataclass, replace
from ..ir import Expr, ops

__all__ = ["ALIGNMENT", "Lifetime", "Size", "plan_symbolic_offsets", "peak", "places"]

K = TypeVar("K")

ALIGNMENT = 64
"""Where values begin, in bytes."""


Size = int | Expr
"""So many bytes: a number, or an expression over symbols."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value of so many bytes, alive from the step that makes it to the last one that reads it, both included. of: how often that
    many bytes, where symbols say."""

    size: int
    first: int
    last: int
    of: Expr | None = None


def plan_symbolic_offsets(lifetimes: Mapping[K, Lifetime]) -> tuple[dict[K, Size], Size]:
    """The offset of each value, and the size of the arena, where symbols say how large values are."""
    parts: dict[str, dict[K, Lifetime]] = {}
    for name, life in lifetimes.items():
        if (
            life.of is not None and life.size % ALIGNMENT
        ):  # places are multiples of a cache line, and would be far apart
            life = replace(life, size=ALIGNMENT, of=(life.of * life.size + (ALIGNMENT - 1)) // ALIGNMENT)
        parts.setdefault("" if life.of is None else str(life.of), {})[name] = life
    offsets: dict[K, Size] = {}
    begin: Size = 0
    for part in parts.values():
        of = next(iter(part.values())).of
        within, size = places(part)
        of = None if of is None else ops.maximum(of, 0)  # of sizes that cannot be, nothing lies before the beginning
        offsets |= {name: begin + at if of is None else begin + of * at for name, at in within.items()}
        begin = begin + size if of is None else begin + of * size
    return offsets, begin


def places(lifetimes: Mapping[K, Lifetime]) -> tuple[dict[K, int], int]:
    """The offset of each value, and the size of the arena, in bytes: the best of several orders in which values get their places.
    In each, what ends highest is moved to the front, and all is placed again, until the arena is hardly larger than what lives at
    one time."""
    # no arrangement takes less, so the search may stop near it; to find the best one is NP-hard (dynamic storage allocation)
    least = peak(lifetimes)
    best: tuple[dict[K, int], int] | None = None
    for rank in _RANKS:
        order = sorted(lifetimes, key=lambda name: rank(lifetimes[name]))
        for _ in range(_TRIES):
            offsets, size = _assign_offsets(lifetimes, order)
            if best is None or size < best[1]:
                best = offsets, size
            if best[1] <= least * _ENOUGH:
                return best
            # these alone decide the size: placed first, they get lower places
            highest = [name for name in order if _round_up(offsets[name] + lifetimes[name].size) == size]
            order = [*highest, *(name for name in order if name not in highest)]
    assert best is not None, "there are orders to try"
    return best


_RANKS: tuple[Callable[[Lifetime], int], ...] = (
    lambda life: -life.size,
    lambda life: -life.size * (life.last - life.first + 1),
    lambda life: life.first,
)
_TRIES = 8
_ENOUGH = 1.05


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def peak(lifetimes: Mapping[K, Lifetime]) -> int:
    """The most bytes that live at one time."""
    changes: Counter[int] = Counter()
    for life in lifetimes.values():
        changes[life.first] += _round_up(life.size)
        # alive in its last step too: an output may not overlap an input that it is computed from
        changes[life.last + 1] -= _round_up(life.size)
    return max(accumulate(changes[at] for at in sorted(changes)), default=0)


def _assign_offsets(lifetimes: Mapping[K, Lifetime], order: Sequence[K]) -> tuple[dict[K, int], int]:
    """The offsets of values that get their places in this order, and the size of the arena."""
    taken: list[tuple[int, int, Lifetime]] = []
    offsets: dict[K, int] = {}
    for name in order:
        life = lifetimes[name]
        offsets[name] = _lowest(taken, life)
        insort(taken, (offsets[name], offsets[name] + life.size, life), key=lambda place: place[0])
    return offsets, _round_up(max((end for _, end, _ in taken), default=0))


def _lowest(taken: Sequence[tuple[int, int, Lifetime]], life: Lifetime) -> int:
    """The lowest gap that fits among places in ascending order."""
    at = 0
    for begin, end, other in taken:
        # those that are never alive together may share bytes
        if other.first <= life.last and life.first <= other.last:
            if at + life.size <= begin:
                break
            at = max(at, _round_up(end))
    return at
