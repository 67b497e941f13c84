"""TVM's schedules of operators, all of which topi.schedule makes: it sees itself what there is to schedule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .... import te
from ....autoschedule.scheduler import schedule
from ....schedule import Schedule
from ..target import Target

__all__ = ["NAMES", "schedules"]

NAMES = tuple(
    f"schedule_{name}"
    for name in (
        "adaptive_pool adaptive_pool1d argsort argwhere batch_matmul batch_norm broadcast concatenate conv1d_ncw conv1d_nwc "
        "conv1d_transpose_ncw conv2d_NCHWc conv2d_hwcn conv2d_nchw conv2d_nhwc conv2d_transpose_nchw conv3d_ncdhw conv3d_ndhwc "
        "conv3d_transpose_ncdhw cumsum dense dense_nopack dense_pack depthwise_conv2d_NCHWc depthwise_conv2d_nchw "
        "depthwise_conv2d_nhwc einsum elemwise extern gather group_conv2d_nchw group_conv2d_nhwc injective l2_normalize lrn matmul "
        "pool pool1d pool3d reduce scan scatter scatter_elements scatter_nd softmax sort topk scatter_add deformable_conv2d_nchw "
        "correlation_nchw nms get_valid_counts roi_align roi_pool proposal multibox_prior multibox_transform_loc multibox_detection "
        "fast_softmax unique tensordot searchsorted group_norm instance_norm layer_norm binarize_pack binary_dense bitpack "
        "bitserial_conv2d_nchw bitserial_conv2d_nhwc bitserial_dense conv2d_NCHWc_int8 conv2d_gemm_weight_transform conv2d_nhwc_pack "
        "conv2d_winograd_weight_transform conv2d_winograd_without_weight_transform conv3d_winograd_weight_transform cumprod "
        "deformable_conv2d_nhwc dilation2d_nchw dilation2d_nhwc group_conv1d_ncw group_conv1d_nwc group_conv2d_transpose_nchw lstm "
        "pool_grad reorg sparse_conv2d sparse_dense sparse_transpose depthwise_conv2d_backward_input_nhwc "
        "depthwise_conv2d_backward_weight_nhwc"
    ).split()
)


def schedules(kind: str) -> Callable[[str], Any]:
    """The __getattr__ of a module of schedules. kind: of the target that they are for, "" for the current one."""

    def get(name: str) -> Any:
        if name == "schedule_injective_from_existing":
            return partial(_injective_from_existing, on_gpu=_target(kind).startswith("cuda"))
        if name in NAMES or name == "default_schedule":

            def of(outs: Any, *_: Any) -> Schedule:
                return schedule(outs, _target(kind))

            of.__name__ = name
            return of
        from . import __getattr__ as operator
        from . import nn

        return getattr(nn, name) if hasattr(nn, name) else operator(name)

    return get


def _injective_from_existing(sch: Schedule, out: Any, *, on_gpu: bool) -> Schedule:
    """The schedule with the loops of `out` fused: in lanes and on all processors, or by the threads of a GPU."""
    fused = sch[out].fuse(*sch[out].op.axis)
    outer, inner = sch[out].split(fused, 256 if on_gpu else 16)
    if on_gpu:
        sch[out].bind(outer, te.thread_axis("blockIdx.x"))
        sch[out].bind(inner, te.thread_axis("threadIdx.x"))
    else:
        sch[out].vectorize(inner)
        sch[out].parallel(outer)
    return sch


def _target(kind: str) -> str:
    current = Target.current()
    if current is not None and kind in ("", current.kind.name):
        return current.ours
    return kind or "llvm"
