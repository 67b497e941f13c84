"""topi.nn: operators of networks with TVM's arguments, in its order and by its names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .....te import Tensor
from .....topi import nn as _ours
from .....topi import transform as _transform
from .....topi.matmul import batch_matmul as _batch_matmul
from .....topi.matmul import matmul as _matmul
from ..image import resize2d, resize3d
from ..utils import get_const_float, sum_dtype
from .packed_layouts import (
    conv2d_gemm_weight_transform,
    conv2d_NCHWc_int8,
    conv2d_winograd_nhwc,
    conv2d_winograd_weight_transform,
    conv3d_winograd_weight_transform,
    deformable_conv2d_nchw,
    deformable_conv2d_nhwc,
    group_conv2d_transpose_nchw,
    scale_shift_nchwc,
    softmax_common,
    unpack_NCHWc_to_nchw,
)
from .utils import get_pad_tuple
from .winograd_util import winograd_transform_matrices

__all__ = [
    "adaptive_pool",
    "batch_matmul",
    "conv",
    "conv2d",
    "conv2d_NCHWc",
    "conv2d_NCHWc_int8",
    "conv2d_gemm_weight_transform",
    "conv2d_hwcn",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv2d_transpose_nchw",
    "conv2d_winograd_nhwc",
    "conv2d_winograd_weight_transform",
    "conv3d_ncdhw",
    "conv3d_ndhwc",
    "conv3d_winograd_weight_transform",
    "deformable_conv2d_nchw",
    "deformable_conv2d_nhwc",
    "dense",
    "depthwise_conv2d_NCHWc",
    "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc",
    "fast_softmax",
    "get_pad_tuple",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
    "group_conv2d_transpose_nchw",
    "instance_norm",
    "layer_norm",
    "matmul",
    "pad",
    "pool",
    "rms_norm",
    "scale_shift_nchwc",
    "softmax_common",
    "unpack_NCHWc_to_nchw",
    "upsampling",
    "upsampling3d",
    "winograd_transform_matrices",
]


def __getattr__(name: str) -> Any:
    if name in ("packed_layouts", "pooling", "utils", "winograd_util"):
        return import_module(f".{name}", __name__)
    return getattr(_ours, name)


# Convolutions. An out_dtype of None or "" is the data's: float16 is summed in float16, in one stage, as programs schedule it.


def conv2d(
    input: Tensor,
    filter: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: Any = None,
    layout: str = "",
) -> Tensor:
    """The convolution of data in "NCHW", "NHWC", "HWCN" or blocks, by a kernel in any order of O, I, H and W."""
    return _conv(input, filter, strides, padding, dilation, 1, layout or data_layout, kernel_layout, out_dtype)


def conv(
    inp: Tensor,
    filt: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: Any = None,
    **_: object,
) -> Tensor:
    """The convolution in groups, of as many dimensions as the layout says."""
    if len(data_layout) == 3:
        return _ours.conv1d(
            inp, filt, stride, padding, dilation, groups, data_layout, kernel_layout, sum_dtype(inp, out_dtype)
        )
    if len(data_layout) == 5 and data_layout.isupper():
        if kernel_layout:
            filt = _permute_kernel(filt, kernel_layout, "OIDHW" if data_layout == "NCDHW" else "DHWIO")
        over = _ours.conv3d_ncdhw if data_layout == "NCDHW" else _ours.conv3d_ndhwc
        return over(inp, filt, stride, padding, dilation, groups, sum_dtype(inp, out_dtype))
    return _conv(inp, filt, stride, padding, dilation, groups, data_layout, kernel_layout, out_dtype)


def _conv(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    layout: str,
    kernel_layout: str,
    out_dtype: Any,
) -> Tensor:
    if kernel_layout and layout in ("NCHW", "NHWC", "HWCN"):
        kernel = _permute_kernel(kernel, kernel_layout, "OIHW" if layout == "NCHW" else "HWIO")
    if layout == "HWCN" and groups == 1:
        return _ours.conv2d_hwcn(data, kernel, strides, padding, dilation, sum_dtype(data, out_dtype))
    return _ours.conv2d(data, kernel, strides, padding, dilation, groups, layout, sum_dtype(data, out_dtype))


def _permute_kernel(kernel: Tensor, given: str, wanted: str) -> Tensor:
    if sorted(given) != sorted(wanted):
        raise ValueError(f"a kernel's layout names {', '.join(sorted(wanted))}, and got {given}")
    return kernel if given == wanted else _transform.transpose(kernel, [given.index(letter) for letter in wanted])


def conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: Any = None
) -> Tensor:
    """The convolution of (N, C, H, W) by (O, C, KH, KW)."""
    return _ours.conv2d_nchw(Input, Filter, stride, padding, dilation, sum_dtype(Input, out_dtype))


def conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    out_dtype: Any = "float32",
    **_: object,
) -> Tensor:
    """The convolution of (N, H, W, C) by (KH, KW, C, O)."""
    return _ours.conv2d_nhwc(Input, Filter, stride, padding, dilation, sum_dtype(Input, out_dtype))


def conv2d_hwcn(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: Any = None
) -> Tensor:
    """The convolution of (H, W, C, N) by (KH, KW, C, O)."""
    return _ours.conv2d_hwcn(Input, Filter, stride, padding, dilation, sum_dtype(Input, out_dtype))


def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: Any = "float32",
) -> Tensor:
    """The convolution in blocks of channels."""
    return _ours.conv2d_NCHWc(data, kernel, stride, padding, dilation, layout, out_layout, sum_dtype(data, out_dtype))


def group_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: Any = None,
) -> Tensor:
    """The convolution in groups of (N, C, H, W) by (O, C / groups, KH, KW)."""
    return _ours.group_conv2d_nchw(Input, Filter, stride, padding, dilation, groups, sum_dtype(Input, out_dtype))


def group_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: Any = None,
) -> Tensor:
    """The convolution in groups of (N, H, W, C) by (KH, KW, C / groups, O)."""
    return _ours.group_conv2d_nhwc(Input, Filter, stride, padding, dilation, groups, sum_dtype(Input, out_dtype))


def depthwise_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    out_dtype: Any = None,
) -> Tensor:
    """The depthwise convolution of (N, C, H, W) by (C, M, KH, KW)."""
    return _ours.depthwise_conv2d_nchw(Input, Filter, stride, padding, dilation, sum_dtype(Input, out_dtype))


def depthwise_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    kernel_layout: str = "HWOI",
    out_dtype: Any = None,
) -> Tensor:
    """The depthwise convolution of (N, H, W, C) by (KH, KW, C, M), or in any order of "HWOI" that kernel_layout names."""
    kernel = _permute_kernel(Filter, kernel_layout, "HWOI")
    return _ours.depthwise_conv2d_nhwc(Input, kernel, stride, padding, dilation, sum_dtype(Input, out_dtype))


def depthwise_conv2d_NCHWc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: Any = None,
) -> Tensor:
    """The depthwise convolution in blocks of channels: (N, C / c, H, W, c) by (C / c, 1, KH, KW, 1, c)."""
    del layout, out_layout
    chunks, _, high, wide, _, block = Filter.shape
    kernel = _transform.reshape(_transform.transpose(Filter, (0, 5, 1, 4, 2, 3)), (chunks * block, 1, high, wide))
    batch, _, height, width, _ = Input.shape
    data = _transform.reshape(_transform.transpose(Input, (0, 1, 4, 2, 3)), (batch, chunks * block, height, width))
    result = _ours.depthwise_conv2d_nchw(data, kernel, stride, padding, dilation, sum_dtype(data, out_dtype))
    parts = _transform.reshape(result, (batch, chunks, block, *result.shape[2:]))
    return _transform.transpose(parts, (0, 1, 3, 4, 2))


def conv2d_transpose_nchw(
    Input: Tensor,
    Filter: Tensor,
    strides: Any,
    padding: Any,
    out_dtype: Any = None,
    output_padding: Any = 0,
) -> Tensor:
    """The transposed convolution of (N, C, H, W) by (C, O, KH, KW)."""
    return _ours.conv2d_transpose(Input, Filter, strides, padding, output_padding, sum_dtype(Input, out_dtype))


def conv3d_ncdhw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: Any = None,
) -> Tensor:
    """The convolution of (N, C, D, H, W) by (O, C / groups, KD, KH, KW)."""
    return _ours.conv3d_ncdhw(Input, Filter, stride, padding, dilation, groups, sum_dtype(Input, out_dtype))


def conv3d_ndhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: Any = "float32",
    **_: object,
) -> Tensor:
    """The convolution of (N, D, H, W, C) by (KD, KH, KW, C / groups, O)."""
    return _ours.conv3d_ndhwc(Input, Filter, stride, padding, dilation, groups, sum_dtype(Input, out_dtype))


# Products


def dense(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: Any = None,
    auto_scheduler_rewritten_layout: str = "",
    **_: object,
) -> Tensor:
    """data times the transpose of weight, plus bias."""
    del auto_scheduler_rewritten_layout
    return _ours.dense(data, weight, bias, sum_dtype(data, out_dtype))


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Any = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    auto_scheduler_rewritten_layout: str = "",
    **_: object,
) -> Tensor:
    """The products of two batches of matrices, the second ones taken transposed; the result's shape follows."""
    del oshape, auto_scheduler_rewritten_layout
    return _batch_matmul(tensor_a, tensor_b, sum_dtype(tensor_a, out_dtype), transpose_a, transpose_b)


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    **_: object,
) -> Tensor:
    """The product of two matrices, plus a bias for each column."""
    del auto_scheduler_rewritten_layout
    result = _matmul(tensor_a, tensor_b, transpose_a, transpose_b, sum_dtype(tensor_a, out_dtype))
    return result if bias is None else result + bias


