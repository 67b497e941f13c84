"""Taps that reach nothing but padding go, and no other."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.graph import Builder
from tilewright.graph.passes.taps import _reachable_taps


def brute(extent: int, before: int, after: int, taps: int, stride: int, dilation: int) -> list[int]:
    outputs = (before + extent + after - (taps - 1) * dilation - 1) // stride + 1
    return [
        tap for tap in range(taps) if any(0 <= at * stride + tap * dilation - before < extent for at in range(outputs))
    ]


def test_what_is_reached_is_what_windows_read() -> None:
    random = np.random.default_rng(0)
    met = 0
    for _ in range(3000):
        extent, before, after, taps, stride, dilation = (
            int(random.integers(low, high)) for low, high in ((0, 7), (0, 9), (0, 9), (1, 6), (1, 4), (1, 9))
        )
        if before + extent + after < (taps - 1) * dilation + 1:
            continue
        read = brute(extent, before, after, taps, stride, dilation)
        assert _reachable_taps(extent, before, after, taps, stride, dilation) == (
            (read[0], read[-1] + 1) if read else (0, taps)
        )
        met += len(read) not in (0, taps)
    assert met > 100


@pytest.mark.parametrize(
    "sizes, taps, stride, padding, dilation, left",
    [
        ((16, 16), (3, 3), (1, 1), (36, 36, 36, 36), (36, 36), (1, 1)),
        ((16, 5), (3, 3), (1, 1), (12, 12, 12, 12), (12, 12), (3, 1)),
        ((4,), (5,), (2,), (6, 6), (3,), (2,)),
        ((5, 7), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), (3, 3)),
        ((2, 2), (3, 1), (3, 1), (5, 0, 9, 0), (2, 1), (2, 1)),
        ((7,), (2,), (1,), (8, 8), (9,), (2,)),
    ],
)
def test_the_result_stays(sizes, taps, stride, padding, dilation, left) -> None:
    random = np.random.default_rng(1)
    b = Builder()
    x = b.input("x", (2, 4, *sizes))
    w = b.param("w", random.standard_normal((6, 2, *taps)).astype("float32"))
    b.output(
        "y",
        b.node(
            "conv",
            x,
            w,
            b.param("b", random.standard_normal(6).astype("float32")),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=2,
        ),
    )
    g = b.graph()
    t = g.transform("taps")
    (node,) = t.nodes
    assert t.params[node.inputs[1]].shape[2:] == left
    image = random.standard_normal((2, 4, *sizes)).astype("float32")
    np.testing.assert_allclose(t.run(image)[0], g.run(image)[0], rtol=1e-5, atol=1e-6)


def test_infinite_weights_stay() -> None:
    b = Builder()
    w = b.param("w", np.array([[[np.inf, 1, 2]]], "float32"))
    b.output("y", b.node("conv", b.input("x", (1, 1, 2)), w, stride=(1,), padding=(4, 4), dilation=(4,), groups=1))
    g = b.graph()
    assert g.transform("taps") == g
