"""Outcomes of measuring a candidate, and the limits within which it is measured."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import InternalError, TilewrightError, dataclass, field
from ..runtime.threads import available_cpus

__all__ = ["HOPELESS", "SCHEDULE_FAULTS", "Failure", "Limits", "Outcome", "lower_quartile"]

SCHEDULE_FAULTS = (
    TilewrightError,
    InternalError,
    AssertionError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
)
"""Errors that a schedule that does not hold together may raise, ours or a template's."""
HOPELESS = 1.5
"""How many times slower than the fastest one a candidate may be to be timed with care."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason for which a candidate has no time. kind: "refused" (an error of ours), "fault" (an internal one), "crash" (a signal),
    "killed" (SIGKILL, from outside), "exit" (the process ended), "timeout", "memory", "wrong output" or "protocol"."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a measurement: times of a call in seconds, or a failure. built: seconds that building took."""

    times: tuple[float, ...] = ()
    failure: Failure | None = None
    built: float = 0.0

    @property
    def seconds(self) -> float | None:
        """The time of a call: the lower quartile, because what else runs on the machine only ever adds to a time."""
        return lower_quartile(self.times) if self.times else None

    @property
    def spread(self) -> float | None:
        """Return by how much of the least time the repeats differ, the upper quartile from the least; None where there are few."""
        return sorted(self.times)[len(self.times) * 3 // 4] / min(self.times) - 1 if len(self.times) > 3 else None


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of measuring a candidate.

    timeout: seconds for building a candidate, and for running it. memory: bytes of address space of a worker.
    budget: seconds spent on timing a candidate that is worth it. workers: candidates that are built at the same time, by default as
    many as there are CPUs, and eight at most, a batch.
    """

    timeout: float = 10.0
    memory: int = 4 << 30
    budget: float = 0.03
    workers: int = field(default_factory=lambda: min(available_cpus(), 8))


def lower_quartile(times: Sequence[float]) -> float:
    """The time that a quarter of the times is below."""
    return sorted(times)[len(times) // 4]
