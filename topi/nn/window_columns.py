"""Windows as columns, columns as images, and pooling that tells places; stride, padding and dilation as of convolutions."""

from __future__ import annotations

from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ... import topi
from ...ir import ops
from ..references import dtype_bound
from ..row import floating, integers, operator, sample
from .spatial import spatial, strided_windows, surround


def _columns(x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    rank = len(kernel)
    stride, padding, dilation = spatial(rank, stride, padding, dilation)
    windows = strided_windows(surround(x, padding, 0), kernel, stride, dilation)
    moved = windows.transpose(0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    return moved.reshape(x.shape[0], x.shape[1] * prod(kernel), prod(windows.shape[2 : 2 + rank]))


@operator(
    "im2col",
    reference=_columns,
    fusion="injective",
    samples=[
        sample(floating(2, 3, 7, 9), kernel=(3, 2), stride=(2, 1), padding=(1, 0, 0, 2), dilation=(1, 2)),
        sample(floating(1, 2, 9), kernel=(3,)),
    ],
)
def _im2col(x: Any, *, kernel: Any, stride: Any = (), padding: Any = (), dilation: Any = ()) -> Any:
    """The windows of x (N, C, ...) as columns (N, C * taps, windows)."""
    return topi.nn.im2col(x, kernel, *spatial(len(kernel), stride, padding, dilation))


def _numpy_col2im(x: Any, *, image: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    rank = len(kernel)
    stride, padding, dilation = spatial(rank, stride, padding, dilation)
    whole = np.zeros(
        (
            x.shape[0],
            x.shape[1] // prod(kernel),
            *(extent + padding[at] + padding[rank + at] for at, extent in enumerate(image)),
        ),
        np.float64,
    )
    numbers = np.arange(prod(whole.shape[2:])).reshape(1, 1, *whole.shape[2:])
    rows = strided_windows(numbers, kernel, stride, dilation)
    places = rows.transpose(0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank)).reshape(prod(kernel), -1)
    flat = whole.reshape(*whole.shape[:2], prod(whole.shape[2:]))
    for n, c in np.ndindex(*whole.shape[:2]):
        np.add.at(flat[n, c], places, x[n, c * prod(kernel) : (c + 1) * prod(kernel)])
    return whole[(..., *(slice(padding[at], padding[at] + extent) for at, extent in enumerate(image)))]


@operator(
    "col2im",
    reference=_numpy_col2im,
    samples=[
        sample(floating(2, 18, 27), image=(7, 9), kernel=(3, 2), stride=(2, 1), padding=(1, 0, 0, 2), dilation=(1, 2)),
        sample(floating(1, 8, 6), image=(3, 4), kernel=(2, 2)),
    ],
)
def _col2im(x: Any, *, image: Any, kernel: Any, stride: Any = (), padding: Any = (), dilation: Any = ()) -> Any:
    """Columns (N, C * taps, windows) added up where they lie in images (N, C, *image)."""
    return topi.nn.col2im(
        x, [ops.convert(extent) for extent in image], kernel, *spatial(len(kernel), stride, padding, dilation)
    )


def _numpy_max_pool(x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    rank = len(kernel)
    stride, padding, dilation = spatial(rank, stride, padding, dilation)
    numbers = np.arange(prod(x.shape[2:])).reshape(1, 1, *x.shape[2:])
    values, places = (
        strided_windows(surround(one, padding, outside), kernel, stride, dilation)
        for one, outside in ((x, dtype_bound(x.dtype, False)), (numbers, -1))
    )
    flat = values.reshape(*values.shape[: 2 + rank], prod(kernel))
    where: Any = np.broadcast_to(places, values.shape).reshape(flat.shape)
    inside = where >= 0
    greatest = cast("NDArray[Any]", np.where(inside, flat, dtype_bound(x.dtype, False))).max(-1, keepdims=True)
    nan = np.isnan(flat) & np.isnan(greatest) if flat.dtype.kind == "f" else np.False_
    best: Any = np.argmax(inside & ((flat == greatest) | nan), -1, keepdims=True)  # padding is none of the greatest
    return np.take_along_axis(flat, best, -1)[..., 0], np.take_along_axis(where, best, -1)[..., 0]


@operator(
    "max_pool_with_places",
    reference=_numpy_max_pool,
    samples=[
        sample(floating(1, 2, 7, 8), kernel=(3, 2), stride=(2, 3), padding=(1, 0, 1, 1)),
        sample(integers(1, 2, 5, 3, 4), kernel=(2, 1, 3), dilation=(1, 1, 1)),
    ],
)
def _max_pool_pairs(x: Any, *, kernel: Any, stride: Any = (), padding: Any = (), dilation: Any = ()) -> Any:
    """The greatest element of each window, and its place among those of its channel, int64, in row-major order: the first of
    several."""
    stride, padding, dilation = spatial(len(kernel), stride, padding, dilation)
    return topi.nn.max_pool_with_places(x, kernel, stride, dilation, padding)
