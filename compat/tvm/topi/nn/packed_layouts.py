"""topi.nn: data and weights in the blocks that TVM's schedules ask for."""

from __future__ import annotations

from typing import Any

from ..... import te
from .....te import Tensor
from .....topi import nn as _ours
from .....topi import transform as _transform
from .....topi.elementwise import cast
from ..utils import get_const_int, sum_dtype
from .winograd_util import winograd_transform_matrices

__all__ = [
    "conv2d_NCHWc_int8",
    "conv2d_gemm_weight_transform",
    "conv2d_winograd_nhwc",
    "conv2d_winograd_weight_transform",
    "conv3d_winograd_weight_transform",
    "deformable_conv2d_nchw",
    "deformable_conv2d_nhwc",
    "group_conv2d_transpose_nchw",
    "scale_shift_nchwc",
    "softmax_common",
    "unpack_NCHWc_to_nchw",
]


def conv2d_NCHWc_int8(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: Any = "int32",
    n_elems: int = 4,
) -> Tensor:
    """The convolution in blocks of channels by a kernel (O / o, C / c, KH, KW, c / n_elems, o, n_elems)."""
    outer, chunks, high, wide, few, block, _ = kernel.shape
    moved = _transform.transpose(kernel, (0, 1, 2, 3, 4, 6, 5))
    packed = _transform.reshape(moved, (outer, chunks, high, wide, few * n_elems, block))
    sides = [cast(each, out_dtype) for each in (data, packed)]
    return _ours.conv2d_NCHWc(sides[0], sides[1], stride, padding, dilation, layout, out_layout, out_dtype)


def conv2d_gemm_weight_transform(kernel: Tensor, tile_rows: int, tile_cols: int) -> Tensor:
    """A kernel (KH, KW, C, O) as a matrix in tiles: (O / tile_rows, K / tile_cols, tile_rows, tile_cols), filled up with zeros."""
    high, wide, channels, outputs = _numbers(kernel)
    length = high * wide * channels
    flat = _transform.pad(
        _transform.reshape(kernel, (length, outputs)), (0, 0), (-length % tile_cols, -outputs % tile_rows)
    )
    rows, columns = _numbers(flat)
    tiles = _transform.reshape(flat, (rows // tile_cols, tile_cols, columns // tile_rows, tile_rows))
    return _transform.transpose(tiles, (2, 0, 3, 1))


def conv2d_winograd_nhwc(
    data: Tensor,
    weight: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: Any,
    pre_computed: bool = False,
    **_: object,
) -> Tensor:
    """The convolution of (N, H, W, C) by (KH, KW, C, O): schedules choose Winograd's algorithm where it is faster."""
    if pre_computed:
        raise ValueError("weights that TVM's Winograd laid out are not taken: pass them as they were, (KH, KW, C, O)")
    return _ours.conv2d_nhwc(data, weight, strides, padding, dilation, sum_dtype(data, out_dtype))


def conv2d_winograd_weight_transform(kernel: Tensor, tile_size: int) -> Tensor:
    """A kernel (O, C, K, K) as G w G^T: (a, a, O, C), a = tile_size + K - 1."""
    return _transform_kernel(kernel, tile_size, 2)


def conv3d_winograd_weight_transform(kernel: Tensor, tile_size: int) -> Tensor:
    """A kernel (O, C, KD, K, K) transformed along height and width, and along depth where that is K too: (a, a, a or KD, O, C)."""
    depth, size = _numbers(kernel)[2:4]
    return _transform_kernel(kernel, tile_size, 3 if 2 < depth < 8 and depth == size else 2)


def _numbers(kernel: Tensor) -> list[int]:
    return [get_const_int(extent) for extent in kernel.shape]


def _transform_kernel(kernel: Tensor, tile_size: int, dims: int) -> Tensor:
    taps = _numbers(kernel)[-dims:]
    if len(set(taps)) > 1:
        raise ValueError(f"Winograd's algorithm is laid out for windows of one size, and got {taps}")
    matrix = winograd_transform_matrices(tile_size, taps[0], kernel.dtype)[2]
    axes = [te.reduce_axis((0, tap), "r_k") for tap in taps]
    kept = kernel.shape[2:-dims]

    def element(*i: Any) -> Any:
        own, rest, (o, c) = i[:dims], i[dims:-2], i[-2:]
        value = kernel[(o, c, *rest, *axes)]
        for place, axis in zip(own, axes, strict=True):
            value = value * matrix[place, axis]
        return te.sum(value, axis=axes)

    return te.compute((*[tile_size + taps[0] - 1] * dims, *kept, *kernel.shape[:2]), element, name="transform_weight")


def deformable_conv2d_nchw(
    data: Tensor,
    offset: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
    out_dtype: Any = None,
) -> Tensor:
    """The convolution whose taps are moved by offset; those outside of the image count nothing."""
    return _ours.deformable_conv2d_nchw(
        data,
        offset,
        kernel,
        strides,
        padding,
        dilation,
        deformable_groups,
        groups,
        sum_dtype(data, out_dtype),
        partial=False,
    )


def deformable_conv2d_nhwc(
    data: Tensor,
    offset: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
    out_dtype: Any = None,
) -> Tensor:
    """The same of (N, H, W, C) by (KH, KW, C, O)."""
    return _ours.deformable_conv2d_nhwc(
        data,
        offset,
        kernel,
        strides,
        padding,
        dilation,
        deformable_groups,
        groups,
        sum_dtype(data, out_dtype),
        partial=False,
    )


def group_conv2d_transpose_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    out_dtype: Any,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """The transposed convolution in groups of (N, C, H, W) by (C, O / groups, KH, KW)."""
    return _ours.conv2d_transpose(data, kernel, stride, padding, output_padding, sum_dtype(data, out_dtype), groups)


def scale_shift_nchwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Data (N, C / c, H, W, c) scaled and moved by (C / c, c)."""
    return te.compute(
        Input.shape, lambda *i: Input[i] * Scale[i[1], i[4]] + Shift[i[1], i[4]], "ScaleShift", "injective"
    )


def softmax_common(x: Tensor, axis: int, use_fast_exp: bool) -> Tensor:
    """softmax, whose exp is as fast as it is exact."""
    del use_fast_exp
    return _ours.softmax(x, axis)


def unpack_NCHWc_to_nchw(packed_out: Tensor, out_dtype: Any) -> Tensor:
    """(N, C / c, H, W, c) as (N, C, H, W), in out_dtype."""
    batch, chunks, high, wide, block = packed_out.shape
    moved = _transform.transpose(packed_out, (0, 1, 4, 2, 3))
    return cast(_transform.reshape(moved, (batch, chunks * block, high, wide)), out_dtype)
