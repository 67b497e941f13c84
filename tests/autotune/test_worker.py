"""How long a worker times what it runs."""

from __future__ import annotations

from typing import Any

import pytest
from tilewright.autotune import worker
from tilewright.autotune.worker import _times  # pyright: ignore[reportPrivateUsage]


class Clock:
    """A kernel that takes as long as it says, on a clock of its own."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now, self.calls = seconds, 0.0, 0

    def __call__(self, *_: Any) -> None:
        self.now += self.seconds
        self.calls += 1

    def perf_counter(self) -> float:
        return self.now


def timed(
    monkeypatch: pytest.MonkeyPatch, seconds: float, first: float, cutoff: float | None
) -> tuple[list[float], int]:
    clock = Clock(seconds)
    monkeypatch.setattr(worker.time, "perf_counter", clock.perf_counter)
    times = _times(clock, [], first, 0.03, cutoff)  # pyright: ignore[reportArgumentType]
    monkeypatch.undo()
    return times, clock.calls


def test_what_is_hopeless_is_left_after_a_call_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed(monkeypatch, 0.5, first=0.9, cutoff=0.01) == ([0.9], 0), "the first call says enough"
    assert timed(monkeypatch, 0.02, first=0.03, cutoff=0.01) == ([0.03, 0.02], 1)
    times, calls = timed(monkeypatch, 0.009, first=0.02, cutoff=0.01)
    assert len(times) == calls == 3, "a fifth behind: three say enough"
    times, calls = timed(monkeypatch, 0.009, first=0.9e-1, cutoff=0.1)
    assert len(times) == calls == 5, "the second one, and as many as the time that is given allows"


def test_short_calls_are_timed_with_care_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    times, calls = timed(monkeypatch, 5e-6, first=8e-5, cutoff=1e-6)
    assert len(times) == 15 and calls > 1000 and max(times) < 6e-6
