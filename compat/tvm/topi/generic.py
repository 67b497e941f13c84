"""topi.generic: schedule_injective and its like, of the target that was entered, or this machine."""

from __future__ import annotations

from .schedules import NAMES, schedules

__getattr__ = schedules("")


def __dir__() -> list[str]:
    return [*NAMES, "default_schedule"]
