"""Gradients through branches and loops of a graph: against finite differences, and as one native call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder, Graph

REAL = "float64"


def check(g: Graph, wrt: list[str], *arrays: Any) -> None:
    """Assert that the gradients are those of differences, and that what is built gives them."""
    d = g.gradient("loss", wrt)
    assert tw.graph.parse(str(d), d.params) == d
    found = d.run(*arrays)
    for ours, theirs in zip(tw.build(d)(*arrays), found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    loss = list(g.outputs).index("loss")
    for name, gradient in zip(wrt, found[-len(wrt) :], strict=True):
        number, step = list(g.inputs).index(name), 1e-6
        for at in np.ndindex(gradient.shape):
            sides: list[float] = []
            for sign in (1, -1):
                moved = list(arrays)
                moved[number] = np.array(arrays[number])
                moved[number][at] += sign * step
                sides.append(float(g.run(*moved)[loss]))
            assert gradient[at] == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-6, abs=1e-7)


def power(count: tuple[int, ...] = (16,)) -> Graph:
    """x ** n by a loop that goes on while there are factors left."""
    body = Builder("body")
    body.input("i", (), "int64")
    y, left, x = body.input("y", (), REAL), body.input("left", (), "int64"), body.input("x", (), REAL)
    less = body.node("subtract", left, body.param("one", np.asarray(1)))
    body.output("go", body.node("greater", less, body.param("zero", np.asarray(0))))
    body.output("next", body.node("multiply", y, x))
    body.output("less", less)
    b = Builder("power")
    x, n = b.input("x", (), REAL), b.input("n", (), "int64")
    go = b.node("greater", n, b.param("zero", np.asarray(0)))
    y, _ = b.nodes(
        "loop", "", go, b.param("start", np.float64(1)), n, x, bodies=(body.graph(),), carried=2, count=count
    )
    b.output("loss", y)
    return b.graph()


def test_a_power_by_a_while_loop() -> None:
    d = power().gradient("loss", "x")
    m = tw.build(d)
    for n in (0, 1, 5, 16):
        expected = [1.3**n, n * 1.3 ** (n - 1)]
        np.testing.assert_allclose(d.run(np.asarray(1.3), np.asarray(n)), expected, rtol=1e-12)
        np.testing.assert_allclose(m(np.asarray(1.3), np.asarray(n)), expected, rtol=1e-12)


def branch(operator: str) -> Graph:
    b = Builder(operator)
    x, w = b.input("x", (3,), REAL), b.input("w", (3,), REAL)
    b.output("y", b.node(operator, x, w))
    b.output("z", b.node("sin", x))
    return b.graph()


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch(condition: bool) -> None:
    b = Builder("f")
    x, w, c = b.input("x", (3,), REAL), b.input("w", (3,), REAL), b.input("c", (), "bool")
    y, z = b.nodes("if", c, x, w, bodies=(branch("multiply"), branch("divide")))
    b.output("loss", b.node("sum", b.node("multiply", y, z), axes=(0,)))
    check(b.graph(), ["x", "w"], np.array([0.3, -1.2, 2.0]), np.array([1.5, 0.7, -2.0]), np.asarray(condition))


def test_a_recurrence_whose_rows_count_too() -> None:
    body = Builder("step")
    i, h = body.input("i", (), "int64"), body.input("h", (4,), REAL)
    w, xs = body.input("w", (4, 4), REAL), body.input("xs", (5, 4), REAL)
    following = body.node("tanh", body.node("add", body.node("matmul", h, w), body.node("take", xs, i, axis=0)))
    body.output("following", following)
    body.output("row", body.node("square", following))
    b = Builder("recurrent")
    xs, w, h = b.input("xs", (5, 4), REAL), b.input("w", (4, 4), REAL), b.input("h", (4,), REAL)
    last, rows = b.nodes(
        "loop", b.param("trips", np.asarray(5)), "", h, w, xs, bodies=(body.graph(),), carried=1, count=(5,)
    )
    b.output("loss", b.node("add", b.node("sum", rows, axes=(0, 1)), b.node("sum", last, axes=(0,))))
    random = np.random.default_rng(0)
    check(b.graph(), ["xs", "w", "h"], *(random.standard_normal(shape) for shape in ((5, 4), (4, 4), (4,))))


def test_a_loop_of_which_nobody_says_how_often_it_runs_is_refused() -> None:
    with pytest.raises(tw.GraphError, match=r"TW0930: a loop without a bound on its iterations has no gradient"):
        power(count=()).gradient("loss", "x")


def test_a_loop_that_never_runs_gives_what_it_is_given() -> None:
    body = Builder("body")
    body.input("i", (), "int64")
    x, w = body.input("x", (3,), REAL), body.input("w", (3,), REAL)
    body.output("next", body.node("multiply", x, w))
    body.output("row", body.node("sin", x))
    b = Builder("never")
    x, w = b.input("x", (3,), REAL), b.input("w", (3,), REAL)
    last, rows = b.nodes("loop", "", "", x, w, bodies=(body.graph(),), carried=1, count=(0,))
    b.output("loss", b.node("sum", b.node("add", b.node("square", last), b.node("sum", rows, axes=(0,))), axes=(0,)))
    check(b.graph(), ["x", "w"], np.array([0.3, -1.2, 2.0]), np.array([1.5, 0.7, -2.0]))
