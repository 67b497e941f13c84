"""Schedules: how what te declares is computed.

What looks at machine code, or runs it, lives on floors above; its names are handed on from there when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .model.attributes import IterAttr
from .model.records import Record
from .model.schedule import Schedule, create_schedule
from .model.serialise import from_json, to_json
from .model.stage import Stage
from .primitives.auto_inline import AutoInlineBroadcast, AutoInlineElemWise, AutoInlineInjective

if TYPE_CHECKING:
    from ..views.report import notebook_html as schedule_html
    from ..views.report import show as show_schedule
    from ..views.verify import Verification
    from ..views.verify import verify as verify_schedule

_ABOVE = {"schedule_html": ("views.report", "notebook_html"), "show_schedule": ("views.report", "show"),
          "Verification": ("views.verify", "Verification"), "verify_schedule": ("views.verify", "verify")}
"""Where the lazy names live, and what they are called there."""

__all__ = [
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "IterAttr",
    "Record",
    "Schedule",
    "Stage",
    "Verification",
    "create_schedule",
    "from_json",
    "schedule_html",
    "show_schedule",
    "to_json",
    "verify_schedule",
]


def __getattr__(name: str) -> object:
    if name not in _ABOVE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, there = _ABOVE[name]
    return getattr(import_module(f"..{home}", __name__), there)
