"""Gradients that compute parts of the way forward a second time."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder


def layers(count: int, rows: int = 33, wide: int = 17) -> tw.graph.Graph:
    """Products with a weight each, and what is not linear, which the way back needs; the first layer is read again by the last."""
    random = np.random.default_rng(5)
    b = Builder("layers")
    x = first = b.node("tanh", b.input("x", (rows, wide)))
    for at in range(count):
        w = b.param(f"w{at}", (random.standard_normal((wide, wide)) / 4).astype("float32"))
        x = b.node("tanh", b.node("matmul", x, w), outputs=[f"h{at}"])
    b.output("loss", b.node("mean", b.node("multiply", x, first), axes=(0, 1)))
    return b.graph()


def test_gradients_are_the_same_and_take_less_memory() -> None:
    g = layers(9)
    wrt = ["w0", "w4", "w8", "x"]
    x = np.random.default_rng(0).standard_normal((33, 17)).astype("float32")
    whole, cut = (tw.build(g.gradient("loss", wrt, checkpoints)) for checkpoints in ((), ("h2", "h5")))
    for ours, theirs in zip(cut(x), whole(x), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert cut.arena_bytes < whole.arena_bytes, "the values of two parts are not kept"
    for ours, theirs in zip(cut(x), g.gradient("loss", wrt).run(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_what_no_node_gives_is_no_checkpoint() -> None:
    with pytest.raises(tw.GraphError, match="TW0930: graph layers has no checkpoint 'w0'"):
        layers(2).gradient("loss", "w0", ["w0"])


def test_a_step_of_training_with_checkpoints() -> None:
    g = layers(3)
    x = np.random.default_rng(0).standard_normal((33, 17)).astype("float32")
    results = []
    for checkpoints in ((), ("h0", "h1")):
        step = g.training_step("loss", ["w0", "w2"], "sgd", checkpoints, lr=0.5)
        state = {name: np.array(g.params[name]) for name in step.state}
        tw.build(step)(x, **state)
        results.append(state)
    for name in results[0]:
        np.testing.assert_array_equal(results[0][name], results[1][name])
