"""A trial: one measured candidate, as databases keep it."""

from __future__ import annotations

import time
import uuid

from ..autoschedule.search.space import Config
from ..base import dataclass, field

__all__ = ["Trial"]


@dataclass(frozen=True, slots=True, repr=False)
class Trial:
    """One measured candidate.

    records: its schedule as JSON. seconds: of a call, None where it failed; confirmed: measured again, side by side with its
    rivals. config: the point of its space, None where nobody knows. failure: a class of failures (see measure.Failure), "" for
    none, and message: what it said. created: in seconds since 1970. uid: tells it from all others, of other machines too.
    mark: says that this machine has checked it (see seal), which the tuner's own trials have.
    """

    records: str
    seconds: float | None
    config: Config | None = None
    failure: str = ""
    message: str = ""
    confirmed: float | None = None
    created: float = field(default_factory=time.time)
    uid: str = field(default_factory=lambda: uuid.uuid4().hex)
    mark: str = ""

    @property
    def time(self) -> float | None:
        """The better founded of its two times, in seconds a call; None where it failed."""
        return self.seconds if self.confirmed is None else self.confirmed

    @property
    def choices(self) -> str:
        """Return what its configuration chose, "gemm of C: tile 6 x 64; ..."; empty where nobody knows."""
        return "" if self.config is None else "; ".join(f"{name}: {choice}" for name, choice in self.config.choices)

    def __repr__(self) -> str:
        took = self.failure if self.time is None else f"{self.time * 1e3:.4g} ms"
        return f"Trial({took}{f', {self.choices}' if self.choices else ''})"
