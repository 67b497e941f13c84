"""topi.testing: what operators compute, by numpy, and the schedules that TVM's own tests ask for by target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....autoschedule.scheduler import schedule
from ....base.arguments import is_sequence, to_list
from ....schedule import Schedule
from ....topi.nn.window import each_side, expand_numbers
from ..target import Target
from . import nn
from .references import (
    affine_grid_python,
    batch_norm,
    batch_to_space_nd_python,
    conv1d_transpose_ncw_python,
    conv2d_transpose_nchw_python,
    conv2d_transpose_nhwc_python,
    conv3d_transpose_ncdhw_python,
    dense,
    group_norm_python,
    instance_norm_python,
    matrix_set_diag,
    nll_loss,
    pool_grad_nchw,
    reference,
    scatter_nd_python,
    searchsorted_ref,
    slice_axis_python,
    space_to_batch_nd_python,
    standardize,
    strided_set_python,
)

__all__ = [
    "adaptive_pool",
    "affine_grid_python",
    "batch_matmul",
    "batch_norm",
    "batch_to_space_nd_python",
    "conv1d_ncw_python",
    "conv1d_nwc_python",
    "conv1d_transpose_ncw_python",
    "conv2d_hwcn_python",
    "conv2d_nchw_python",
    "conv2d_nhwc_python",
    "conv2d_transpose_nchw_python",
    "conv2d_transpose_nhwc_python",
    "conv3d_ncdhw_python",
    "conv3d_ndhwc_python",
    "conv3d_transpose_ncdhw_python",
    "dense",
    "depth_to_space_python",
    "depthwise_conv2d_python_nchw",
    "depthwise_conv2d_python_nhwc",
    "dilate_python",
    "dispatch",
    "gather_nd_python",
    "gather_python",
    "get_broadcast_schedule",
    "get_conv2d_nchw_implement",
    "get_elemwise_schedule",
    "get_injective_schedule",
    "get_reduce_schedule",
    "get_softmax_schedule",
    "group_conv1d_ncw_python",
    "group_conv1d_nwc_python",
    "group_norm_python",
    "instance_norm_python",
    "l2_normalize_python",
    "layer_norm_python",
    "log_softmax_python",
    "lrn_python",
    "matrix_set_diag",
    "nll_loss",
    "one_hot",
    "pool_grad_nchw",
    "poolnd_python",
    "reorg_python",
    "scatter_nd_python",
    "searchsorted_ref",
    "sequence_mask",
    "slice_axis_python",
    "softmax_python",
    "space_to_batch_nd_python",
    "space_to_depth_python",
    "strided_set_python",
    "strided_slice_python",
    "upsampling_python",
]


# Schedules


_where: Callable[..., Any] = np.where  # without its overloads, which choose none where something may be anything


def get_injective_schedule(target: Any) -> Callable[[Any], Schedule]:
    """The schedule of any outputs for a target."""
    chosen = target if isinstance(target, Target) else Target(target)
    return lambda outs: schedule(outs, chosen.ours)


get_broadcast_schedule = get_elemwise_schedule = get_reduce_schedule = get_softmax_schedule = get_injective_schedule


def get_conv2d_nchw_implement(target: Any) -> tuple[Callable[..., Any], Callable[[Any], Schedule]]:
    """The convolution over NCHW, and the schedule of what it is computed for."""
    return nn.conv2d_nchw, get_injective_schedule(target)


def dispatch(target: Any, dispatch_map: Any) -> Any:
    """The entry of a target's kind or of one of its keys, else that for "generic"."""
    chosen = target if isinstance(target, Target) else Target(target)
    return next(
        (dispatch_map[key] for key in (chosen.kind.name, *chosen.keys) if key in dispatch_map),
        dispatch_map.get("generic"),
    )


# Convolutions


def _conv(a: Any, w: Any, stride: Any, padding: Any, groups: int = 1, dilation: Any = 1) -> Any:
    """Convolve data (N, C, ...) and a kernel (O, C / groups, ...)."""
    dims = a.ndim - 2
    steps, spread = expand_numbers(stride, dims, "stride"), expand_numbers(dilation, dims, "dilation")
    low, high = each_side(padding, [(tap - 1) * by + 1 for tap, by in zip(w.shape[2:], spread, strict=True)])
    return reference("conv", a, w, stride=steps, padding=(*low, *high), groups=groups, dilation=spread)


conv2d_nchw_python = conv3d_ncdhw_python = _conv


def conv1d_ncw_python(a_np: Any, w_np: Any, stride: Any, padding: Any, dilation: Any = 1) -> Any:
    """Convolution of (N, C, W) by (O, C, KW)."""
    return group_conv1d_ncw_python(a_np, w_np, stride, padding, dilation, 1)


