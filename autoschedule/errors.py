"""Errors of spaces of schedules (of TW0601 to TW0619, which are tuning's) and of rules."""

from __future__ import annotations

from ..base.errors import ScheduleError, TuningError

__all__ = ["BadDefinition", "BadRule", "UnknownPart"]


class BadDefinition(TuningError):
    """A part of a search space that is defined twice, has no choices, or follows no known policy."""

    code = "TW0605"


class UnknownPart(TuningError):
    """A part of a search space that the template does not define."""

    code = "TW0606"


class BadRule(ScheduleError):
    """A rule of one's own that is none: without a name, without what it matches or does, or with nothing to choose from."""

    code = "TW0228"
