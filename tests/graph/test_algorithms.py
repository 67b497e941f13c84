"""Algorithms of convolutions in models: the estimate chooses for each kernel, and the weights are transformed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.graph import Builder, Graph

RANDOM = np.random.default_rng(11)
MACHINE = "llvm -mcpu=haswell -uncalibrated"


def values(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32") / 8


def convolution_graph(channels: int, outputs: int, size: tuple[int, int], **attributes: Any) -> Graph:
    b = Builder("convolved")
    x = b.input("x", (1, channels, *size))
    y = b.node("conv", x, b.param("w", values(outputs, channels, 3, 3)), b.param("b", values(outputs)), **attributes)
    b.output("y", b.node("relu", y))
    return b.graph()


def algorithms(g: Graph, **how: Any) -> list[str]:
    """The chosen algorithms in the plan of a model."""
    plan = tw.build(g, target=MACHINE, **how).plan
    return [row.description for task in plan for row in task.schedule(MACHINE, **how).plan if row.rule == "algorithm"]


def test_a_convolution_of_many_channels_is_winograds() -> None:
    g = convolution_graph(64, 64, (26, 27), padding=(1, 0, 1, 2))
    assert algorithms(g) == ["winograd"]
    assert algorithms(g, exact=True) == []
    x = values(1, 64, 26, 27)
    np.testing.assert_allclose(tw.build(g)(x), g.run(x)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(2, 3, 46, 41), (1, 3, 40, 40)], ids=str)
def test_channels_in_blocks(shape: tuple[int, ...]) -> None:
    # in the smaller one transforming the weights would take longer than all the rest
    b = Builder("network")
    h = x = b.input("x", shape)
    h = b.node("relu", b.node("conv", h, b.param("w0", values(64, 3, 3, 3)), stride=(2, 2), padding=(1, 1, 1, 1)))
    y = b.node("conv", h, b.param("w1", values(64, 64, 3, 3)), b.param("b1", values(64)), padding=(1, 1, 1, 1))
    h = b.node("relu", b.node("add", h, y))
    b.output("y", b.node("mean", h, axes=(2, 3), keepdims=False))
    g = b.graph()
    assert "winograd" in algorithms(g)
    x = values(*shape)
    np.testing.assert_allclose(tw.build(g)(x), g.run(x)[0], rtol=1e-4, atol=1e-4)


def test_what_comes_before_an_operator_is_not_of_the_estimates_of_its_algorithms() -> None:
    x, *weights = (te.placeholder(shape, name="x") for shape in ((1, 16, 14, 14), (16, 16, 3, 3), (16, 16, 3, 3)))
    for w in weights:
        x = topi.nn.conv2d(x, w, padding=1, algorithm="auto")
    first, second = (row for row in tw.autoschedule.schedule(x, MACHINE).plan if row.rule == "algorithm")
    assert [str(time) for _, time in first.candidates] == [str(time) for _, time in second.candidates]


@pytest.mark.parametrize("attributes", [{"stride": (2, 1)}, {"dilation": (1, 2)}], ids=str)
def test_other_convolutions_have_one_algorithm(attributes: dict[str, Any]) -> None:
    assert algorithms(convolution_graph(64, 64, (26, 27), **attributes)) == []