def group_conv1d_ncw_python(a_np: Any, w_np: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Convolution of (N, C, W) by (O, C / groups, KW)."""
    return _conv(a_np, w_np, stride, padding, groups, dilation)


def conv2d_nhwc_python(a_np: Any, w_np: Any, stride: Any, padding: Any, groups: int = 1) -> Any:
    """Convolution of (N, H, W, C) by (KH, KW, C / groups, O)."""
    return _conv(a_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1), stride, padding, groups).transpose(0, 2, 3, 1)


def conv1d_nwc_python(a_np: Any, w_np: Any, stride: Any, padding: Any, dilation: Any = 1) -> Any:
    """Convolution of (N, W, C) by (KW, C, O)."""
    return group_conv1d_nwc_python(a_np, w_np, stride, padding, dilation, 1)


def group_conv1d_nwc_python(a_np: Any, w_np: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Convolution of (N, W, C) by (KW, C / groups, O)."""
    moved = a_np.transpose(0, 2, 1), w_np.transpose(2, 1, 0)
    return group_conv1d_ncw_python(*moved, stride, padding, dilation, groups).transpose(0, 2, 1)


def conv3d_ndhwc_python(a_np: Any, w_np: Any, stride: Any, padding: Any, groups: int = 1) -> Any:
    """Convolution of (N, D, H, W, C) by (KD, KH, KW, C / groups, O)."""
    moved = _conv(np.moveaxis(a_np, -1, 1), w_np.transpose(4, 3, 0, 1, 2), stride, padding, groups)
    return np.moveaxis(moved, 1, -1)


def conv2d_hwcn_python(a_np: Any, w_np: Any, stride: Any, padding: Any) -> Any:
    """Convolution of (H, W, C, N) by (KH, KW, C, O)."""
    return _conv(a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1), stride, padding).transpose(2, 3, 1, 0)


def depthwise_conv2d_python_nchw(input_np: Any, filter_np: Any, stride: Any, padding: Any) -> Any:
    """Convolution of (N, C, H, W) by (C, M, KH, KW)."""
    channels, multiplier, *taps = filter_np.shape
    return _conv(input_np, filter_np.reshape(channels * multiplier, 1, *taps), stride, padding, channels)


def depthwise_conv2d_python_nhwc(input_np: Any, filter_np: Any, stride: Any, padding: Any) -> Any:
    """Convolution of (N, H, W, C) by (KH, KW, C, M)."""
    result = depthwise_conv2d_python_nchw(
        input_np.transpose(0, 3, 1, 2), filter_np.transpose(2, 3, 0, 1), stride, padding
    )
    return result.transpose(0, 2, 3, 1)


# Products, rows, windows


def batch_matmul(x: Any, y: Any, out_dtype: Any = None, trans_x: bool = False, trans_y: bool = True) -> Any:
    """Products of two batches, the second taken transposed unless said otherwise."""
    left, right = (x.swapaxes(1, 2) if trans_x else x), (y.swapaxes(1, 2) if trans_y else y)
    return np.matmul(left.astype(out_dtype or x.dtype), right.astype(out_dtype or x.dtype))


def softmax_python(a_np: Any, axis: int = -1) -> Any:
    """exp(x) / sum of exp(x)."""
    return reference("softmax", a_np, axis=axis)


def log_softmax_python(a_np: Any, axis: int = -1) -> Any:
    """log of softmax."""
    return reference("log_softmax", a_np, axis=axis)


def layer_norm_python(data: Any, gamma: Any, beta: Any, axis: Any, epsilon: float = 1e-5) -> Any:
    """Normalised over `axis`."""
    axes = tuple(at % data.ndim for at in to_list(axis))
    shape = [extent if at in axes else 1 for at, extent in enumerate(data.shape)]
    result = standardize(data, axes, epsilon)
    result = result if gamma is None else result * gamma.reshape(shape)
    return result if beta is None else result + beta.reshape(shape)


def l2_normalize_python(a_np: Any, eps: float, axis: Any = None) -> Any:
    """x / sqrt(max(sum of x^2, eps))."""
    axes = tuple(axis) if is_sequence(axis) else axis
    return a_np / np.sqrt(np.maximum((a_np * a_np).sum(axes, keepdims=True), eps))


def lrn_python(a_np: Any, size: int, axis: int, bias: float, alpha: float, beta: float) -> Any:
    """Local response normalisation."""
    moved = np.moveaxis(a_np[None], axis % a_np.ndim + 1, 1)
    result = reference("lrn", moved, size=size, alpha=alpha, beta=beta, bias=bias)
    return np.moveaxis(result, 1, axis % a_np.ndim + 1)[0]


