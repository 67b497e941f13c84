"""tvm.te."""

from __future__ import annotations

from .... import te as _te
from ....ir.ops import convert
from ....schedule import Schedule, create_schedule
from ....te import *  # noqa: F403  (every name of ours is TVM's)
from ....te import abs, all, any, max, min, pow, round, sum  # noqa: F401  (TVM's names, which hide Python's)
from ..tir import div
from . import schedule, tensor

__all__ = ["Schedule", "convert", "create_schedule", "div", "schedule", "tensor"]
__all__ += _te.__all__
