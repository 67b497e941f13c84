"""Values whose channels lie in blocks: (N, C, H, W) as (N, C / b, H, W, b)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te, topi
from ...te.shape import same_extent
from ...te.tensor import Tensor
from ...topi.half_precision import convert_elements, sum_dtype
from ...topi.matmul import product
from ...topi.nn.convolutions import tap_count
from ...topi.nn.image_windows import Windows
from ...topi.nn.spatial import spatial, strided_windows
from ...topi.nn.window import padded
from ...topi.references import wide
from ...topi.row import floating, sample
from .row import operator

__all__: list[str] = []


def _block_windows(x: Any, reach: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """The windows of an image in blocks: (N, C, b, OH, OW, KH, KW)."""
    stride, padding, dilation = spatial(2, stride, padding, dilation)
    around = np.pad(x, [(0, 0), (0, 0), (padding[0], padding[2]), (padding[1], padding[3]), (0, 0)])
    # the channels of a block come next to their block, before windows are cut
    return strided_windows(np.moveaxis(around, 4, 2), reach, stride, dilation)


def _numpy_convolution(x: Any, w: Any, *, stride: Any, padding: Any, dilation: Any) -> Any:
    windows = _block_windows(x, w.shape[2:4], stride, padding, dilation)
    batch, chunks, block, *rest = windows.shape
    # what fills the last block up takes no part
    terms = windows.reshape(batch, chunks * block, *rest)[:, : w.shape[1] * w.shape[4]]
    parts = terms.reshape(batch, w.shape[1], w.shape[4], *rest)
    return np.einsum("ncbijxy,ocxybp->noijp", parts, w, optimize=True)


@operator(
    "conv_in_blocks",
    wide(_numpy_convolution),
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
        return topi.nn.conv2d(x, w, stride, padding, dilation, layout="NCHWc", algorithm="auto")
    return _convolve_block_parts(x, w, stride, padding, dilation)


def _convolve_block_parts(x: Tensor, w: Tensor, stride: Any, padding: Any, dilation: Any) -> Tensor:
    batch, chunks, *_, block = x.shape
    outputs, parts, *reach, part, lanes = w.shape
    each, rest = divmod(tap_count(block), tap_count(part))  # a block of x holds several parts of the weights
    if rest or tap_count(parts) > tap_count(chunks) * each:
        raise ValueError(f"{parts} parts of {part} channels are not parts of {chunks} blocks of {block}")
    windows = Windows.of(x.shape[2:4], reach, stride, padding, dilation)
    image = padded(x, windows.pads, (2, 3))
    c, p, q, k = (
        te.reduce_axis((0, extent), name)
        for extent, name in zip((parts, *reach, part), ("rc", "ry", "rx", "rb"), strict=True)
    )

    def element(n: Any, o: Any, i: Any, j: Any, v: Any) -> Any:
        # the part within the block, and the channel within the part
        value = image[(n, te.indexdiv(c, each), *windows.at(i, j, p, q), te.indexmod(c, each) * part + k)]
        return te.sum(product(value, w[o, c, p, q, k, v], sum_dtype(x.dtype)), axis=[c, p, q, k])

    sums = te.compute(
        (batch, outputs, *windows.out, lanes),
        element,
        name="conv2d_NCHWc",
        tag="conv2d_NCHWc",
        attrs=windows.attrs(),
    )
    return convert_elements(sums, x.dtype)


# each channel has its window, so that there is nothing to sum over channels
def _numpy_depthwise(x: Any, w: Any, *, stride: Any, padding: Any, dilation: Any) -> Any:
    windows = _block_windows(x, w.shape[1:3], stride, padding, dilation)
    return np.einsum("ncbijxy,cxyb->ncijb", windows, w, optimize=True)


@operator(
    "depthwise_in_blocks",
    wide(_numpy_depthwise),
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
    windows = Windows.of(x.shape[2:4], reach, stride, padding, dilation)
    image = padded(x, windows.pads, (2, 3), peeled=True)
    p, q = (te.reduce_axis((0, extent), name) for extent, name in zip(reach, ("ry", "rx"), strict=True))

    def element(n: Any, c: Any, i: Any, j: Any, v: Any) -> Any:
        value = image[(n, c, *windows.at(i, j, p, q), v)]
        return te.sum(product(value, w[c, p, q, v], sum_dtype(x.dtype)), axis=[p, q])

    sums = te.compute(
        (*x.shape[:2], *windows.out, block),
        element,
        name="depthwise_conv2d",
        tag="depthwise_conv2d_nhwc",
        attrs={"stride": stride},
    )
    return convert_elements(sums, x.dtype)
