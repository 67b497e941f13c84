"""Where values lie while a model runs: offsets in one arena, so that values that live at one time lie apart.

The largest values get their places first, each the lowest that fits between those that live at the same time (Y. Pisarchyk and
J. Lee, 2020, "Efficient memory management for deep neural net inference", greedy by size).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["ALIGNMENT", "Lifetime", "places"]

K = TypeVar("K")

ALIGNMENT = 64
"""Where values begin, in bytes."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value of so many bytes, alive from the step that makes it to the last one that reads it, both included."""

    size: int
    first: int
    last: int


def places(lifetimes: Mapping[K, Lifetime]) -> tuple[dict[K, int], int]:
    """The offset of each value, and the size of the arena, in bytes."""
    taken: list[tuple[int, int, Lifetime]] = []
    offsets: dict[K, int] = {}
    for name, life in sorted(lifetimes.items(), key=lambda item: -item[1].size):
        at = _lowest(taken, life)
        offsets[name] = at
        taken.append((at, at + life.size, life))
        taken.sort(key=lambda place: place[0])
    size = max((end for _, end, _ in taken), default=0)
    return offsets, -(-size // ALIGNMENT) * ALIGNMENT


def _lowest(taken: Sequence[tuple[int, int, Lifetime]], life: Lifetime) -> int:
    """The lowest gap that fits among places in ascending order."""
    at = 0
    for begin, end, other in taken:
        if other.first <= life.last and life.first <= other.last:
            if at + life.size <= begin:
                break
            at = max(at, -(-end // ALIGNMENT) * ALIGNMENT)
    return at
