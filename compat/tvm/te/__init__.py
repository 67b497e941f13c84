"""tvm.te."""

from __future__ import annotations

from ....ir.ops import convert
from ....schedule import Schedule, create_schedule
from ....te import *  # noqa: F403  (every name of ours is TVM's)
from ....te import abs, all, any, max, min, pow, round, sum  # noqa: F401  (TVM's names, which hide Python's)
from . import schedule, tensor

__all__ = ["Schedule", "convert", "create_schedule", "schedule", "tensor"]
