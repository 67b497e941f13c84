"""Convolutions whose channels end within a vector."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.runtime.threads import available_cpus


@pytest.mark.parametrize(
    ("channels", "size", "whole"), [(24, 14, False), (40, 16, False), (32, 14, True), (24, 7, None), (3, 14, False)]
)
def test_their_sums_are_not_masked_by_channels(channels: int, size: int, whole: bool | None) -> None:
    """Where rows fill vectors nearly; and they are what they are. whole: None where both take about as long."""
    image, weights = (
        te.placeholder((1, 6, size, size), name="image"),
        te.placeholder((channels, 6, 3, 3), name="weights"),
    )
    y = topi.nn.conv2d_nchw(image, weights, 1, 1, 1)
    s = tw.autoschedule.schedule(y, "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    assert whole is None or s.plan[0].description.startswith("channels") == whole
    draw = np.random.default_rng(3)
    x, w = draw.random((1, 6, size, size), "float32"), draw.random((channels, 6, 3, 3), "float32")
    got = np.zeros((1, channels, size, size), "float32")
    tw.build(tw.autoschedule.schedule(y), [image, weights, y])(x, w, got)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    assert np.allclose(got, np.einsum("ncyxpq,ocpq->noyx", windows, w), rtol=1e-4)


@pytest.mark.skipif(available_cpus() > 4, reason="chunks of channels are fewer tasks than there are threads")
@pytest.mark.parametrize("channels", [126, 120])
def test_a_last_chunk_of_channels_has_a_loop_to_be_cut_from(channels: int) -> None:
    """Of weights that are known: bands of rows are no part of the task then, from which the condition on the last chunk would have
    had to be told."""
    draw = np.random.default_rng(4)
    w = draw.random((channels, 6, 1, 1), "float32")
    image = te.placeholder((1, 6, 20, 20), name="image")
    y = topi.nn.conv2d_nchw(image, te.constant(w), 1, 0, 1)
    s = tw.autoschedule.schedule(y)
    text = str(tw.lower(s, [image, y]))
    # where vectors divide the channels there is no rest, and bands of rows may be part of the task
    if "inside" in s.plan[0].description and f"< {channels})" in text:
        assert int(re.search(r"parallel\((\d+)\)", text)[1]) <= 8
    x, got = draw.random((1, 6, 20, 20), "float32"), np.zeros((1, channels, 20, 20), "float32")
    tw.build(s, [image, y])(x, got)
    assert np.allclose(got, np.einsum("ncyx,oc->noyx", x, w[:, :, 0, 0]), rtol=1e-4)
