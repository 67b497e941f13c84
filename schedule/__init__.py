"""Schedules: how what te declares is computed.

What looks at machine code, or runs it, lives on floors above; its names are handed on from there when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .attributes import IterAttr
from .auto_inline import AutoInlineBroadcast, AutoInlineElemWise, AutoInlineInjective
from .records import Record
from .schedule import Schedule, create_schedule
from .serialise import from_json, to_json
from .stage import Stage

if TYPE_CHECKING:
    from ..seeing import notebook_html as schedule_html
    from ..seeing import show as show_schedule
    from ..verifying import Verification
    from ..verifying import verify as verify_schedule

_ABOVE = {"schedule_html": ("seeing", "notebook_html"), "show_schedule": ("seeing", "show"),
          "Verification": ("verifying", "Verification"), "verify_schedule": ("verifying", "verify")}
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
