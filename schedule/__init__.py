"""Schedules: how what te declares is computed."""

from __future__ import annotations

from .attributes import IterAttr
from .auto_inline import AutoInlineBroadcast, AutoInlineElemWise, AutoInlineInjective
from .records import Record
from .schedule import Schedule, create_schedule
from .serialise import from_json, to_json
from .stage import Stage

__all__ = [
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "IterAttr",
    "Record",
    "Schedule",
    "Stage",
    "create_schedule",
    "from_json",
    "to_json",
]
