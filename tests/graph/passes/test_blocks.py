"""Channels in blocks between convolutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder, partition

RANDOM = np.random.default_rng(5)


def values(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32") / 4


def operators(g: tw.graph.Graph) -> list[str]:
    return [node.operator for node in g.nodes]


def agrees(g: tw.graph.Graph, *arrays: Any) -> tw.graph.Graph:
    """The graph in blocks, as which it is built; both give what the reference says of it as it was."""
    after = g.transform("blocks")
    expected = g.run(*arrays)
    for results in (after.run(*arrays), tw.build(g)(*arrays)):
        for ours, theirs in zip(results if isinstance(results, list) else [results], expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    return after


def network(size: tuple[int, int], batch: int = 1) -> tw.graph.Graph:
    """What networks of convolutions have: an entrance of three channels, pools, a residual sum, branches that are joined, factors
    by channels, and a mean."""
    b = Builder("network")
    x = b.input("x", (batch, 3, *size))
    h = b.node(
        "conv", x, b.param("w0", values(16, 3, 3, 3)), b.param("b0", values(16)), stride=(2, 1), padding=(1, 0, 1, 2)
    )
    h = b.node("relu", h)
    h = b.node("max_pool", h, kernel=(3, 2), stride=(2, 1), padding=(1, 0, 1, 1))
    y = b.node("conv", h, b.param("w1", values(16, 16, 1, 3)), padding=(0, 2, 0, 2), dilation=(1, 2))
    h = b.node("relu", b.node("add", h, b.node("multiply", y, b.param("s", values(16, 1, 1)))))
    left = b.node("conv", h, b.param("w2", values(32, 16, 1, 1)))
    right = b.node("avg_pool", h, kernel=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1), count_padding=True)
    h = b.node("concat", left, right, axis=1)
    gate = b.node(
        "sigmoid", b.node("conv", b.node("mean", h, axes=(2, 3), keepdims=True), b.param("w3", values(48, 48, 1, 1)))
    )
    b.output("y", b.node("mean", b.node("multiply", h, gate), axes=(2, 3), keepdims=False))
    return b.graph()


@pytest.mark.parametrize(("size", "batch"), [((9, 13), 1), ((7, 5), 2)])
def test_a_network_of_convolutions_is_in_blocks_from_end_to_end(size: tuple[int, int], batch: int) -> None:
    g = network(size, batch)
    after = agrees(g, values(batch, 3, *size))
    assert operators(after).count("conv_in_blocks") == 4 and not {"conv", "transpose"} & {*operators(after)}, str(after)
    assert not {"conv_in_blocks"} & {
        *operators(g.transform(*(name for name, one in tw.graph.PASSES.items() if one.rounding == "exact")))
    }, "sums are in another order"


def test_what_would_be_copied_as_often_as_it_is_of_use_stays_as_it_is() -> None:
    b = Builder()
    h = b.node("conv", b.input("x", (1, 16, 40, 40)), b.param("w", values(16, 16, 1, 1)))
    h = b.node("conv", h, b.param("v", values(16, 4, 3, 3)), groups=4)
    b.output("y", b.node("softmax", h, axis=1))
    g = b.graph()
    assert operators(agrees(g, values(1, 16, 40, 40))) == operators(g)


def test_one_end_that_needs_the_usual_order_is_copied() -> None:
    b = Builder()
    h = b.input("x", (1, 8, 6, 7))
    for at in range(4):
        h = b.node(
            "relu", b.node("conv", h, b.param(f"w{at}", values(32, 32 if at else 8, 3, 3)), padding=(1, 1, 1, 1))
        )
    b.output("h", h)
    after = agrees(b.graph(), values(1, 8, 6, 7))
    assert operators(after).count("conv_in_blocks") == 4 and operators(after).count("transpose") == 1


def test_estimates_of_layouts_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another process does not estimate again; for another processor the answer is its own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    g, asked = network((9, 13)), list[object]()
    estimate = partition.estimate_seconds
    monkeypatch.setattr(partition, "estimate_seconds", lambda *given: asked.append(given) or estimate(*given))
    first = g.transform("blocks")
    for again in (0, 1):
        count = len(asked)
        partition._seconds.cache_clear()
        assert g.transform("blocks") == first and (len(asked) == count or not again)
    assert g.tasks(target="llvm -mcpu=haswell -uncalibrated") and len(asked) > count


def test_channels_that_fill_no_blocks_and_other_dtypes_stay_as_they_are() -> None:
    for channels, dtype in ((20, "float32"), (8, "float32"), (32, "float64")):
        b = Builder()
        h = b.input("x", (1, channels, 5, 5), dtype)
        for at in range(2):
            h = b.node("conv", h, b.param(f"w{at}", values(channels, channels, 1, 1).astype(dtype)))
        b.output("y", b.node("mean", h, axes=(2, 3), keepdims=False))
        g = b.graph()
        assert operators(g.transform("blocks")) == operators(g)


def test_depthwise_convolutions_of_channels_that_fill_no_block() -> None:
    """An inverted residual with a gate of few channels, over channels of which the last block is half full."""
    b = Builder("mobile")
    h = b.node(
        "conv",
        b.input("x", (2, 3, 17, 15)),
        b.param("w0", values(24, 3, 3, 3)),
        b.param("b0", values(24)),
        stride=(2, 2),
        padding=(1, 1, 1, 1),
    )
    y = b.node(
        "clip", b.node("conv", h, b.param("w1", values(72, 24, 1, 1)), b.param("b1", values(72))), low=0.0, high=6.0
    )
    y = b.node(
        "conv", y, b.param("w2", values(72, 1, 5, 3)), b.param("b2", values(72)), padding=(2, 1, 2, 1), groups=72
    )
    gate = b.node(
        "relu", b.node("conv", b.node("mean", y, axes=(2, 3), keepdims=True), b.param("w3", values(5, 72, 1, 1)))
    )
    gate = b.node("sigmoid", b.node("conv", gate, b.param("w4", values(72, 5, 1, 1)), b.param("b4", values(72))))
    y = b.node("conv", b.node("multiply", y, gate), b.param("w5", values(24, 72, 1, 1)))
    h = b.node("relu", b.node("add", h, y))
    b.output("mean", b.node("mean", h, axes=(2, 3), keepdims=False))
    b.output("y", b.node("conv", h, b.param("w6", values(5, 24, 3, 3)), padding=(1, 1, 1, 1)))
    after = agrees(b.graph(), values(2, 3, 17, 15))
    assert operators(after).count("depthwise_in_blocks") == 1 and operators(after).count("conv_in_blocks") >= 3, str(
        after
    )


def test_transposed_convolutions_that_do_not_overlap() -> None:
    b = Builder("doubled")
    x = b.input("x", (1, 3, 12, 15))
    h = kept = b.node("relu", b.node("conv", x, b.param("w0", values(32, 3, 3, 3)), padding=(1, 1, 1, 1)))
    h = b.node(
        "conv",
        b.node("max_pool", h, kernel=(2, 3), stride=(2, 3)),
        b.param("w1", values(64, 32, 3, 3)),
        padding=(1, 1, 1, 1),
    )
    h = b.node("conv_transpose", h, b.param("w2", values(64, 24, 2, 3)), b.param("b2", values(24)), stride=(2, 3))
    h = b.node("conv", b.node("concat", kept, h, axis=1), b.param("w3", values(48, 56, 3, 3)), padding=(1, 1, 1, 1))
    h = b.node("conv_transpose", h, b.param("w4", values(48, 24, 3, 3)), b.param("b4", values(24)), stride=(3, 3))
    b.output("y", b.node("mean", b.node("relu", h), axes=(2, 3), keepdims=False))
    after = agrees(b.graph(), values(1, 3, 12, 15))
    assert "conv_transpose" not in operators(after), str(after)
