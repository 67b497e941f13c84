"""Values whose channels lie in blocks: (N, C, H, W) as (N, C / b, H, W, b)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import te, topi
from ...te.shape import same_extent
from ...te.tensor import Tensor
from ...topi.alternatives import Algorithm
from ...topi.nn.conv2d import saves_by_winograd, winograd_way
from ...topi.nn.convolutions import layout_windows, sum_windows, tap_count
from ...topi.nn.spatial import spatial
from ...topi.row import find_reference, floating, sample
from .row import operator

__all__: list[str] = []


def _numpy_convolution(x: Any, w: Any, **how: Any) -> Any:
    outputs, parts, *reach, part, lanes = w.shape
    kernel = w.transpose(0, 5, 1, 4, 2, 3).reshape(outputs * lanes, parts * part, *reach)
    # what fills the last block up takes no part
    return _convolve_channels(x, kernel, lanes, parts * part, how)


def _convolve_channels(x: Any, kernel: Any, lanes: int, channels: int, how: dict[str, Any]) -> Any:
    """The reference of conv, of the first channels of blocks, as blocks of so many lanes."""
    batch, chunks, *size, block = x.shape
    image = np.moveaxis(x, 4, 2).reshape(batch, chunks * block, *size)[:, :channels]
    result = find_reference("conv")(image, kernel, **how)
    return np.moveaxis(result.reshape(batch, len(kernel) // lanes, lanes, *result.shape[2:]), 2, 4)


def _find_winograd(
    x: Any, w: Any, *, stride: Any = (), padding: Any = (), dilation: Any = ()
) -> partial[Tensor] | None:
    """The convolution by Winograd's algorithm."""
    stride, padding, dilation = spatial(2, stride, padding, dilation)
    if not same_extent(x.shape[4], w.shape[4]) or not saves_by_winograd(x, w):
        return None
    return winograd_way(x, w, stride, padding, dilation, 1, "NCHWc")


@operator(
    "conv_in_blocks",
    _numpy_convolution,
    alternatives={"winograd": Algorithm(_find_winograd)},
    samples=[
        sample(floating(1, 2, 5, 7, 4), floating(3, 2, 3, 1, 4, 8), stride=(2, 1), padding=(1, 0, 0, 2)),
        sample(floating(2, 3, 6, 5, 1), floating(2, 3, 2, 3, 1, 16), dilation=(1, 2)),
        sample(floating(1, 2, 6, 5, 16), floating(2, 3, 3, 2, 8, 16), padding=(1, 0, 1, 1)),
    ],
)
def _conv_in_blocks(x: Any, w: Any, *, stride: Any = (), padding: Any = (), dilation: Any = ()) -> Any:
    """x (N, C / b, H, W, b) with w (O / o, C / c, KH, KW, c, o), c being b or a part of it: (N, O / o, H, W, o). What fills the
    last block of x up is not read."""
    stride, padding, dilation = spatial(2, stride, padding, dilation)
    if same_extent(x.shape[4], w.shape[4]):  # blocks of one size are what topi sums in
        return topi.nn.conv2d(x, w, stride, padding, dilation, layout="NCHWc")
    return _convolve_block_parts(x, w, stride, padding, dilation)


def _convolve_block_parts(x: Tensor, w: Tensor, stride: Any, padding: Any, dilation: Any) -> Tensor:
    chunks, block = x.shape[1], x.shape[4]
    outputs, parts, *reach, part, lanes = w.shape
    each, rest = divmod(tap_count(block), tap_count(part))  # a block of x holds several parts of the weights
    if rest or tap_count(parts) > tap_count(chunks) * each:
        raise ValueError(f"{parts} parts of {part} channels are not parts of {chunks} blocks of {block}")
    return sum_windows(
        x,
        "NCHWc",
        layout_windows(x, "NCHWc", reach, stride, padding, dilation),
        "IHWi",
        {"O": outputs, "I": parts, "H": reach[0], "W": reach[1], "i": part, "o": lanes},
        # the part within the block, and the channel within the part
        lambda _, k: {"C": te.indexdiv(k["I"], each), "c": te.indexmod(k["I"], each) * part + k["i"]},
        lambda at, k: w[at["C"], k["I"], k["H"], k["W"], k["i"], at["c"]],
        "conv2d_NCHWc",
    )


def _numpy_depthwise(x: Any, w: Any, **how: Any) -> Any:
    chunks, *reach, block = w.shape
    # each channel has its window, so that there is nothing to sum over channels
    kernel = np.moveaxis(w, 3, 1).reshape(chunks * block, 1, *reach)
    return _convolve_channels(x, kernel, block, len(kernel), {**how, "groups": len(kernel)})


@operator(
    "depthwise_in_blocks",
    _numpy_depthwise,
    samples=[
        sample(floating(2, 2, 9, 7, 16), floating(2, 3, 5, 16), stride=(2, 1), padding=(1, 2, 0, 2)),
        sample(floating(1, 3, 7, 6, 4), floating(3, 2, 2, 4), dilation=(2, 1)),
    ],
)
def _depthwise_in_blocks(x: Any, w: Any, *, stride: Any = (), padding: Any = (), dilation: Any = ()) -> Any:
    """x (N, C / b, H, W, b) with w (C / b, KH, KW, b): each channel for itself."""
    stride, padding, dilation = spatial(2, stride, padding, dilation)
    chunks, *reach, block = w.shape
    if not (same_extent(x.shape[1], chunks) and same_extent(x.shape[4], block)):
        raise ValueError(f"weights {w.shape} are not those of an image {x.shape}")
    return sum_windows(
        x,
        "NCHWc",
        layout_windows(x, "NCHWc", reach, stride, padding, dilation),
        "HW",
        {"O": chunks, "H": reach[0], "W": reach[1], "o": block},
        lambda at, _: {"C": at["C"]},
        lambda at, k: w[at["C"], k["H"], k["W"], at["c"]],
        "depthwise_conv2d_nhwc",
        peeled=True,
    )
