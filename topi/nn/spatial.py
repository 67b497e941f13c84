"""Convolutions over one to three dimensions, channels first.

stride, dilation: a number for each dimension, () for ones. padding: before each dimension, then after each, () for none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ... import topi
from ...ir import ops
from ...te.shape import same_extent
from ...te.tensor import Tensor
from ..alternatives import Algorithm
from ..channel_blocks import IMAGE_CONVOLUTION, TRANSPOSED
from ..references import wide
from ..row import floating, operator, sample
from .conv2d import saves_by_winograd, winograd_way
from .convolutions import transposed_operands


def spatial(
    rank: int, stride: Any, padding: Any, dilation: Any
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Stride, padding and dilation for so many dimensions. Raises ValueError where they are of another number."""
    whole = (tuple(stride) or (1,) * rank, tuple(padding) or (0,) * 2 * rank, tuple(dilation) or (1,) * rank)
    if tuple(map(len, whole)) != (rank, 2 * rank, rank):
        raise ValueError(
            f"stride {stride}, padding {padding} and dilation {dilation} are not those of {rank} dimensions"
        )
    return whole


def surround(x: Any, padding: Any, value: Any) -> Any:
    """An array with `value` around its last dimensions."""
    rank = len(padding) // 2
    return np.pad(
        x, [(0, 0)] * (x.ndim - rank) + list(zip(padding[:rank], padding[rank:], strict=True)), constant_values=value
    )


