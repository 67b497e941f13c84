"""Errors of looking at a schedule and of checking it: TW0258 and TW0259."""

from __future__ import annotations

from ..base.errors import ScheduleError


class ResultsDiffer(ScheduleError):
    """A schedule under which the program computes something else than unscheduled."""

    code = "TW0258"


class CannotVerify(ScheduleError):
    """Sizes that do not fit the program whose schedule is to be verified."""

    code = "TW0259"
