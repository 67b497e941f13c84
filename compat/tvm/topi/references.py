"""More of topi.testing: what transposed convolutions, normalisations and elements that move compute, by numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....base.arguments import to_list
from ....graph.operators.row import row_of
from ....topi import references
from ....topi.nn.window import each_side, expand_numbers
from ....topi.row import find_reference

__all__ = [
    "affine_grid_python",
    "batch_norm",
    "batch_to_space_nd_python",
    "conv1d_transpose_ncw_python",
    "conv2d_transpose_nchw_python",
    "conv2d_transpose_nhwc_python",
    "conv3d_transpose_ncdhw_python",
    "dense",
    "group_norm_python",
    "instance_norm_python",
    "matrix_set_diag",
    "nll_loss",
    "pool_grad_nchw",
    "reference",
    "scatter_nd_python",
    "searchsorted_ref",
    "slice_axis_python",
    "space_to_batch_nd_python",
    "standardize",
    "strided_set_python",
]

_arange: Callable[..., Any] = np.arange  # without their overloads, which choose none where something may be anything


def reference(name: str, *arrays: Any, **attributes: Any) -> Any:
    """Return the result of an operator by the reference of its row, in the dtype of the first array."""
    return find_reference(name)(*arrays, **attributes).astype(arrays[0].dtype)


def standardize(data: Any, axes: Any, epsilon: float) -> Any:
    """Return data of mean 0 and variance 1 along axes."""
    return references.standardize(data, to_list(axes), epsilon).astype(data.dtype)


def conv2d_transpose_nchw_python(
    a_np: Any, w_np: Any, stride: Any, padding: Any, output_padding: Any = 0, groups: int = 1
) -> Any:
    """Convolution of (N, C, H, W) by (C, O / groups, KH, KW)."""
    taps = w_np.shape[2:]
    steps, more = (
        expand_numbers(stride, len(taps), "stride"),
        expand_numbers(output_padding, len(taps), "output_padding", 0),
    )
    if padding == "SAME":
        beyond = [max(tap - step, 0) for tap, step in zip(taps, steps, strict=True)]
        padding = [*(side // 2 for side in beyond), *(-(-side // 2) for side in beyond)]
    low, high = each_side(padding, taps)
    return reference(
        "conv_transpose", a_np, w_np, stride=steps, padding=(*low, *high), groups=groups, output_padding=more
    )


conv1d_transpose_ncw_python = conv3d_transpose_ncdhw_python = conv2d_transpose_nchw_python


def conv2d_transpose_nhwc_python(
    a_nhwc: Any, weight: Any, weight_format: str, stride: Any, padding: Any, output_padding: Any = 0
) -> Any:
    """Convolution of (N, H, W, C) by a kernel whose axes `weight_format` names ("HWIO" and its like), I the channels of the data."""
    kernel = weight.transpose([weight_format.index(axis) for axis in "IOHW"])
    return conv2d_transpose_nchw_python(
        a_nhwc.transpose(0, 3, 1, 2), kernel, stride, padding, output_padding
    ).transpose(0, 2, 3, 1)


def dense(
    data: Any, weight: Any, bias: Any = None, use_bias: bool = False, use_relu: bool = False, out_dtype: Any = None
) -> Any:
    """data times weight transposed, with a bias and without what is negative."""
    kind = out_dtype or data.dtype
    result = data.astype(kind) @ weight.T.astype(kind)
    result = result + bias if use_bias else result
    return np.maximum(result, 0) if use_relu else result


def batch_norm(
    x: Any,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_var: Any,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> list[Any]:
    """The data normalised by what is known of its channels, and that itself."""
    scales, shifts = gamma if scale else np.ones_like(gamma), beta if center else np.zeros_like(beta)
    moved = np.moveaxis(x, axis, 1)
    result = reference("batch_norm", moved, scales, shifts, moving_mean, moving_var, epsilon=epsilon)
    return [np.moveaxis(result, 1, axis), moving_mean, moving_var]


def instance_norm_python(data: Any, gamma: Any, beta: Any, axis: Any, epsilon: float = 1e-5) -> Any:
    """Normalised over `axis`, each channel (axis 1) by its own gamma and beta."""
    shape = [1, -1] + [1] * (data.ndim - 2)
    return standardize(data, axis, epsilon) * gamma.reshape(shape) + beta.reshape(shape)


def group_norm_python(
    data: Any, gamma: Any, beta: Any, num_groups: int, channel_axis: int, axes: Any, epsilon: float = 1e-5
) -> Any:
    """Normalised over `axes` and the channels of each group."""
    at = channel_axis % data.ndim
    parts = data.reshape(*data.shape[:at], num_groups, -1, *data.shape[at + 1 :])
    over = (at + 1, *(axis + (axis > at) for axis in (each % data.ndim for each in to_list(axes))))
    result = standardize(parts, over, epsilon)
    shape = [extent if place == at else 1 for place, extent in enumerate(data.shape)]
    return result.reshape(data.shape) * gamma.reshape(shape) + beta.reshape(shape)


def matrix_set_diag(input_np: Any, diagonal: Any, k: Any = 0, align: str = "RIGHT_LEFT") -> Any:
    """The matrices with other diagonals, `k` or from the first to the last of two; rows of several lie as `align` says (of those
    above the main one, and of those below it)."""
    first, last = (k, k) if isinstance(k, int) else (k[0], k[-1])
    result = np.array(input_np)
    rows, columns = input_np.shape[-2:]
    longest = min(rows + min(last, 0), columns - max(first, 0))
    above, below = align.split("_")
    for at in range(first, last + 1):
        length = min(rows + min(at, 0), columns - max(at, 0))
        begin = longest - length if (above if at >= 0 else below) == "RIGHT" else 0
        line = diagonal if first == last else diagonal[..., last - at, begin : begin + length]
        places = _arange(length)
        result[..., places - min(at, 0), places + max(at, 0)] = line
    return result


def space_to_batch_nd_python(
    data: Any, block_shape: Sequence[int], pad_before: Sequence[int], pad_after: Sequence[int], pad_value: Any = 0
) -> Any:
    """Blocks of the axes behind the first in the batch."""
    count, rest = len(block_shape), data.ndim - 1 - len(block_shape)
    padded = np.pad(
        data, [(0, 0), *zip(pad_before, pad_after, strict=True), *[(0, 0)] * rest], constant_values=pad_value
    )
    shape = [padded.shape[0]]
    for extent, block in zip(padded.shape[1:], block_shape, strict=False):
        shape += [extent // block, block]
    parts = padded.reshape(*shape, *padded.shape[1 + count :])
    order = [*range(2, 2 + 2 * count, 2), 0, *range(1, 1 + 2 * count, 2), *range(1 + 2 * count, parts.ndim)]
    return parts.transpose(order).reshape(-1, *shape[1::2], *padded.shape[1 + count :])


def batch_to_space_nd_python(
    data: Any, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> Any:
    """Blocks of the batch in the axes behind the first, and their borders cut off."""
    count = len(block_shape)
    parts = data.reshape(*block_shape, -1, *data.shape[1:])
    order = [count]
    for at in range(count):
        order += [count + 1 + at, at]
    turned = parts.transpose([*order, *range(2 * count + 1, parts.ndim)])
    sizes = [extent * block for extent, block in zip(data.shape[1:], block_shape, strict=False)]
    whole = turned.reshape(turned.shape[0], *sizes, *data.shape[1 + count :])
    return whole[
        (
            slice(None),
            *(slice(low, size - high) for low, high, size in zip(crop_begin_list, crop_end_list, sizes, strict=True)),
        )
    ]


def strided_set_python(data: Any, v: Any, begin: Any, end: Any, strides: Any) -> Any:
    """The data with v in data[begin:end:strides]."""
    result = np.array(data)
    steps = list(strides) + [1] * (len(begin) - len(strides))
    result[tuple(slice(*part) for part in zip(begin, end, steps, strict=True))] = v
    return result


def slice_axis_python(data: Any, axis: int, begin: int, end: int | None = None) -> Any:
    """data[begin:end] along an axis."""
    parts = [slice(None)] * data.ndim
    parts[axis] = slice(begin, end)
    return data[tuple(parts)]


def searchsorted_ref(sorted_sequence: Any, values: Any, right: bool, out_dtype: Any) -> Any:
    """Return the positions of values in sorted rows."""
    return row_of("searchsorted").reference(sorted_sequence, values, right=right).astype(out_dtype)


def scatter_nd_python(data: Any, indices: Any, updates: Any, mode: str = "update") -> Any:
    """The data with updates at places (indices[:, ...]), or added there."""
    return reference("scatter_nd", data, np.moveaxis(indices, 0, -1), updates, reduction=mode)


def nll_loss(predictions: Any, targets: Any, weights: Any, reduction: str = "mean", ignore_index: int = -100) -> Any:
    """Loss of (N, C, ...) and classes (N, ...): minus what was predicted for them, by their weights."""
    known = targets != ignore_index
    classes = np.where(known, targets, 0)
    chosen = np.take_along_axis(predictions, np.expand_dims(classes, 1), 1).squeeze(1)
    each = np.where(known, -chosen * weights[classes], 0)
    if reduction == "none":
        return each
    return each.sum() / np.where(known, weights[classes], 0).sum() if reduction == "mean" else each.sum()


def affine_grid_python(data: Any, target_shape: Sequence[int]) -> Any:
    """(N, 2, 3) maps of the coordinates from -1 to 1 of a target's (H, W): (N, 2, H, W), x first."""
    y, x = np.meshgrid(*(np.linspace(-1, 1, extent) for extent in target_shape), indexing="ij")
    return np.einsum("nij,jhw->nihw", data, np.stack([x, y, np.ones_like(x)])).astype(data.dtype)


