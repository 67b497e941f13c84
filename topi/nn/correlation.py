"""The correlation of two images' neighbourhoods (FlowNet; A. Dosovitskiy et al., 2015)."""

from __future__ import annotations

from typing import Any

from ...te import either as te
from ...te.tensor import Tensor
from ..half_precision import sum_dtype
from ..signatures import Positive
from .convolutions import check_rank, tap_count
from .window import pad_amounts, padded

__all__ = ["correlation_nchw"]


def correlation_nchw(
    data1: Tensor,
    data2: Tensor,
    kernel_size: int,
    max_displacement: int,
    stride1: Positive,
    stride2: Positive,
    padding: Any,
    is_multiply: bool = True,
) -> Tensor:
    """The mean over channels and windows of kernel_size of the products (or else distances) of data1 (N, C, H, W) and data2 moved
    by each displacement: up to max_displacement by steps of stride2, rows before columns, (N, displacements, height, width) in
    their dtype. stride1: between windows. padding: as of conv2d, zeros around both. Raises BadConvolution (TW0191), BadWindow
    (TW0190)."""
    check_rank(data1, 4, "NCHW")
    check_rank(data2, 4, "NCHW")
    pads = pad_amounts(padding, (kernel_size, kernel_size))
    first, second = padded(data1, pads, (2, 3)), padded(data2, pads, (2, 3))
    border, radius = max_displacement + (kernel_size - 1) // 2, max_displacement // stride2
    across, channels = 2 * radius + 1, tap_count(data1.shape[1])
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
            place + (part - radius) * stride2
            for place, part in zip(here, (te.indexdiv(q, across), te.indexmod(q, across)), strict=True)
        ]
        one, other = (value.astype(wide) for value in (first[(n, c, *here)], second[(n, c, *moved)]))
        return te.sum(one * other if is_multiply else te.abs(one - other), axis=axes)

    sums = te.compute((data1.shape[0], across * across, *size), together, name="correlation_sum")
    count = te.const(kernel_size * kernel_size * channels, sums.dtype)
    return te.compute(sums.shape, lambda *i: (sums[i] / count).astype(data1.dtype), name="correlation", tag="elemwise")
