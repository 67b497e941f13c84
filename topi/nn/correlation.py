"""The correlation of two images' neighbourhoods (FlowNet; A. Dosovitskiy et al., 2015)."""

from __future__ import annotations

from typing import Any

from ...te import polymorphic as te
from ...te.tensor import Tensor
from ..matmul import sum_dtype
from ..signatures import Positive
from .convolutions import check_rank, tap_count
from .window import Padding, pad_amounts, padded

__all__ = ["correlation_nchw"]


def correlation_nchw(
    data1: Tensor,
    data2: Tensor,
    kernel_size: int,
    max_displacement: int,
    stride1: Positive,
    stride2: Positive,
    padding: Padding,
    is_multiply: bool = True,
) -> Tensor:
    """The correlation of two images' neighbourhoods: of each displacement the mean, over channels and windows, of the
    products of data1 and data2 moved by it.

    Parameters
    ----------
    data1 : Tensor
        (N, C, H, W).
    data2 : Tensor
        (N, C, H, W).
    kernel_size : int
        Height and width of a window.
    max_displacement : int
        How many rows and columns data2 is moved by, at most, in each direction.
    stride1 : int
        Steps between windows.
    stride2 : int
        Steps between displacements.
    padding : int, sequence of int or str
        Zeros around both images, as conv2d takes them.
    is_multiply : bool, default True
        Whether products are averaged; otherwise the absolute differences.

    Returns
    -------
    Tensor
        (N, displacements, height, width) in the dtype of data1; displacements run by rows, then columns.

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    check_rank(data1, 4, "NCHW")
    check_rank(data2, 4, "NCHW")
    pads = pad_amounts(padding, (kernel_size, kernel_size))
    first, second = padded(data1, pads, (2, 3)), padded(data2, pads, (2, 3))
    # windows begin where every displacement stays inside
    border, radius = max_displacement + (kernel_size - 1) // 2, max_displacement // stride2
    across, channels = 2 * radius + 1, tap_count(data1.shape[1])  # displacements from -radius to radius
    # rounded up: a last window may begin within the border
    size = [te.indexdiv(extent - 2 * border + stride1 - 1, stride1) for extent in first.shape[2:]]
    wide = sum_dtype(data1.dtype)
    axes = [
        te.reduce_axis((0, extent), name)
        for extent, name in ((channels, "c"), (kernel_size, "ky"), (kernel_size, "kx"))
    ]

    def together(n: Any, q: Any, y: Any, x: Any) -> Any:
        c, *taps = axes
        here = [index * stride1 + max_displacement + tap for index, tap in zip((y, x), taps, strict=True)]
        moved = [
            place + (part - radius) * stride2  # rows of displacements before columns
            for place, part in zip(here, (te.indexdiv(q, across), te.indexmod(q, across)), strict=True)
        ]
        one, other = (value.astype(wide) for value in (first[(n, c, *here)], second[(n, c, *moved)]))
        return te.sum(one * other if is_multiply else te.abs(one - other), axis=axes)

    sums = te.compute((data1.shape[0], across * across, *size), together, name="correlation_sum")
    count = te.const(kernel_size * kernel_size * channels, sums.dtype)  # a mean, over the window and the channels
    return te.compute(sums.shape, lambda *i: (sums[i] / count).astype(data1.dtype), name="correlation", tag="elemwise")
