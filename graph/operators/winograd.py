"""Convolutions of 3 by 3 at stride 1 by Winograd's algorithm, of weights that are transformed already."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import topi
from ...topi.nn.spatial import spatial, strided_windows, surround
from ...topi.nn.winograd import conv2d_winograd_NCHWc, transforms
from ...topi.references import wide
from ...topi.row import floating, sample
from .row import operator

__all__: list[str] = []


def _convolved(x: Any, w: Any, *, channels: int, padding: Any) -> Any:
    """x (N, C, H, W) with w (a, a, O / 16, C, 16)."""
    size, (_, padding, _) = len(w), spatial(2, (), padding, ())
    m = size - 2
    to_squares, to_results = map(np.array, transforms(m))
    around = surround(x, padding, 0)
    out = [extent - 2 for extent in around.shape[2:]]
    around = surround(around, (0, 0, *(-extent % m for extent in out)), 0)
    squares = to_squares @ strided_windows(around, (size, size), (m, m), (1, 1)) @ to_squares.T
    results = to_results @ np.einsum("ncyxab,abocv->novyxab", squares, w, optimize=True) @ to_results.T
    batch, blocks, block, down, across, *_ = results.shape
    whole = results.swapaxes(4, 5).reshape(batch, blocks * block, down * m, across * m)
    return whole[:, :channels, : out[0], : out[1]]


def _in_blocks(x: Any, w: Any, *, padding: Any) -> Any:
    batch, chunks, high, across, block = x.shape
    plain = np.moveaxis(x, 4, 2).reshape(batch, chunks * block, high, across)
    result = _convolved(plain, w, channels=w.shape[2] * w.shape[4], padding=padding)
    return np.moveaxis(result.reshape(batch, w.shape[2], w.shape[4], *result.shape[2:]), 2, 4)


@operator(
    "winograd",
    wide(_convolved),
    samples=[
        sample(floating(2, 3, 7, 5), floating(4, 4, 2, 3, 16), channels=21, padding=(1, 0, 1, 2)),
        sample(floating(1, 4, 6, 6), floating(6, 6, 1, 4, 16), channels=16),
    ],
)
def _winograd(x: Any, w: Any, *, channels: int, padding: Any = ()) -> Any:
    """x (N, C, H, W) with w (a, a, blocks, C, 16) as topi.nn.conv2d_winograd_prepack gives it: (N, channels, OH, OW)."""
    return topi.nn.conv2d_winograd_prepacked(x, w, channels, spatial(2, (), padding, ())[1])


@operator(
    "winograd_in_blocks",
    wide(_in_blocks),
    samples=[sample(floating(2, 2, 7, 5, 4), floating(4, 4, 3, 8, 16), padding=(1, 0, 1, 2))],
)
def _winograd_in_blocks(x: Any, w: Any, *, padding: Any = ()) -> Any:
    """x (N, C / c, H, W, c) with w (a, a, O / 16, C, 16): (N, O / 16, OH, OW, 16)."""
    return conv2d_winograd_NCHWc(x, w, spatial(2, (), padding, ())[1])
