"""tvm.te."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .... import te as _te
from ....arguments import is_a
from ....driver.lower import lower
from ....ir import Function
from ....ir.ops import convert
from ....te import *  # noqa: F403  (every name of ours is TVM's)
from ....te import Tensor
from ..nodes import ours, theirs
from ..tir import add, div, logaddexp, multiply, subtract
from . import operation, schedule, tag, tensor
from .hybrid import HybridModule  # which makes `hybrid` the one here, not that of our te
from .stage import Schedule, Stage, create_schedule
from .tensor import HybridOp

__all__ = [
    "HybridModule", "HybridOp", "Schedule", "Stage", "add", "comm_reducer", "convert", "create_prim_func", "create_schedule",
    "decl_tensor_intrin", "div", "extern", "logaddexp", "multiply", "operation", "schedule", "subtract", "tag", "tensor",
]
__all__ += _te.__all__


def create_prim_func(ops: Any) -> Function:
    """The loops of tensors in call order (inputs, then outputs), unscheduled: tvm.build takes it."""
    computed = [each.op for each in ops if isinstance(each, Tensor) and not each.op.is_passed]
    return theirs(lower(create_schedule(computed), list(ops)))


def comm_reducer(fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce") -> Any:
    """As te.comm_reducer. Called with values alone, it combines them."""
    return replace(_te.comm_reducer(fcombine, fidentity, name), elementwise=True)


def extern(shape: Any, inputs: Any, fcompute: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """As te.extern. The statement may hold nodes with TVM's names."""
    return _te.extern(shape, inputs, lambda ins, outs: ours(fcompute(ins, outs)), *args, **named)


def decl_tensor_intrin(op: Any, fcompute: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """As te.decl_tensor_intrin. The statements may hold nodes with TVM's names."""

    def bodies(*buffers: Any) -> Any:
        given = fcompute(*buffers)
        return tuple(map(ours, given)) if is_a(given, tuple) else ours(given)

    intrin = _te.decl_tensor_intrin(op, bodies, *args, **named)
    return replace(intrin, buffers=_Buffers(intrin.buffers))


class _Buffers(dict[Any, Any]):
    """The buffers of an intrinsic by their tensors, and by their numbers."""

    def __missing__(self, key: object) -> Any:
        if isinstance(key, int):
            return list(self.values())[key]
        raise KeyError(key)
