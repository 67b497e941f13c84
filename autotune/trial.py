"""A trial: one measured candidate, as databases keep it."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field

from ..autoschedule.search.space import Config

__all__ = ["Trial"]


@dataclass(frozen=True, slots=True)
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
