"""Timing calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import fsum, sqrt
from numbers import Integral
from typing import Any, cast

from ..base import dataclass, user_source
from .errors import WrongTiming
from .tables import html_table

__all__ = ["TimingResult", "time_calls"]


@dataclass(frozen=True, slots=True)
class TimingResult:
    """Times that Kernel.time measured. results: seconds a call, one for each repeat. number: calls in each repeat."""

    results: tuple[float, ...]
    number: int

    @property
    def median(self) -> float:
        """Seconds a call, the median of the repeats."""
        ordered, middle = sorted(self.results), len(self.results) // 2
        return (ordered[middle] + ordered[~middle]) / 2

    @property
    def min(self) -> float:
        """Seconds a call in the fastest repeat."""
        return min(self.results)

    @property
    def max(self) -> float:
        """Seconds a call in the slowest repeat."""
        return max(self.results)

    @property
    def mean(self) -> float:
        """Seconds a call, the mean of the repeats."""
        return fsum(self.results) / len(self.results)

    @property
    def std(self) -> float:
        """The standard deviation of the repeats (the population's), in seconds a call."""
        mean = self.mean
        return sqrt(fsum((seconds - mean) ** 2 for seconds in self.results) / len(self.results))

    def __str__(self) -> str:
        text = f"{_readable(self.median)} a call (min {_readable(self.min)}, {len(self.results)} x {self.number})"
        times = self.max / self.min if self.min > 0 else 1.0
        return (
            f"{text}; the machine was busy: repeats took up to {times:.1f} times the shortest"
            if self.is_disturbed
            else text
        )

    @property
    def is_disturbed(self) -> bool:
        """Return whether repeats differ by so much that something else ran:

        half of them took 1.25 times the shortest, or one took twice it.
        """
        return self.min > 0 and (self.median > _HALF * self.min or self.max > _ONE * self.min)

    def _repr_html_(self) -> str:
        figures = {"median": self.median, "min": self.min, "max": self.max, "std": self.std}
        return html_table(
            "time of a call",
            [*figures, "repeats"],
            [[*map(_readable, figures.values()), f"{len(self.results)} x {self.number}"]],
        )


_HALF, _ONE = 1.25, 2.0


def _readable(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def time_calls(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    number: int,
    repeat: int,
    min_repeat_ms: float,
) -> TimingResult:
    """Time `function(*args)`: one untimed call, then `repeat` times `number` calls, where `number` grows until a
    repeat takes `min_repeat_ms`. Raises WrongTiming (TW0524) for counts below 1 or a negative duration."""
    if (
        not all(isinstance(cast(object, count), Integral) and count >= 1 for count in (number, repeat))
        or not min_repeat_ms >= 0
    ):
        raise WrongTiming(
            f"cannot time with number={number}, repeat={repeat}, min_repeat_ms={min_repeat_ms}",
            called=user_source(),
            allowed="whole numbers number >= 1 and repeat >= 1, min_repeat_ms >= 0",
            fix="give at least one call and one repeat",
        )
    function(*args)
    results: list[float] = []
    while len(results) < repeat:
        seconds = _run(function, args, number)
        if not results and seconds * 1e3 < min_repeat_ms:
            # Aim above the duration asked for, at most tenfold at once: the first measurements are the least exact.
            number = max(number + 1, min(number * 10, int(number * min_repeat_ms * 1.2e-3 / max(seconds, 1e-9)) + 1))
            continue
        results.append(seconds / number)
    return TimingResult(tuple(results), number)


def _run(function: Callable[..., Any], args: tuple[Any, ...], number: int) -> float:
    calls = range(number)
    begin = time.perf_counter()
    for _ in calls:
        function(*args)
    return time.perf_counter() - begin
