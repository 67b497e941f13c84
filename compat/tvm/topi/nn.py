"""topi.nn: operators of networks with TVM's arguments."""

from __future__ import annotations

from typing import Any

from ....te import Tensor
from ....topi import nn as _ours
from ....topi.matmul import batch_matmul as _batch_matmul
from ....topi.matmul import matmul as _matmul

__all__ = ["batch_matmul", "conv2d", "fast_softmax", "instance_norm", "layer_norm", "matmul"]


def __getattr__(name: str) -> Any:
    return getattr(_ours, name)


def conv2d(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, data_layout: str = "NCHW", kernel_layout: str = "",
    out_dtype: Any = None, layout: str = "",
) -> Tensor:
    """The convolution; kernel_layout is the one that goes with data_layout, OIHW or HWIO."""
    chosen = layout or data_layout
    wanted = {"NCHW": "OIHW", "NHWC": "HWIO"}.get(chosen, "")
    if kernel_layout and wanted and kernel_layout != wanted:
        raise ValueError(f"conv2d of {chosen} data takes a kernel in {wanted}, and got {kernel_layout}: transpose it")
    return _ours.conv2d(data, kernel, strides, padding, dilation, 1, chosen, out_dtype or None)


def batch_matmul(
    tensor_a: Tensor, tensor_b: Tensor, oshape: Any = None, out_dtype: Any = None, transpose_a: bool = False,
    transpose_b: bool = True, auto_scheduler_rewritten_layout: str = "",
) -> Tensor:
    """The products of two batches of matrices, the second ones taken transposed; the result's shape follows."""
    del oshape, auto_scheduler_rewritten_layout
    return _batch_matmul(tensor_a, tensor_b, out_dtype or None, transpose_a, transpose_b)


def matmul(
    tensor_a: Tensor, tensor_b: Tensor, bias: Tensor | None = None, out_dtype: Any = None, transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """The product of two matrices, plus a bias for each column."""
    made = _matmul(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype or None)
    return made if bias is None else made + bias


def fast_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """softmax."""
    return _ours.softmax(x, axis)


def layer_norm(data: Tensor, gamma: Tensor, beta: Tensor, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Normalisation over `axis`."""
    return _ours.layer_norm(data, gamma, beta, axis, epsilon)


def instance_norm(data: Tensor, gamma: Tensor, beta: Tensor, channel_axis: int, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Normalisation of every channel of every instance."""
    return _ours.instance_norm(data, gamma, beta, channel_axis, axis, epsilon)
