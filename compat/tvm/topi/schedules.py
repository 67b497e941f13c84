"""TVM's schedules of operators, all of which topi.schedule makes: it sees itself what there is to schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....schedule import Schedule
from ....topi.scheduling import schedule
from ..target import Target

__all__ = ["NAMES", "schedules"]

NAMES = tuple(f"schedule_{name}" for name in (
    "injective", "elemwise", "broadcast", "extern", "reduce", "concatenate", "softmax", "pool", "adaptive_pool", "dense",
    "matmul", "batch_matmul", "conv2d_nchw", "conv2d_nhwc", "conv2d_NCHWc", "group_conv2d_nchw", "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc", "depthwise_conv2d_NCHWc", "lrn", "dense_pack", "dense_nopack", "argwhere", "gather", "scan",
))


def schedules(kind: str) -> Callable[[str], Any]:
    """The __getattr__ of a module of schedules. kind: of the target that they are for, "" for the current one."""
    def get(name: str) -> Any:
        if name in NAMES or name == "default_schedule":
            def of(outs: Any, *_: Any) -> Schedule:
                return schedule(outs, _target(kind))

            of.__name__ = name
            return of
        from . import __getattr__ as operator
        from . import nn

        return getattr(nn, name) if hasattr(nn, name) else operator(name)

    return get


def _target(kind: str) -> str:
    current = Target.current()
    if current is not None and kind in ("", current.kind.name):
        return current.ours
    return kind or "llvm"
