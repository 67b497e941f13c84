"""Gradients of poolings by the images that were pooled."""

from __future__ import annotations

from ... import te
from ...te.tensor import Tensor
from ..checks import tensor
from .pool import global_pool, pool2d
from .window import Padding, Sizes

__all__ = ["global_pool_grad", "pool_grad"]


def pool_grad(
    grads: Tensor,
    data: Tensor,
    kernel: Sizes,
    stride: Sizes | None,
    padding: Padding,
    pool_type: str,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCHW",
) -> Tensor:
    """The gradient of pool2d by its data, by te.gradient.

    Parameters
    ----------
    grads : Tensor
        The gradient by the result, in its shape.
    data : Tensor
        What was pooled, in the given layout.
    kernel : int or sequence of int
        The extents of a window: a number, or one for height and one for width.
    stride : int, sequence of int or None
        Steps between windows; those of the kernel where it is None.
    padding : int, sequence of int or str
        Rows and columns around the data: a number, a pair, or (top, left, bottom, right).
    pool_type : str
        "max" or "avg".
    ceil_mode : bool, default False
        As of pool2d.
    count_include_pad : bool, default True
        As of pool2d.
    layout : str, default "NCHW"
        Where height and width are: "NCHW", "NHWC", "CHW" ...

    Returns
    -------
    Tensor
        The shape and the dtype of data.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    BadGradient (TW0170)
        A gradient of another shape.
    """
    return _differentiate(
        pool2d(data, kernel, stride, 1, padding, pool_type, ceil_mode, layout, count_include_pad), grads, data
    )


def global_pool_grad(grads: Tensor, data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The gradient of global_pool by its data, by te.gradient.

    Parameters
    ----------
    grads : Tensor
        The gradient by the result, in its shape.
    data : Tensor
        What was pooled, in the given layout.
    pool_type : str
        "max" or "avg".
    layout : str, default "NCHW"
        Where height and width are: "NCHW", "NHWC", "CHW" ...

    Returns
    -------
    Tensor
        The shape and the dtype of data.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    BadGradient (TW0170)
        A gradient of another shape.
    """
    return _differentiate(global_pool(data, pool_type, layout), grads, data)


def _differentiate(pooled: Tensor, grads: Tensor, data: Tensor) -> Tensor:
    # the head is what comes from behind, in the shape of the result
    (found,) = te.gradient(pooled, [data], head=tensor(grads, "pool_grad"))
    return found
