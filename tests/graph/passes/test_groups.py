"""Nodes that one kernel computes as one node, and texts that are not a body of one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import OPERATORS, Builder


def network() -> tw.graph.Graph:
    random = np.random.default_rng(0)
    b = Builder()
    x = b.input("x", (1, 3, 6, 5))
    for at in range(3):
        w = b.param(f"w{at}", (random.standard_normal((3, 3, 3, 3)) / 5).astype("float32"))
        y = b.node("conv", x, w, padding=(1, 1, 1, 1), source=f"conv {at}")
        x = b.node("relu", b.node("add", b.node("clip", y, low=-1.0, high=float("inf")), x), source=f"relu {at}")
    b.output("y", x)
    return b.graph()


def test_a_group_is_built_as_its_nodes_are() -> None:
    g = network()
    after = g.transform()
    assert [node.operator for node in after.nodes] == ["fused"] * 3
    assert (
        after.nodes[0].attributes["body"]
        == "relu(add(clip(conv(x0, x1, padding=(1, 1, 1, 1)), low=-1.0, high=inf), x0))"
    )
    assert after.nodes[0].source == "conv 0 relu 0"
    x = np.random.default_rng(1).standard_normal((1, 3, 6, 5)).astype("float32")
    np.testing.assert_array_equal(after.run(x)[0], g.run(x)[0])
    np.testing.assert_array_equal(tw.build(after)(x), tw.build(g)(x))
    assert tw.graph.parse(str(after), after.params) == after and after.transform() is after


def test_what_is_read_twice_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder()
    y = b.node("exp", b.input("x", (3,)))
    b.output("y", b.node("multiply", y, y))
    after = b.graph().transform("groups")
    row = OPERATORS["exp"]
    calls: list[int] = []
    monkeypatch.setitem(OPERATORS, "exp", replace(row, reference=lambda x: calls.append(1) or row.reference(x)))
    after.run(np.zeros(3, "float32"))
    assert calls == [1]


def test_extents_over_symbols_stand_beside_the_body() -> None:
    b = Builder()
    x = b.node("relu", b.input("x", ("n", 3)))
    b.output("y", b.node("exp", b.node("reshape", x, shape=("n * 3", 1))))
    g = b.graph()
    after = g.transform("groups")
    (node,) = after.nodes
    assert node.attributes == {"body": "exp(reshape(relu(x0), shape=(size0, 1)))", "sizes": ("n * 3",)}
    assert tw.graph.parse(str(after)) == after and after.outputs == g.outputs
    x = np.zeros((2, 3), "float32")
    assert tw.build(g)(x).tolist() == tw.build(after)(x).tolist() == after.run(x)[0].tolist() == [[1]] * 6
    assert after.with_shapes({"x": (2, 3)}).nodes[0].attributes["sizes"] == (6,)


def test_what_not_all_sizes_fit_stays_outside_of_groups() -> None:
    b = Builder()
    x = b.node("relu", b.input("x", ("n", 3)))
    b.output("y", b.node("exp", b.node("reshape", x, shape=("n // 2", 6))))
    g = b.graph()
    assert g.transform("groups") is g
    with pytest.raises(tw.GraphError, match="TW0906"):
        tw.build(g.transform())(np.zeros((3, 3), "float32"))


@pytest.mark.parametrize(
    "body",
    [
        "relu(",
        "x0",
        "relu(x9)",
        "relu()",
        "relu(None)",
        "relo(x0)",
        "fused(x0, body='relu(x0)')",
        "__import__('os')",
        "relu(x0)(x0)",
        "reshape(x0, shape=('n',))",
        "reshape(x0, shape=(size0,))",
        "reshape(x0, shape=size0)",
        "relu(x0, **x1)",
        "split(x0, sizes=(1, 1), axis=0)",
        "relu(relu)",
        "relu(x00)",
        "clip(x0, low=[1])",
        "relu(" * 70 + "x0" + ")" * 70,
        "(" * 5000,
        "relu(x0) #" + "x" * 20_000,
        "relu(lambda: x0)",
        "add(x0, *x0)",
    ],
)
def test_a_text_that_is_no_body_is_refused(body: str) -> None:
    b = Builder()
    with pytest.raises(tw.GraphError, match="TW0903"):
        b.node("fused", b.input("x", (2, 3)), body=body)
