"""Nodes with graphs inside, `if` and `loop`: their types, text and file, and what the reference makes of them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder, Graph
from tilewright.ir.constant import aligned_empty


def branch(operator: str, extent: int | str = 3) -> Graph:
    b = Builder(operator)
    b.output("y", b.node(operator, b.input("x", (extent,))))
    return b.graph()


def summing(weights: np.ndarray, limit: float = 1e9) -> Graph:
    """sum + step * weights, until the first of it is above the limit; the row is the number of the iteration beside that."""
    b = Builder("body")
    i, total, step = b.input("i", (), "int64"), b.input("total", (3,)), b.input("step", (3,))
    after = b.node("add", total, b.node("multiply", step, b.param("w", weights)), source="sum_0")
    first = b.node("max", after, axes=(0,))
    b.output("go", b.node("less", first, b.param("limit", np.float32(limit))))
    b.output("after", after)
    b.output("row", b.node("multiply", after, b.node("cast", i, dtype="float32")))
    return b.graph()


def network(limit: float = 1e9) -> Graph:
    b = Builder("net")
    x, c = b.input("x", (3,)), b.input("c", (), "bool")
    y = b.node("if", c, x, bodies=(branch("relu"), branch("exp")), source="If_0")
    last, rows = b.nodes(
        "loop", "", c, x, y, bodies=(summing(np.array([1, 2, 3], "float32"), limit),), carried=1, count=(5,)
    )
    b.output("last", b.node("negative", last))
    b.output("rows", rows)
    return b.graph()


def expected(x: np.ndarray, c: bool, limit: float = 1e9) -> list[np.ndarray]:
    step = np.maximum(x, 0) if c else np.exp(x)
    rows = np.zeros((5, 3), "float32")
    for at in range(5):
        if not c:
            break
        x = x + step * np.array([1, 2, 3], "float32")
        rows[at] = x * at
        c = bool(x.max() < limit)
    return [-x, rows]


def test_text_and_file_keep_the_graphs_inside_and_their_params(tmp_path: Path) -> None:
    b = Builder("outer")
    x = b.input("x", ("n",))
    weights = np.arange(100, dtype="float32")
    inner = Builder("inner")
    inner.output(
        "y", inner.node("add", inner.node("sum", inner.param("w", weights), axes=(0,)), inner.input("x", ("n",)))
    )
    thrice = Builder("body")
    thrice.input("i", (), "int64")
    value = thrice.input("x", ("n",))
    true = thrice.param("true", np.asarray(True))
    thrice.output("y", thrice.node("if", true, value, bodies=(inner.graph(), branch("relu", "n")), outputs=["once"]))
    b.output("z", b.node("loop", "", "", x, bodies=(thrice.graph(),), carried=1, count=(3,), outputs=["z"]))
    g = b.graph()
    text = str(g)
    assert (
        "    graph body {" in text
        and "        graph relu {" in text
        and "loop(none, none, x, carried=1, count=(3,)) {" in text
    )
    assert list(g.params) == ["z/0/true", "z/0/once/0/w"]
    assert tw.graph.parse(text) == g and tw.graph.parse(text, g.params) == g
    g.save(tmp_path / "g.safetensors")
    loaded = tw.graph.load(tmp_path / "g.safetensors")
    assert loaded == g
    np.testing.assert_array_equal(
        loaded.run(np.array([1, 2], "float32"))[0], np.array([1, 2], "float32") + 3 * weights.sum()
    )
    with pytest.raises(tw.GraphError, match="TW0907"):
        tw.graph.parse(text).run(np.array([1, 2], "float32"))


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("limit", [1e9, 7.0, -1e9])
def test_the_reference_branches_and_loops(condition: bool, limit: float) -> None:
    x = np.array([1, -2, 0.5], "float32")
    for got, want in zip(network(limit).run(x, np.asarray(condition)), expected(x, condition, limit), strict=True):
        np.testing.assert_array_equal(got, want)


def test_passes_go_into_the_graphs_inside() -> None:
    b = Builder("body")
    x = b.input("x", (3,))
    b.output("y", b.node("negative", b.node("negative", b.node("relu", x))))
    outer = Builder("net")
    c, value = outer.input("c", (), "bool"), outer.input("x", (3,))
    outer.output("y", outer.node("if", c, value, bodies=(b.graph(), branch("exp"))))
    after = outer.graph().transform("algebra")
    assert [node.operator for node in after.nodes[0].bodies[0].nodes] == ["relu"]


@pytest.mark.parametrize(
    "before, after, reason",
    [
        ("if(c, x)", "if(x, x)", r"its condition is float32\[3\]"),
        ("if(c, x)", "if(c)", "takes .float32.3.., and got"),
        ("carried=1", "carried=2", "v4 is|the graph inside gives"),
        ("carried=1", "carried=-1", "carries -1 of"),
        ("count=(5,)", "count=()", "no bound on its iterations"),
        ("count=(5,)", "count=(5, 5)", "its count is"),
        ("loop(none, c", "loop(x, c", "its trips are"),
        ("loop(none, c", "loop(none, none", "the graph inside gives"),
        (
            "graph exp {\n      input x: float32[3]",
            "graph exp {\n      input x: float32[4]",
            "the graph inside, exp, takes|v1 is",
        ),
        ("graph body {", "graph body {\n input j: int64[]", "the graph inside, body, takes"),
    ],
)
def test_graphs_inside_that_do_not_fit_are_refused(before: str, after: str, reason: str) -> None:
    text = str(network())
    assert before in text
    with pytest.raises(tw.GraphError, match=rf"(?s)TW0904: line \d+ .*({reason})"):
        tw.graph.parse(text.replace(before, after, 1))


def test_graphs_nested_too_deep_are_refused() -> None:
    opening = "y: float32[3] = if(c, x) {\n graph g {\n input x: float32[3]\n"
    with pytest.raises(tw.GraphError, match="nested too deep"):
        tw.graph.parse("graph g {\n input c: bool[]\n input x: float32[3]\n" + opening * 1000)


def counting() -> Graph:
    b = Builder("body")
    b.input("i", (), "int64")
    total, limit = b.input("total", (), "int64"), b.input("limit", (), "int64")
    after = b.node("add", total, b.param("three", np.int64(3)))
    b.output("go", b.node("less", after, limit))
    b.output("after", after)
    return b.graph()


def nested() -> Graph:
    """A loop of so many trips around one until a condition is false, which carries two values crosswise, and a branch."""
    b = Builder("inner")
    b.input("i", (), "int64")
    first, second, x = (b.input(name, ("n",)) for name in ("first", "second", "x"))
    after = b.node("add", first, b.node("multiply", x, b.param("w", np.float32(0.5))))
    b.output("go", b.node("less", b.node("sum", after, axes=(0,)), b.param("limit", np.float32(100))))
    for name, value in (("second", second), ("after", after), ("row", after)):
        b.output(name, value)
    inner = b.graph()
    b = Builder("outer")
    i, total, x = b.input("i", (), "int64"), b.input("total", ("n",)), b.input("x", ("n",))
    trips, true = b.param("trips", np.int64(4)), b.param("true", np.asarray(True))
    _, second, rows = b.nodes("loop", trips, true, total, x, x, bodies=(inner,), carried=2, count=("n",))
    even = b.node("equal", b.node("floor_mod", i, b.param("two", np.int64(2))), b.param("zero", np.int64(0)))
    b.output("total", b.node("if", even, second, bodies=(branch("relu", "n"), branch("negative", "n"))))
    b.output("row", b.node("sum", rows, axes=(0,)))
    outer = b.graph()
    b = Builder("net")
    x, trips = b.input("x", ("n",)), b.input("trips", (), "int64")
    last, rows = b.nodes("loop", trips, "", x, x, bodies=(outer,), carried=1, count=(6,))
    b.output("last", last)
    b.output("rows", rows)
    return b.graph()


def test_a_build_branches_and_loops() -> None:
    g = network(7.0)
    m = tw.build(g)
    x = np.array([1, -2, 0.5], "float32")
    for condition in (True, False):
        for got, want in zip(m(x, np.asarray(condition)), expected(x, condition, 7.0), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)
        assert m.verify(x, np.asarray(condition))
    assert [row.operators for row in m.profile(x, np.asarray(True)).rows] == ["if", "loop", "negative"]


def test_a_build_nests_them_and_counts_trips_at_run_time() -> None:
    g = nested()
    assert tw.graph.parse(str(g)) == g
    m = tw.build(g)
    x = np.array([0.25, 0.5, 3], "float32")
    for trips in (-2, 0, 1, 3, 5, 9):
        for got, want in zip(m(x, np.int64(trips)), g.run(x, np.int64(trips)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_library_loops_until_a_condition_is_false(tmp_path: Path) -> None:
    b = Builder("count")
    limit = b.input("limit", (), "int64")
    true, zero = b.param("true", np.asarray(True)), b.param("zero", np.int64(0))
    b.output("total", b.node("loop", "", true, zero, limit, bodies=(counting(),), carried=1))
    b.graph().export(tmp_path / "libcount.so")
    library = ctypes.CDLL(str(tmp_path / "libcount.so"))
    library.count_arena_bytes.restype = ctypes.c_int64
    arena = aligned_empty((library.count_arena_bytes(),), np.dtype(np.uint8))
    for number in (-5, 1, 3, 4, 1000, 100_000):
        total, given = np.zeros((), "int64"), np.asarray(number, "int64")
        assert library.count(*(ctypes.c_void_p(array.ctypes.data) for array in (given, total, arena))) == 0
        assert total == max(-(-number // 3) * 3, 3)


def conditions(depth: int) -> Graph:
    """So many conditions inside of each other."""
    b = Builder("inner")
    b.input("c", (), "bool")
    b.output("y", b.node("cos", b.input("x", (3,))))
    inner = otherwise = b.graph()
    for _ in range(depth):
        b = Builder("outer")
        c, x = b.input("c", (), "bool"), b.input("x", (3,))
        b.output("y", b.node("if", c, c, b.node("sin", x), bodies=[inner, otherwise]))
        inner = b.graph()
    return inner


def test_chains_of_conditions_are_read_back_up_to_a_depth_beyond_which_they_are_refused() -> None:
    g, x = conditions(40), np.ones(3, "float32")
    assert tw.graph.parse(str(g), params=g.params) == g
    np.testing.assert_allclose(tw.build(g)(np.array(True), x), g.run(np.array(True), x)[0], rtol=1e-6)
    with pytest.raises(tw.GraphError, match="nested more than 64 deep"):
        conditions(65)
