"""Estimates: seconds by the resource that they are spent on, of any processor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TypeAlias

from ...ir.lazy_values import cached_property

__all__ = ["Estimate", "Parts", "add_estimates", "pad_estimate", "scale_estimate", "soonest"]

Parts: TypeAlias = tuple[tuple[str, float], ...]
"""Seconds, each by what they are spent on."""


class Estimate:
    """Estimated time of a candidate.

    parts: seconds by what they are spent on ("fma throughput", "latency of the sum", "L2 bandwidth", "memory bandwidth",
    "fork-join" ...), or what finds them, asked where somebody wants to know. An estimate for a processor with other units has other
    names, and the same form. least: seconds that it takes at least, known at once.
    """

    def __init__(self, parts: Parts | Callable[[], Parts], least: float = 0.0) -> None:
        self._parts, self.least = parts, least

    @cached_property
    def parts(self) -> Parts:
        """Seconds by what they are spent on."""
        return self._parts() if callable(self._parts) else self._parts

    @cached_property
    def seconds(self) -> float:
        """All of it."""
        return sum(seconds for _, seconds in self.parts)

    @property
    def binds(self) -> str:
        """The resource that the largest part is spent on; empty where there is nothing to do."""
        return max(self.parts, key=lambda part: part[1], default=("", 0.0))[0]

    def __repr__(self) -> str:
        return f"Estimate({self.parts!r})"


def pad_estimate(time: Estimate, part: float) -> Estimate:
    """Add a part of a time for what is not foreseen, beside times that come out as estimated more often."""
    if not part:
        return time
    return Estimate(lambda: (*time.parts, ("what is not foreseen", part * time.seconds)), (1 + part) * time.least)


def scale_estimate(time: Estimate, by: float) -> Estimate:
    """A part of a time, or a multiple of it."""
    return Estimate(lambda: tuple((what, by * seconds) for what, seconds in time.parts), by * time.least)


def add_estimates(times: Iterable[Estimate]) -> Estimate:
    """The time that some take one after the other, by what it is spent on."""
    parts: dict[str, float] = {}
    for time in times:
        for what, seconds in time.parts:
            parts[what] = parts.get(what, 0.0) + seconds
    return Estimate(tuple(parts.items()))


def soonest(times: Sequence[Estimate], alike: float = 1.0) -> int:
    """The place of the least of some estimates, the first of those that are no more than `alike` times as much. Those that take
    longer in any case are not asked further."""
    asked: dict[int, float] = {}
    for at in sorted(range(len(times)), key=lambda at: times[at].least):
        if times[at].least > alike * min(asked.values(), default=inf):  # no estimate that is left can be less
            break
        asked[at] = times[at].seconds
    most = alike * min(asked.values())
    return min(at for at, seconds in asked.items() if seconds <= most)
