"""topi.cuda: schedule_injective and its like, of NVIDIA GPUs."""

from __future__ import annotations

from .schedules import NAMES, schedules

__getattr__ = schedules("cuda")


def __dir__() -> list[str]:
    return [*NAMES, "default_schedule"]
