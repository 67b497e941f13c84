"""Convolutions whose channels end within a vector."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi


@pytest.mark.parametrize(("channels", "size", "otherwise"), [
    (24, 14, True), (40, 16, True), (32, 14, False), (24, 7, False), (3, 14, False)])
def test_their_sums_are_not_masked_by_channels(channels: int, size: int, otherwise: bool) -> None:
    """Where rows fill vectors nearly; and they are what they are."""
    image, weights = te.placeholder((1, 6, size, size), name="image"), te.placeholder((channels, 6, 3, 3), name="weights")
    y = topi.nn.conv2d_nchw(image, weights, 1, 1, 1)
    s = tw.autoschedule.schedule(y, "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    assert (s.plan[0].description == "as any reduction") == otherwise
    draw = np.random.default_rng(3)
    x, w = draw.random((1, 6, size, size), "float32"), draw.random((channels, 6, 3, 3), "float32")
    got = np.zeros((1, channels, size, size), "float32")
    tw.build(tw.autoschedule.schedule(y), [image, weights, y])(x, w, got)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    assert np.allclose(got, np.einsum("ncyxpq,ocpq->noyx", windows, w), rtol=1e-4)
