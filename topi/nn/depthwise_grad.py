"""Gradients of a depthwise convolution by its data and by its kernel."""

from __future__ import annotations

from typing import Any

from ... import te
from ...te.tensor import Tensor
from ..checks import tensor
from .depthwise import depthwise_conv2d_nhwc

__all__ = ["depthwise_conv2d_backward_input_nhwc", "depthwise_conv2d_backward_weight_nhwc"]


def depthwise_conv2d_backward_input_nhwc(
    Filter: Tensor,
    Out_grad: Tensor,
    oshape: Any,
    ishape: Any,
    stride: Any,
    padding: Any,
) -> Tensor:
    """The gradient by the data, of shape ishape (N, H, W, C), where that by the result is Out_grad, of shape oshape, and the kernel
    is Filter (KH, KW, C, M): by te.gradient. Raises BadConvolution (TW0191), BadWindow (TW0190), BadGradient (TW0170)."""
    del oshape
    kernel = tensor(Filter, "the kernel of a depthwise convolution", 4)
    data = te.placeholder(ishape, str(kernel.dtype), name="data")
    return _differentiate(depthwise_conv2d_nhwc(data, kernel, stride, padding), Out_grad, data)


def depthwise_conv2d_backward_weight_nhwc(
    Input: Tensor,
    Out_grad: Tensor,
    oshape: Any,
    fshape: Any,
    stride: Any,
    padding: Any,
) -> Tensor:
    """The gradient by the kernel, of shape fshape (KH, KW, C, M), where that by the result is Out_grad, of shape oshape, and the
    data are Input (N, H, W, C): by te.gradient. Raises BadConvolution (TW0191), BadWindow (TW0190), BadGradient (TW0170)."""
    del oshape
    data = tensor(Input, "a depthwise convolution", 4)
    kernel = te.placeholder(fshape, str(data.dtype), name="kernel")
    return _differentiate(depthwise_conv2d_nhwc(data, kernel, stride, padding), Out_grad, kernel)


def _differentiate(result: Tensor, grads: Tensor, by: Tensor) -> Tensor:
    (found,) = te.gradient(result, [by], head=tensor(grads, "a gradient of a depthwise convolution", 4))
    return found
