"""topi.arm_cpu: schedule_injective and its like, of a CPU."""

from __future__ import annotations

from .schedules import NAMES, schedules

__getattr__ = schedules("llvm")


def __dir__() -> list[str]:
    return [*NAMES, "default_schedule"]
