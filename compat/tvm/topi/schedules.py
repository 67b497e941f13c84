"""TVM's schedules of operators, all of which topi.schedule makes: it sees itself what there is to schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....autoschedule.scheduler import schedule
from ....schedule import Schedule
from ..target import Target

__all__ = ["NAMES", "schedules"]

NAMES = tuple(f"schedule_{name}" for name in (
    "adaptive_pool adaptive_pool1d argsort argwhere batch_matmul batch_norm broadcast concatenate conv1d_ncw conv1d_nwc "
    "conv1d_transpose_ncw conv2d_NCHWc conv2d_hwcn conv2d_nchw conv2d_nhwc conv2d_transpose_nchw conv3d_ncdhw conv3d_ndhwc "
    "conv3d_transpose_ncdhw cumsum dense dense_nopack dense_pack depthwise_conv2d_NCHWc depthwise_conv2d_nchw "
    "depthwise_conv2d_nhwc einsum elemwise extern gather group_conv2d_nchw group_conv2d_nhwc injective l2_normalize lrn matmul "
    "pool pool1d pool3d reduce scan scatter scatter_elements scatter_nd softmax sort topk"
).split())


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
