"""Every decision of a drawn case, in one place: as a sequence of small numbers it can be recorded, replayed and made smaller.

Simpler choices have smaller numbers: lists are given with their simplest item first, and no is 0. A sequence that ends
early goes on with zeros, so any prefix, and any sequence with some of its numbers lowered or left out, is a case too
(internal reduction, as in MacIver and Donaldson, "Test-Case Reduction via Test-Case Generation", ECOOP 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

__all__ = ["Choices", "case_choices", "replay_choices"]

T = TypeVar("T")

_PARTS = 1000
"""How finely shares of probability are told apart."""


class Choices:
    """A source of decisions: drawn from `rng`, or those of `forced` and zeros after them."""

    def __init__(self, rng: np.random.Generator | None, forced: Sequence[int] = ()) -> None:
        self._rng, self._forced = rng, forced
        self.made: list[int] = []

    def below(self, bound: int) -> int:
        """A number from 0 up to, not including, `bound`."""
        if bound <= 1:
            return 0
        at = len(self.made)
        if self._rng is not None:
            chosen = int(self._rng.random() * bound)
        else:
            chosen = min(self._forced[at], bound - 1) if at < len(self._forced) else 0
        self.made.append(chosen)
        return chosen

    def number(self, low: int, high: int) -> int:
        """Draw a number from low to high, both included."""
        return low + self.below(high - low + 1)

    def share(self) -> float:
        """A number in [0, 1)."""
        return self.below(_PARTS) / _PARTS

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self.below(_PARTS) >= _PARTS - round(share * _PARTS)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def pick_weighted(self, items: Sequence[tuple[float, T]]) -> T:
        """An item by its weight."""
        left = self.share() * sum(weight for weight, _ in items)
        for weight, item in items:
            left -= weight
            if left < 0:
                return item
        return items[-1][1]

    def permutation(self, count: int) -> list[int]:
        """The numbers below count in some order; their own order is the simplest."""
        left = list(range(count))
        return [left.pop(self.below(len(left))) for _ in range(count)]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items, in the order in which they stand."""
        return [items[at] for at in sorted(self.permutation(len(items))[:count])]

    def contents(self) -> np.random.Generator:
        """A generator for the contents of one tensor: its draws count as one choice."""
        return np.random.default_rng(self.below(1 << 16))


def case_choices(seed: int, case: int, name: int = 0) -> Choices:
    """The choices of one case. The same seed and case draw the same. name: tells the uses of one seed apart."""
    return Choices(np.random.default_rng([seed, name, case]))


def replay_choices(numbers: Sequence[int]) -> Choices:
    """The choices that were made before."""
    return Choices(None, numbers)
