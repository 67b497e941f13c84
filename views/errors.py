"""What looking at a schedule, and checking it, may find: TW0255 to TW0259."""

from __future__ import annotations

from ..errors import ScheduleError


class PageNeedsJinja(ScheduleError):
    """The page about a schedule is made by jinja2, which is not installed."""

    code = "TW0257"


class ResultsDiffer(ScheduleError):
    """A schedule under which the program computes something else than unscheduled."""

    code = "TW0258"


class CannotVerify(ScheduleError):
    """Sizes that do not fit the program whose schedule is to be verified."""

    code = "TW0259"
