"""Concatenations whose parts are written in place."""

from __future__ import annotations

import numpy as np
import tilewright as tw
from tilewright.graph import Builder


def inception() -> tw.graph.Graph:
    """Three layers side by side, all in a whole, which is part of a second one."""
    b = Builder("inception")
    x = b.input("x", (1, 5, 37, 33))
    w = (np.random.default_rng(2).standard_normal((3, 5, 1, 1)) / 7).astype("float32")
    parts = [b.node("conv", x, b.param("w", w)), b.node("softmax", x, axis=1), b.node("tanh", x)]
    whole = b.node("concat", b.node("exp", x), b.node("concat", *parts, axis=1), b.node("sigmoid", parts[2]), axis=-3)
    b.output("y", b.node("max_pool", whole, kernel=(3, 3), stride=(2, 2)))
    b.output("z", b.node("negative", parts[1]))
    return b.graph()


def test_parts_are_written_in_place() -> None:
    x = np.random.default_rng(0).standard_normal((1, 5, 37, 33)).astype("float32")
    g = inception()
    m = tw.build(g)
    assert not any("concat" in name for name in m.kernels)
    for ours, theirs in zip(m(x), g.run(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert len(m.profile(x).rows) == sum(m.kernels.values())
    wholes = 4 * 37 * 33 * (5 + 3 + 5 + 5 + 5)
    assert m.arena_bytes <= wholes + 128, "no part lies anywhere else"


def test_a_result_is_put_together_where_the_caller_wants_it() -> None:
    b = Builder()
    x = b.input("x", (2, 1031))
    b.output("y", b.node("concat", b.node("softmax", x, axis=-1), b.node("cumsum", x, axis=-1), axis=0))
    g = b.graph()
    m = tw.build(g)
    assert not any("concat" in name for name in m.kernels)
    a = np.random.default_rng(1).standard_normal((2, 1031)).astype("float32")
    assert m.verify(a)
    y = np.full((4, 1031), np.nan, "float32")
    m(a, out=y)
    np.testing.assert_allclose(y, g.run(a)[0], rtol=1e-4, atol=1e-5)


def test_what_is_no_piece_of_memory_or_not_computed_is_copied() -> None:
    b = Builder()
    x = b.input("x", (1, 5, 37, 33))
    b.output("rows", b.node("concat", b.node("exp", x), b.node("tanh", x), axis=2))
    b.output("given", b.node("concat", x, b.node("exp", x), axis=1))
    twice = b.node("sigmoid", x)
    b.output("twice", b.node("concat", twice, twice, axis=1))
    g = b.graph()
    m = tw.build(g)
    assert sum("concat" in name for name in tw.build(g).kernels) == 3
    x = np.random.default_rng(0).standard_normal((1, 5, 37, 33)).astype("float32")
    for ours, theirs in zip(m(x), g.run(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