def strided_windows(x: Any, reach: Any, stride: Any, dilation: Any) -> Any:
    """The windows over the last dimensions of an array, as its last dimensions; none where it has less than one."""
    rank = len(reach)
    sizes = [(taps - 1) * far + 1 for taps, far in zip(reach, dilation, strict=True)]
    room = [extent - size for extent, size in zip(x.shape[x.ndim - rank :], sizes, strict=True)]
    if min(room) < 0:
        counts = [max(more // step + 1, 0) for more, step in zip(room, stride, strict=True)]
        return np.empty((*x.shape[: x.ndim - rank], *counts, *reach), x.dtype)
    windows = sliding_window_view(x, sizes, tuple(range(x.ndim - rank, x.ndim)))
    return windows[(..., *(slice(None, None, step) for step in stride), *(slice(None, None, far) for far in dilation))]


def _wide_but_bias(function: Callable[..., Any]) -> Callable[..., Any]:
    """The reference made wide, of which the bias may be absent."""

    def computed(x: Any, w: Any, bias: Any = None, **attributes: Any) -> Any:
        return wide(function)(x, w, *([] if bias is None else [bias]), **attributes)

    return computed


def _numpy_conv(x: Any, w: Any, bias: Any = None, *, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    rank = x.ndim - 2
    stride, padding, dilation = spatial(rank, stride, padding, dilation)
    windows = strided_windows(surround(x, padding, 0), w.shape[2:], stride, dilation)
    taps = "xyz"[:rank]
    parts = [
        np.einsum(f"ncABC{taps},oc{taps}->noABC".replace("ABC", "ABC"[:rank]), part, weight, optimize=True)
        for part, weight in zip(np.split(windows, groups, 1), np.split(w, groups, 0), strict=True)
    ]
    result = np.concatenate(parts, 1)
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


def _find_winograd(
    x: Any, w: Any, bias: Any = None, *, stride: Any = (), padding: Any = (), dilation: Any = (), groups: int = 1
) -> partial[Tensor] | None:
    """The convolution of images by Winograd's algorithm."""
    if x.ndim != 4 or not saves_by_winograd(x, w):
        return None
    stride, padding, dilation = spatial(2, stride, padding, dilation)
    way = winograd_way(x, w, stride, padding, dilation, groups)
    return None if way is None else partial(_convolution, x, w, bias, stride, padding, dilation, groups, "winograd")


@operator(
    "conv",
    reference=_wide_but_bias(_numpy_conv),
    alternatives={"blocks": IMAGE_CONVOLUTION, "winograd": Algorithm(_find_winograd)},
    samples=[
        sample(floating(1, 2, 9), floating(3, 2, 3), floating(3), stride=(2,), padding=(1, 0), dilation=(2,)),
        sample(floating(2, 3, 7, 9), floating(16, 3, 3, 3), floating(16), padding=(1, 0, 1, 2)),
        sample(floating(1, 4, 7, 7), floating(6, 2, 3, 1), groups=2, stride=(2, 1)),
        sample(floating(1, 4, 7, 7), floating(8, 1, 3, 3), floating(8), groups=4, padding=(1, 1, 1, 1)),
        sample(floating(1, 2, 4, 5, 6), floating(3, 2, 2, 3, 1), floating(3)),
    ],
)
def _conv(
    x: Any, w: Any, bias: Any = None, *, stride: Any = (), padding: Any = (), dilation: Any = (), groups: int = 1
) -> Any:
    """x (N, C, ...) with w (O, C / groups, ...) and bias (O,): (N, O, ...)."""
    return _convolution(x, w, bias, stride, padding, dilation, groups)


def _convolution(
    x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int, algorithm: str = "direct"
) -> Any:
    rank = x.ndim - 2
    stride, padding, dilation = spatial(rank, stride, padding, dilation)
    if rank == 1:
        result = topi.nn.conv1d(x, w, stride, padding, dilation, groups)
    elif (
        rank == 2
        and groups > 1
        and same_extent(x.shape[1], ops.convert(groups))
        and same_extent(w.shape[1], ops.convert(1))
    ):
        result = topi.nn.depthwise_conv2d(x, w, stride, padding, dilation)
    elif rank == 2:
        result = topi.nn.conv2d(x, w, stride, padding, dilation, groups, algorithm=algorithm)
    elif rank == 3:
        result = topi.nn.conv3d_ncdhw(x, w, stride, padding, dilation, groups)
    else:
        raise ValueError(f"convolutions run over one to three dimensions, not {rank}")
    return result if bias is None else topi.nn.bias_add(result, bias, 1)


def _numpy_conv_transpose(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    output_padding: Any,
) -> Any:
    rank = x.ndim - 2
    stride, padding, dilation = spatial(rank, stride, padding, dilation)
    more = tuple(output_padding) or (0,) * rank
    reach = w.shape[2:]
    size = [
        (extent - 1) * step + (taps - 1) * far + 1 + extra
        for extent, step, taps, far, extra in zip(x.shape[2:], stride, reach, dilation, more, strict=True)
    ]
    beyond = [extent + max(0, -high) for extent, high in zip(size, padding[rank:], strict=True)]
    whole = np.zeros((x.shape[0], w.shape[1] * groups, *beyond), x.dtype)
    weights = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    data = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    for tap in itertools.product(*map(range, reach)):
        part = np.einsum("ngc...,gco->ngo...", data, weights[(..., *tap)])
        place = tuple(
            slice(at * far, at * far + (extent - 1) * step + 1, step)
            for at, far, extent, step in zip(tap, dilation, x.shape[2:], stride, strict=True)
        )
        whole[(..., *place)] += part.reshape(x.shape[0], part.shape[1] * part.shape[2], *x.shape[2:])
    inside = (slice(low, extent - high) for low, high, extent in zip(padding[:rank], padding[rank:], size, strict=True))
    result = whole[(..., *inside)]
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


def _find_transposed_winograd(x: Any, w: Any, bias: Any = None, **attributes: Any) -> partial[Tensor] | None:
    """The transposed convolution of images by Winograd's algorithm."""
    asked: dict[str, Any] = {
        "stride": (),
        "padding": (),
        "dilation": (),
        "groups": 1,
        "output_padding": (),
        **attributes,
    }
    stride, padding, dilation = spatial(x.ndim - 2, asked["stride"], asked["padding"], asked["dilation"])
    # zeros between elements are left out of a sum, and would be multiplied
    if x.ndim != 4 or stride != (1, 1):
        return None
    more, groups = tuple(asked["output_padding"]) or (0, 0), asked["groups"]
    image, kernel = transposed_operands(x, w, stride, padding, dilation, more, groups)
    way = winograd_way(image, kernel, stride, 0, dilation, groups) if saves_by_winograd(image, kernel) else None
    return None if way is None else partial(_conv_transpose, x, w, bias, algorithm="winograd", **asked)


@operator(
    "conv_transpose",
    reference=_wide_but_bias(_numpy_conv_transpose),
    attributes={name: name for name in ("stride", "padding", "dilation", "groups", "output_padding")},
    alternatives={"blocks": TRANSPOSED, "winograd": Algorithm(_find_transposed_winograd)},
    samples=[
        sample(floating(1, 2, 5), floating(2, 3, 3), floating(3), stride=(2,), padding=(1, 0), output_padding=(1,)),
        sample(floating(1, 4, 3, 4), floating(4, 2, 3, 2), groups=2, dilation=(2, 1), stride=(1, 3)),
        sample(floating(1, 2, 2, 3, 2), floating(2, 1, 2, 2, 2), stride=(2, 1, 2)),
        sample(floating(1, 3, 6, 7), floating(3, 16, 3, 3), floating(16), padding=(1, 1, 1, 0)),
    ],
)
def _conv_transpose(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: Any = (),
    padding: Any = (),
    dilation: Any = (),
    groups: int = 1,
    output_padding: Any = (),
    algorithm: str = "direct",
) -> Any:
    """The gradient of a convolution towards its data, of x (N, C, ...) with w (C, O / groups, ...): a convolution of x with zeros
    between its elements. padding is taken away from the result, output_padding is added at its ends."""
    rank = x.ndim - 2
    stride, padding, dilation = spatial(rank, stride, padding, dilation)
    more = tuple(output_padding) or (0,) * rank
    image, kernel = transposed_operands(x, w, stride, padding, dilation, more, groups)
    return _convolution(image, kernel, bias, (), (), dilation, groups, algorithm)
