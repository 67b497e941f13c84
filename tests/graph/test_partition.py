"""The cut of a graph into kernels: trees around a heavy node, joined where the rules would schedule them as one group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.graph import Builder, Graph, partition
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


def test_what_moves_a_sum_is_of_its_kernel_and_what_a_sum_reads_is_not() -> None:
    b = Builder()
    x = b.node("relu", b.input("x", (4, 6)))
    y = b.node("transpose", b.node("matmul", x, b.input("w", (6, 8))), axes=(1, 0))
    halves = [b.node("slice", y, begin=(at,), end=(at + 2,), step=(1,), axes=(1,)) for at in (0, 2)]
    b.output("y", b.node("add", b.node("multiply", halves[0], b.input("z", (2,))), b.node("negative", halves[1])))
    kernels = [["relu"], ["matmul", "transpose", "slice", "slice", "multiply", "negative", "add"]]
    assert [sorted(one) for one in cut(b.graph())] == [sorted(one) for one in kernels]


def test_of_two_sums_the_first_has_what_both_go_into() -> None:
    b = Builder()
    x = b.input("x", (4, 6))
    first, second = (b.node("matmul", x, b.input(f"w{at}", (6, 8))) for at in range(2))
    b.output("y", b.node("add", first, second))
    assert cut(b.graph()) == [["matmul"], ["matmul", "add"]]
    assert [node.inputs[1] for step in cut_graph(b.graph()) for node in step.nodes] == ["w1", "w0", second]


def test_a_norm_that_is_added_again_is_one_chain_of_rows() -> None:
    """In a program of te, where what reads the norm later was taken for a part of its chain."""
    x, w = te.placeholder((6, 40), name="x"), te.placeholder((40, 40), name="w")
    y = topi.nn.layer_norm(x, te.placeholder((40,)), te.placeholder((40,)), -1)
    plan = tw.autoschedule.schedule(topi.add(y, topi.nn.dense(y, w)), "llvm").plan
    assert "rows" in {row.rule for row in plan}


def test_long_chains_are_kernels_of_limited_length() -> None:
    b = Builder()
    x = b.input("x", (4, 8))
    y = b.node("matmul", x, b.input("w", (8, 8)))
    for _ in range(300):
        y = b.node("add", y, x)
    b.output("y", y)
    lengths = list(map(len, cut(b.graph())))
    assert sum(lengths) == 301 and max(lengths) < 200


def test_graphs_of_one_structure_are_cut_once_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first graph is declared; one of other names is not, nor is it by a process to come; one that gives more values is."""

    def norm(names: str, *more: str) -> Graph:
        b = Builder()
        x = b.input(names[0], (6, 1013))
        y = b.node("divide", x, b.node("max", x, axes=(1,), keepdims=True))
        b.output(names[1], b.node("matmul", y, b.input(names[2], (1013, 3))))
        for name in more:
            b.output(name, y)
        return b.graph()

    asked: list[int] = []
    group_operations = partition.group_operations

    def group(*given: Any) -> Any:
        asked.append(1)
        return group_operations(*given)

    monkeypatch.setattr(partition, "group_operations", group)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    counts: list[int] = []
    for g in (norm("xyw"), norm("abc"), norm("xyw", "more")):
        partition._earlier_cut.cache_clear()  # as another process, which has the store alone
        first, again = cut(g), cut(g)
        assert first == again
        counts.append(len(asked))
    assert counts == [1, 1, 2]