def poolnd_python(
    np_data: Any,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding_before: Sequence[int],
    padding_after: Sequence[int],
    pool_type: str,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    dtype: str = "float32",
    layout: str = "",
) -> Any:
    """Pooling of (N, C, ...), or of another layout."""
    how: dict[str, Any] = {"kernel": kernel, "stride": strides, "dilation": dilation, "ceil_mode": ceil_mode}
    how["padding"] = (*padding_before, *padding_after)
    if pool_type != "max":
        how["count_padding"] = count_include_pad
    return _pool("max_pool" if pool_type == "max" else "avg_pool", np_data, layout or "NCDHW", how).astype(dtype)


def adaptive_pool(np_data: Any, out_size: Sequence[int], pool_type: str, layout: str = "NCHW") -> Any:
    """Pooling to a size."""
    return _pool("adaptive_pool", np_data, layout, {"size": out_size, "kind": pool_type})


def _pool(name: str, data: Any, layout: str, how: dict[str, Any]) -> Any:
    """Pool the dimensions that a layout calls depth, height and width."""
    space = [at for at, letter in enumerate(layout[: data.ndim]) if letter in "DHW"]
    last = range(-len(space), 0)
    return np.moveaxis(reference(name, np.moveaxis(data, space, last), **how), last, space)


# Elements that move


def dilate_python(input_np: Any, strides: Sequence[int], dilation_value: float = 0, out_dtype: Any = None) -> Any:
    """Elements apart."""
    result = np.full(
        [max((extent - 1) * step + 1, 0) for extent, step in zip(input_np.shape, strides, strict=True)],
        dilation_value,
        out_dtype or input_np.dtype,
    )
    result[tuple(slice(None, None, step) for step in strides)] = input_np
    return result


def upsampling_python(data: Any, scale: Sequence[int], layout: str = "NCHW") -> Any:
    """Each pixel as several."""
    return data.repeat(scale[0], layout.index("H")).repeat(scale[1], layout.index("W"))


def space_to_depth_python(data: Any, block_size: int) -> Any:
    """Blocks of (N, C, H, W) in the channels."""
    return reference("space_to_depth", data, block=block_size)


def reorg_python(data: Any, stride: int) -> Any:
    """Darknet's reorganisation of (N, C, H, W)."""
    n, c, h, w = data.shape
    area = stride**2
    deep = space_to_depth_python(data.reshape(n, c // area, h * stride, w * stride), stride)
    return deep.reshape(n, c * area, h // stride, w // stride)


def depth_to_space_python(data: Any, block_size: int, mode: str = "DCR") -> Any:
    """Channels of (N, C, H, W) as blocks."""
    return reference("depth_to_space", data, block=block_size, mode=mode)


def strided_slice_python(
    data: Any, begin: Sequence[int], end: Sequence[int], strides: Any, slice_mode: str = "end", axes: Any = None
) -> Any:
    """data[begin:end:strides]."""
    parts = [slice(None)] * data.ndim
    steps = ([strides] * len(begin) if isinstance(strides, int) else list(strides)) if strides else []
    for place, at in enumerate(axes if axes is not None else range(len(begin))):
        first, last = begin[place], end[place]
        if slice_mode == "size":
            last = None if last < 0 else first + last
        parts[at] = slice(first, last, steps[place] if place < len(steps) and slice_mode == "end" else 1)
    return data[tuple(parts)]


def gather_python(data: Any, axis: int, indices: Any) -> Any:
    """Elements by their places along an axis."""
    return reference("gather", data, indices, axis=axis)


def gather_nd_python(a_np: Any, indices_np: Any) -> Any:
    """Elements by their coordinates."""
    return reference("gather_nd", a_np, np.moveaxis(indices_np.astype(int), 0, -1))


def one_hot(indices: Any, on_value: Any, off_value: Any, depth: int, axis: int, dtype: Any) -> Any:
    """on_value where a new axis is the index."""
    result = _where(np.asarray(indices)[..., None] == np.arange(depth), on_value, off_value)
    return np.moveaxis(result.astype(dtype), -1, axis)


def sequence_mask(data: Any, valid_length: Any, mask_value: Any, axis: int) -> Any:
    """mask_value behind the end of each sequence."""
    before = np.arange(int(data.shape[axis]))[:, None] < np.asarray(valid_length)
    before = before if axis == 0 else before.T
    masked = _where(before.reshape(*before.shape, *[1] * (data.ndim - 2)), data, mask_value)
    return masked.astype(data.dtype)