# Rows, windows, borders


def fast_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """softmax."""
    return _ours.softmax(x, axis)


def layer_norm(data: Tensor, gamma: Tensor, beta: Tensor, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Normalisation over `axis`."""
    return _ours.layer_norm(data, gamma, beta, axis, epsilon)


def rms_norm(data: Tensor, weight: Tensor, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Normalisation by the root of the mean square over `axis`."""
    return _ours.rms_norm(data, weight, axis, epsilon)


def instance_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, channel_axis: int, axis: Any, epsilon: float = 1e-5
) -> Tensor:
    """Normalisation of every channel of every instance."""
    return _ours.instance_norm(data, gamma, beta, channel_axis, axis, epsilon)


def pool(
    data: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """pool2d without dilation, as older releases had it."""
    return _ours.pool2d(data, kernel, stride, 1, padding, pool_type, ceil_mode, layout, count_include_pad)


def adaptive_pool(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pooling to a size."""
    return _ours.adaptive_pool(data, output_size, pool_type, layout)


def pad(
    data: Tensor,
    pad_before: Any,
    pad_after: Any = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Any = None,
) -> Tensor:
    """`data` with constants around it."""
    del attrs
    return _transform.pad(data, pad_before, pad_after, pad_value, name)


def upsampling(
    data: Tensor,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Any = None,
) -> Tensor:
    """Images enlarged by factors. A pixel lies at its index, not at its centre, but for align_corners."""
    high, wide = (data.shape[layout.index(letter)] for letter in "HW")
    size = output_shape or (_round_extent(high * scale_h), _round_extent(wide * scale_w))
    mode = "align_corners" if align_corners else "asymmetric"
    kind = {"bilinear": "linear", "bicubic": "cubic"}.get(method, method)
    return resize2d(data, None, size, layout, kind, mode)


def upsampling3d(
    data: Tensor,
    scale_d: float,
    scale_h: float,
    scale_w: float,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Any = None,
) -> Tensor:
    """Volumes enlarged by factors."""
    scales = zip("DHW", (scale_d, scale_h, scale_w), strict=True)
    size = output_shape or tuple(_round_extent(data.shape[layout.index(letter)] * scale) for letter, scale in scales)
    return resize3d(
        data, None, size, layout, {"trilinear": "linear"}.get(method, method), coordinate_transformation_mode
    )


def _round_extent(extent: Any) -> int:
    return round(get_const_float(extent))


def batch_flatten(data: Tensor) -> Tensor:
    """All dimensions but the first as one."""
    return _ours.flatten(data)
