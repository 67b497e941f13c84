"""Pooling over windows of one to three dimensions, channels first; stride, padding and dilation as of convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import topi
from ...te import polymorphic as te
from ..channel_blocks import IMAGE_POOL
from ..references import dtype_bound
from ..row import floating, operator, sample
from .pool import sum_pool
from .spatial import spatial, strided_windows, surround


def _more(size: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> tuple[int, ...]:
    """Padding after each dimension for the windows that begin within the image or the padding before it."""
    rank = len(kernel)
    if not ceil_mode:
        return tuple(padding[rank:])
    after: list[int] = []
    for d in range(rank):
        reach = (kernel[d] - 1) * dilation[d] + 1
        extent = size[d]
        count = -(-(extent + padding[d] + padding[rank + d] - reach) // stride[d]) + 1
        count -= (count - 1) * stride[d] >= extent + padding[d]  # a window that would begin behind the data is left out
        after.append(max(padding[rank + d], (count - 1) * stride[d] + reach - extent - padding[d]))
    return tuple(after)


def _pool_windows(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, value: Any) -> Any:
    stride, padding, dilation = spatial(len(kernel), stride, padding, dilation)
    after = _more(x.shape[-len(kernel) :], kernel, stride, padding, dilation, ceil_mode)
    return strided_windows(surround(x, (*padding[: len(kernel)], *after), value), kernel, stride, dilation)


def _taps(kernel: Any) -> tuple[int, ...]:
    return tuple(range(-len(kernel), 0))


def _numpy_max_pool(x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    return _pool_windows(x, kernel, stride, padding, dilation, ceil_mode, dtype_bound(x.dtype, False)).max(
        _taps(kernel)
    )


@operator(
    "max_pool",
    reference=_numpy_max_pool,
    alternatives={"blocks": IMAGE_POOL},
    samples=[
        sample(floating(2, 3, 6, 5, 4), kernel=(3, 2, 1), stride=(2, 1, 1), padding=(1, 0, 0, 0, 1, 0)),
        sample(floating(2, 3, 8), kernel=(3,), stride=(2,), padding=(1, 1), ceil_mode=True),
        sample(floating(1, 2, 7, 8), kernel=(3, 2), stride=(2, 3), padding=(1, 0, 1, 1)),
        sample(floating(1, 2, 5, 6, 7), kernel=(2, 3, 2), dilation=(2, 1, 3)),
    ],
)
def _max_pool(
    x: Any, *, kernel: Any, stride: Any = (), padding: Any = (), dilation: Any = (), ceil_mode: bool = False
) -> Any:
    """The greatest element of each window. ceil_mode: windows may end beyond the padding."""
    return _pool(x, kernel, stride, padding, dilation, ceil_mode, "max", True)


def _numpy_avg_pool(
    x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, count_padding: bool
) -> Any:
    windows = _pool_windows(x.astype(np.float64), kernel, stride, padding, dilation, ceil_mode, 0)
    ones = np.ones(x.shape)
    if count_padding:
        rank = len(kernel)
        step, pads, far = spatial(rank, stride, padding, dilation)
        beyond = [
            high - low
            for high, low in zip(_more(x.shape[-rank:], kernel, step, pads, far, ceil_mode), pads[rank:], strict=True)
        ]
        # padding counts, what ceil mode adds beyond does not
        counted = surround(surround(ones, pads, 1), (*[0] * rank, *beyond), 0)
        counts = strided_windows(counted, kernel, step, far)
    else:
        counts = _pool_windows(ones, kernel, stride, padding, dilation, ceil_mode, 0)
    return windows.sum(_taps(kernel)) / np.maximum(counts.sum(_taps(kernel)), 1)  # 1 where a window covers nothing


@operator(
    "avg_pool",
    reference=_numpy_avg_pool,
    alternatives={"blocks": IMAGE_POOL},
    samples=[
        sample(floating(2, 3, 8), kernel=(3,), stride=(2,), padding=(1, 1), ceil_mode=True),
        sample(floating(1, 2, 7, 8), kernel=(3, 2), stride=(2, 3), padding=(1, 0, 1, 1)),
        sample(
            floating(1, 2, 7, 8), kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1), count_padding=True, ceil_mode=True
        ),
    ],
)
def _avg_pool(
    x: Any,
    *,
    kernel: Any,
    stride: Any = (),
    padding: Any = (),
    dilation: Any = (),
    ceil_mode: bool = False,
    count_padding: bool = False,
) -> Any:
    """The mean of each window. count_padding: padding counts as zeros; what lies beyond it never counts."""
    return _pool(x, kernel, stride, padding, dilation, ceil_mode, "avg", count_padding)


def _pool(
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    kind: str,
    count_padding: bool,
) -> Any:
    rank = x.ndim - 2
    if rank not in (1, 2, 3) or len(kernel) != rank:
        raise ValueError(f"pooling runs over one to three dimensions, not {rank} by windows of {len(kernel)}")
    stride, padding, dilation = spatial(rank, stride, padding, dilation)
    if rank == 1:
        return topi.nn.pool1d(x, kernel, stride, dilation, padding, kind, ceil_mode, "NCW", count_padding)
    if rank == 2:
        return topi.nn.pool2d(x, kernel, stride, dilation, padding, kind, ceil_mode, "NCHW", count_padding)
    if (kernel[2], stride[2], padding[2], padding[5]) == (1, 1, 0, 0):  # channels, or blocks of them, that lie last
        flat = (*padding[:2], *padding[3:5])
        return topi.nn.pool2d(x, kernel[:2], stride[:2], dilation[:2], flat, kind, ceil_mode, "NCHWX", count_padding)
    return topi.nn.pool3d(x, kernel, stride, dilation, padding, kind, ceil_mode, "NCDHW", count_padding)


def _numpy_adaptive_pool(x: Any, *, size: Any, kind: str) -> Any:
    """Pool along one dimension after another: a mean of means of windows that are alike is their mean."""
    result = x if kind == "max" else x.astype(np.float64)
    for at, count in enumerate(size, result.ndim - len(size)):
        extent = result.shape[at]
        parts = [result.take(range(i * extent // count, -(-(i + 1) * extent // count)), at) for i in range(count)]
        result = np.stack([part.max(at) if kind == "max" else part.mean(at) for part in parts], at)
    return result


@operator(
    "adaptive_pool",
    reference=_numpy_adaptive_pool,
    samples=[
        sample(floating(2, 3, 8), size=(3,)),
        sample(floating(1, 2, 7, 8), size=(3, 5), kind="max"),
        sample(floating(1, 2, 5, 6, 7), size=(2, 3, 1)),
    ],
)
def _adaptive_pool(x: Any, *, size: Any, kind: str = "avg") -> Any:
    """The mean or the greatest element ("max") of windows that cover the image, as adaptive_pool has them."""
    pool = {3: topi.nn.adaptive_pool1d, 4: topi.nn.adaptive_pool, 5: topi.nn.adaptive_pool3d}.get(x.ndim)
    if pool is None or len(size) != x.ndim - 2:
        raise ValueError(f"windows cover one to three dimensions behind the channels, not {size} of {x.ndim}")
    return pool(x, size, kind)


def _numpy_lp_pool(x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, p: int) -> Any:
    windows = _pool_windows(np.abs(x.astype(np.float64)) ** p, kernel, stride, padding, dilation, ceil_mode, 0)
    return windows.sum(_taps(kernel)) ** (1 / p)


@operator(
    "lp_pool",
    reference=_numpy_lp_pool,
    samples=[
        sample(floating(2, 3, 8), kernel=(3,), stride=(2,), padding=(1, 1), ceil_mode=True),
        sample(floating(1, 2, 7, 8), kernel=(3, 2), stride=(2, 3), padding=(1, 0, 1, 1)),
    ],
)
def _lp_pool(
    x: Any,
    *,
    kernel: Any,
    stride: Any = (),
    padding: Any = (),
    dilation: Any = (),
    ceil_mode: bool = False,
    p: int = 2,
) -> Any:
    """The p-norm of each window."""
    stride, padding, dilation = spatial(len(kernel), stride, padding, dilation)

    def power(*i: Any) -> Any:
        value = te.abs(x[i])
        # p of 1 and 2 need no power function
        return value if p == 1 else value * value if p == 2 else te.pow(value, te.const(p, x.dtype))

    powers = te.compute(x.shape, power, name="lp_powers", tag="elemwise")
    sums = sum_pool(powers, range(2, x.ndim), kernel, stride, dilation, padding, ceil_mode)
    if p == 1:
        return sums
    return te.compute(
        sums.shape,
        lambda *i: te.sqrt(sums[i]) if p == 2 else te.pow(sums[i], te.const(1 / p, x.dtype)),
        name="lp_pool",
        tag="elemwise",
    )
