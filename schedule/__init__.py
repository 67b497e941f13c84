"""Schedules: how what te declares is computed."""

from __future__ import annotations

from . import primitives
from .model.attributes import IterAttr
from .model.records import Record
from .model.schedule import Schedule, create_schedule
from .model.serialise import from_json, to_json
from .model.stage import Stage
from .primitives.auto_inline import AutoInlineBroadcast, AutoInlineElemWise, AutoInlineInjective

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

primitives.load()
