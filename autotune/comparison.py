"""The last word: what the rules choose and the fastest candidates, run in turn, and whether the machine was quiet meanwhile.

What else a machine does makes times longer, those of kernels on many threads most of all, and never shorter. So a candidate beats
the rules' choice only where both are less, what a quarter of its runs is below and the least of them, which is the nearest to a
quiet machine; and one on a single thread does not beat one on several while the machine does something else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..base.dataclass import dataclass
from ..runtime import num_threads
from .outcome import lower_quartile

__all__ = ["NOISY", "Comparison", "Load", "beats"]

MARGIN = 0.99
"""What of the rules' choice's time a candidate takes at most to be called faster."""
NOISY = 0.25
"""Share of the least time by which repeats differ on a machine that does something else too."""


@dataclass(frozen=True, slots=True)
class Load:
    """Other load of a machine. waiting: processes that want to run, as the system counts them, before tuning adds its own."""

    waiting: float = 0.0

    @classmethod
    def measure(cls) -> Load:
        """Measure the load of this moment."""
        return cls(os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0)

    @property
    def is_high(self) -> bool:
        """Return whether kernels have to share the cores that they use."""
        # half a process, as load averages lag behind
        return self.waiting > max((os.cpu_count() or 1) - num_threads(), 0) + 0.5


@dataclass(frozen=True, slots=True)
class Comparison:
    """Seconds of calls, run in turn. usual: of the rules' choice; best: of the fastest candidate that beats it, or the same."""

    usual: tuple[float, ...]
    best: tuple[float, ...]
    load: Load = Load()

    @property
    def gain(self) -> float:
        """Return how many times faster the best is."""
        # the lower quartile, since disturbances only make times longer
        return lower_quartile(self.usual) / lower_quartile(self.best)

    @property
    def spread(self) -> float:
        """Return by how much of the least time the repeats of the rules' choice differ: the upper quartile from the least."""
        return sorted(self.usual)[len(self.usual) * 3 // 4] / min(self.usual) - 1  # the upper quartile over the least

    @property
    def is_noisy(self) -> bool:
        """Return whether the machine did something else meanwhile."""
        return self.spread > NOISY or self.load.is_high

    def __str__(self) -> str:
        told = f"{self.gain:.2f} x the rules' choice" if self.best != self.usual else "the rules' choice was not beaten"
        told += f" (its repeats differ by {self.spread:.0%})"
        if self.is_noisy:
            told += f"; the machine was busy (load {self.load.waiting:.1f} before): times are too long, and may be out of order"
        return told


def beats(times: Sequence[float], usual: Sequence[float]) -> bool:
    """Return whether runs of a candidate are faster than those of the rules' choice, in turn with which they were timed."""
    # both, as either alone may be luck
    return lower_quartile(times) < MARGIN * lower_quartile(usual) and min(times) < MARGIN * min(usual)
