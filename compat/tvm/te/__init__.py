"""tvm.te."""

from __future__ import annotations

from typing import Any

from .... import te as _te
from ....driver.lower import lower
from ....ir import Function
from ....ir.ops import convert
from ....schedule import Schedule, create_schedule
from ....te import *  # noqa: F403  (every name of ours is TVM's)
from ....te import Tensor
from ..tir import add, div, logaddexp, multiply, subtract
from . import operation, schedule, tag, tensor
from .schedule import Stage
from .tensor import HybridOp

__all__ = ["HybridOp", "Schedule", "Stage", "add", "convert", "create_prim_func", "create_schedule", "div", "logaddexp", "multiply",
           "operation", "schedule", "subtract", "tag", "tensor"]
__all__ += _te.__all__


def create_prim_func(ops: Any) -> Function:
    """The loops of tensors in call order (inputs, then outputs), unscheduled: tvm.build takes it."""
    made = [one.op for one in ops if isinstance(one, Tensor) and not one.op.is_passed]
    return lower(create_schedule(made), list(ops))
