"""Gradients of a depthwise convolution by its data and by its kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import te
from ...te.tensor import Tensor
from ..checks import tensor
from .depthwise import depthwise_conv2d_nhwc
from .window import Padding, Sizes

__all__ = ["depthwise_conv2d_backward_input_nhwc", "depthwise_conv2d_backward_weight_nhwc"]


def depthwise_conv2d_backward_input_nhwc(
    Filter: Tensor,
    Out_grad: Tensor,
    oshape: Sequence[Any],
    ishape: Sequence[Any],
    stride: Sizes,
    padding: Padding,
) -> Tensor:
    """The gradient of a depthwise convolution by its data, by te.gradient.

    Parameters
    ----------
    Filter : Tensor
        The kernel, (KH, KW, C, M).
    Out_grad : Tensor
        The gradient by the result, (N, OH, OW, C * M).
    oshape : sequence of numbers
        The shape of Out_grad, as TVM's callers pass it.
    ishape : sequence of numbers
        The shape of the data, (N, H, W, C).
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".

    Returns
    -------
    Tensor
        (N, H, W, C).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    BadGradient (TW0170)
        A gradient of another shape.
    """
    del oshape  # TVM passes the shape of the gradient, which has one
    kernel = tensor(Filter, "the kernel of a depthwise convolution", 4)
    # a gradient is taken by a tensor, whose contents do not matter
    data = te.placeholder(ishape, str(kernel.dtype), name="data")
    return _differentiate(depthwise_conv2d_nhwc(data, kernel, stride, padding), Out_grad, data)


def depthwise_conv2d_backward_weight_nhwc(
    Input: Tensor,
    Out_grad: Tensor,
    oshape: Sequence[Any],
    fshape: Sequence[Any],
    stride: Sizes,
    padding: Padding,
) -> Tensor:
    """The gradient of a depthwise convolution by its kernel, by te.gradient.

    Parameters
    ----------
    Input : Tensor
        The data, (N, H, W, C).
    Out_grad : Tensor
        The gradient by the result, (N, OH, OW, C * M).
    oshape : sequence of numbers
        The shape of Out_grad, as TVM's callers pass it.
    fshape : sequence of numbers
        The shape of the kernel, (KH, KW, C, M).
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".

    Returns
    -------
    Tensor
        (KH, KW, C, M).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    BadGradient (TW0170)
        A gradient of another shape.
    """
    del oshape
    data = tensor(Input, "a depthwise convolution", 4)
    kernel = te.placeholder(fshape, str(data.dtype), name="kernel")
    return _differentiate(depthwise_conv2d_nhwc(data, kernel, stride, padding), Out_grad, kernel)


def _differentiate(result: Tensor, grads: Tensor, by: Tensor) -> Tensor:
    (found,) = te.gradient(result, [by], head=tensor(grads, "a gradient of a depthwise convolution", 4))
    return found
