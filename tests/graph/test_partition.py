"""The cut of a graph into kernels: trees around a heavy node, joined where the rules would schedule them as one group."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder, Graph
from tilewright.graph.partition import cut_graph


def cut(g: Graph) -> list[list[str]]:
    """The operators of each kernel."""
    return [[node.operator for node in step.nodes] for step in cut_graph(g)]


def centred_over_largest(rows: int | str, columns: int | str) -> Graph:
    """(x - mean) / max of each row."""
    b = Builder()
    x = b.input("x", (rows, columns))
    d = b.node("subtract", x, b.node("mean", x, axes=(1,), keepdims=True))
    b.output("y", b.node("divide", d, b.node("max", d, axes=(1,), keepdims=True)))
    return b.graph()


def softmax_by_hand(b: Builder, x: str) -> str:
    power = b.node("exp", b.node("subtract", x, b.node("max", x, axes=(-1,), keepdims=True)))
    return b.node("divide", power, b.node("sum", power, axes=(-1,), keepdims=True))


@pytest.mark.parametrize("columns", [1, 7, 64, 1000])
def test_reductions_over_the_same_rows_are_one_kernel(columns: int) -> None:
    g = centred_over_largest(13, columns)
    assert cut(g) == [["mean", "subtract", "max", "divide"]]
    x = np.random.default_rng(columns).standard_normal((13, columns)).astype("float32")
    with np.errstate(all="ignore"):
        (wanted,) = g.run(x)
    np.testing.assert_allclose(tw.build(g)(x), wanted, rtol=1e-4, atol=1e-5)


def test_rows_of_symbols_are_one_kernel_too() -> None:
    g = centred_over_largest("n", "m")
    assert len(cut(g)) == 1
    m = tw.build(g)
    for shape in ((3, 5), (1, 17)):
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        np.testing.assert_allclose(m(x), g.run(x)[0], rtol=1e-4, atol=1e-5)


def test_a_chain_takes_in_what_it_alone_reads_and_ends_before_what_others_read() -> None:
    b = Builder()
    x = b.node("add", b.input("x", (5, 33)), b.input("z", (33,)))
    y = softmax_by_hand(b, x)
    b.output("y", y)
    b.output("w", b.node("matmul", y, b.input("v", (33, 4))))
    assert cut(b.graph()) == [["add", "max", "subtract", "exp", "sum", "divide"], ["matmul"]]


def test_an_output_within_a_chain_ends_a_kernel() -> None:
    b = Builder()
    x = b.input("x", (5, 33))
    d = b.node("subtract", x, b.node("mean", x, axes=(1,), keepdims=True))
    b.output("d", d)
    b.output("y", b.node("divide", d, b.node("max", d, axes=(1,), keepdims=True)))
    assert cut(b.graph()) == [["mean", "subtract"], ["max", "divide"]]


def reduced_along(first: int, second: int) -> Graph:
    b = Builder()
    x = b.input("x", (6, 9))
    d = b.node("subtract", x, b.node("mean", x, axes=(first,), keepdims=True))
    b.output("y", b.node("divide", d, b.node("max", d, axes=(second,), keepdims=True)))
    return b.graph()


def two_products() -> Graph:
    b = Builder()
    x = b.input("x", (8, 8))
    b.output("y", b.node("add", b.node("matmul", x, x), b.node("matmul", x, b.input("w", (8, 8)))))
    return b.graph()


def costly_read_twice() -> Graph:
    b = Builder()
    y = b.node("exp", b.input("x", (7,)))
    b.output("z", b.node("add", b.node("relu", y), b.node("negative", y)))
    return b.graph()


@pytest.mark.parametrize(
    "declare", [lambda: reduced_along(0, 1), two_products, costly_read_twice], ids=["other rows", "products", "exp"]
)
def test_what_rules_would_not_schedule_together_stays_apart(declare: Callable[[], Graph]) -> None:
    assert len(cut(declare())) == 2


@pytest.mark.parametrize("operator", ["relu", "sigmoid"])
def test_what_the_tail_of_a_product_reads_twice_is_of_its_kernel(operator: str) -> None:
    b = Builder()
    x, w = b.input("x", (4, 6)), b.input("w", (6, 5))
    gate = b.node(operator, b.node("matmul", x, w))
    b.output("y", b.node("subtract", b.node("multiply", gate, b.input("z", (4, 5))), gate))
    g = b.graph()
    assert len(cut(g)) == 1
    given = [np.random.default_rng(0).standard_normal(kind.shape).astype("float32") for kind in g.inputs.values()]
    np.testing.assert_allclose(tw.build(g)(*given), g.run(*given)[0], rtol=1e-4, atol=1e-5)
