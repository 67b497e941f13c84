"""Timing two programs against each other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

__all__ = ["interleaved"]


def interleaved(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median seconds of each, run in turn (A B A B ...) so that a drift of the machine's speed meets both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for program, spent in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            program()
            spent.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])
