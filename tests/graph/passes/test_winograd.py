"""Convolutions of 3 by 3 by Winograd's algorithm, as the pipeline takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder

RANDOM = np.random.default_rng(11)


def values(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32") / 8


def operators(g: tw.graph.Graph) -> list[str]:
    return [node.operator for node in g.nodes]


def convolved(
    channels: int = 32, outputs: int = 40, size: tuple[int, int] = (13, 15), known: bool = True, **attributes: Any
) -> tw.graph.Graph:
    b = Builder("convolved")
    x = b.input("x", (1, channels, *size))
    weights = values(outputs, channels, 3, 3)
    w = b.param("w", weights) if known else b.input("w", weights.shape)
    b.output(
        "y",
        b.node("relu", b.node("conv", x, w, b.param("b", values(outputs)), **{"padding": (1, 0, 1, 2), **attributes})),
    )
    return b.graph()


def test_a_convolution_in_the_usual_order() -> None:
    g = convolved()
    after = g.transform("winograd")
    assert operators(after) == ["winograd", "add", "relu"]
    x = values(1, 32, 13, 15)
    (expected,) = g.run(x)
    for y in (after.run(x)[0], tw.build(g)(x)):
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_convolutions_in_blocks() -> None:
    b = Builder("network")
    h = x = b.input("x", (2, 3, 22, 19))
    h = b.node("relu", b.node("conv", h, b.param("w0", values(32, 3, 3, 3)), stride=(2, 2), padding=(1, 1, 1, 1)))
    y = b.node("conv", h, b.param("w1", values(32, 32, 3, 3)), b.param("b1", values(32)), padding=(1, 1, 1, 1))
    h = b.node("relu", b.node("add", h, y))
    h = b.node("conv", h, b.param("w2", values(48, 32, 3, 3)), padding=(0, 1, 1, 1))
    b.output("y", b.node("mean", h, axes=(2, 3), keepdims=False))
    g = b.graph()
    assert operators(g.transform("blocks", "winograd")).count("winograd_in_blocks") == 2
    x = values(2, 3, 22, 19)
    np.testing.assert_allclose(tw.build(g)(x), g.run(x)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "how",
    [
        {"channels": 16, "outputs": 16},
        {"size": (8, 8)},
        {"known": False},
        {"stride": (2, 1)},
        {"dilation": (1, 2)},
    ],
    ids=str,
)
def test_what_gains_nothing_stays_as_it_is(how: dict[str, Any]) -> None:
    g = convolved(**how)
    assert g.transform("winograd") is g or g.transform("winograd") == g


def test_exact_sums_stay() -> None:
    g = convolved()
    exact = g.transform(
        *(name for name, one in tw.graph.PASSES.items() if one.rounding == "exact" and name != "groups")
    )
    assert "conv" in operators(exact)
