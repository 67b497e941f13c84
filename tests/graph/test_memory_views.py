"""Slices, splits and reshapes that are read where they lie."""

from __future__ import annotations

import numpy as np
import tilewright as tw
from tilewright.graph import Builder


def agree(g: tw.graph.Graph, *arrays: object) -> tw.Model:
    m = tw.build(g)
    results = m(*arrays)
    for ours, theirs in zip(results if isinstance(results, list) else [results], g.run(*arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert m.verify(*arrays) and len(m.profile(*arrays).rows) == sum(m.kernels.values())
    return m


def gated(batch: int) -> tw.graph.Graph:
    """A layer whose two halves are multiplied, one of them after tanh, and a product of one of them, which is read twice."""
    random = np.random.default_rng(0)
    b = Builder("gated")
    h = b.node("matmul", b.input("x", (batch, 9)), b.param("w", random.standard_normal((9, 14)).astype("float32")))
    low, high = b.nodes("split", h, sizes=(6, 8), axis=1)
    low = b.node("slice", low, begin=(0,), end=(6,), step=(1,), axes=(-1,))
    part = b.node("slice", high, begin=(-6,), end=(8,), step=(1,), axes=(1,))
    b.output("y", b.node("multiply", low, b.node("tanh", part)))
    b.output("z", b.node("matmul", high, b.param("u", random.standard_normal((8, 3)).astype("float32"))))
    return b.graph()


def test_parts_of_a_row_are_read_where_they_lie() -> None:
    m = agree(gated(1), np.random.default_rng(1).standard_normal((1, 9)).astype("float32"))
    assert not any(word in name for name in m.kernels for word in ("split", "slice")), m.kernels
    assert m.arena_bytes <= 128, "the row alone"


def test_a_reshape_between_two_products_is_no_copy() -> None:
    """What the first one gives, with what follows it element by element, is read by the second as it lies."""
    random = np.random.default_rng(2)
    b = Builder("between")
    h = b.node(
        "relu", b.node("matmul", b.input("x", (6, 5)), b.param("w", random.standard_normal((5, 14)).astype("float32")))
    )
    h = b.node("reshape", h, shape=(12, 7))
    b.output("y", b.node("matmul", h, b.param("u", random.standard_normal((7, 3)).astype("float32"))))
    m = agree(b.graph(), random.standard_normal((6, 5)).astype("float32"))
    assert len(m.kernels) == 2 and all(
        "reshape" not in row.operators for row in m.profile(np.ones((6, 5), "float32")).rows
    )


def test_parts_of_several_rows_are_read_with_strides_by_the_kernels_that_need_them() -> None:
    m = agree(gated(3), np.random.default_rng(1).standard_normal((3, 9)).astype("float32"))
    assert not any("split" in name for name in m.kernels) and sum(m.kernels.values()) <= 4, m.kernels


def test_a_piece_of_an_input_and_of_a_joined_whole_are_pieces() -> None:
    b = Builder("pieces")
    x = b.input("x", (4, 5, 257))
    row = b.node("slice", x, begin=(2, 1), end=(3, 4), step=(1, 1), axes=(0, 1))  # 3 rows of the third block
    flat = b.node("reshape", row, shape=(3, 257))
    b.output("a", b.node("softmax", flat, axis=1))
    b.output("b", b.node("sum", flat, axes=(0,), keepdims=False))
    whole = b.node("concat", b.node("exp", x), b.node("tanh", x), axis=0)
    again = b.node("slice", whole, begin=(3,), end=(6,), step=(1,), axes=(0,))  # across both parts
    b.output("c", b.node("softmax", again, axis=-1))
    b.output("d", b.node("cumsum", again, axis=0))
    b.output("e", b.node("mean", whole, axes=(0, 1)))
    g = b.graph()
    m = agree(g, np.random.default_rng(2).standard_normal((4, 5, 257)).astype("float32"))
    assert not any(word in name for name in m.kernels for word in ("concat", "slice", "reshape")), m.kernels
    assert m.arena_bytes == 2 * 4 * 5 * 257 * 4 + 32, "both parts, and up to a cache line"


def test_what_is_a_result_or_follows_state_is_no_piece() -> None:
    b = Builder("cache")
    past, row = b.input("past", (5, 33)), b.input("row", (1, 33))
    old = b.node("slice", past, begin=(1,), end=(5,), step=(1,), axes=(0,))
    present = b.node("concat", old, row, axis=0)  # moves up by a row
    b.output("first", b.node("slice", past, begin=(0,), end=(1,), step=(1,), axes=(0,)))
    b.output("mean", b.node("mean", old, axes=(0,)))
    last = b.node("slice", present, begin=(3,), end=(5,), step=(1,), axes=(0,))
    b.output("last", last)
    b.output("twice", b.node("softmax", last))
    b.output("present", present)
    b.state("past", "present")
    g = b.graph()
    m = tw.build(g)
    random = np.random.default_rng(3)
    past = random.standard_normal((5, 33)).astype("float32")
    for _ in range(3):
        row = random.standard_normal((1, 33)).astype("float32")
        expected = g.run(past.copy(), row)
        results = m(past, row)
        for ours, theirs in zip([*results, past], expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