def pool_grad_nchw(
    a_np: Any,
    out_grad_np: Any,
    pool_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    pool_type: str,
    ceil_mode: bool,
    count_include_pad: bool = True,
) -> Any:
    """The gradient of pooling (N, C, H, W): each result's to its greatest element (the first), or to all of its window alike.
    padding: top, left, bottom, right."""
    del ceil_mode  # out_grad_np has the shape
    top, left, bottom, right = padding
    data = np.pad(
        a_np, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=-np.inf if pool_type == "max" else 0
    )
    inside = np.pad(np.ones(a_np.shape[2:]), ((top, bottom), (left, right)), constant_values=int(count_include_pad))
    result = np.zeros_like(data)
    for n, c, i, j in np.ndindex(*out_grad_np.shape):
        rows, columns = (
            slice(at * step, at * step + size) for at, step, size in zip((i, j), strides, pool_size, strict=True)
        )
        window = data[n, c, rows, columns]
        if pool_type == "max":
            y, x = np.unravel_index(int(window.argmax()), window.shape)
            result[n, c, rows, columns][y, x] += out_grad_np[n, c, i, j]
        else:
            result[n, c, rows, columns] += out_grad_np[n, c, i, j] / max(inside[rows, columns].sum(), 1)
    return result[:, :, top : top + a_np.shape[2], left : left + a_np.shape[3]]
