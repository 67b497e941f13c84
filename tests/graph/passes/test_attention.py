"""Attention in the forms in which models write it is one operator, one kernel, and computes what the graph says."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder
from tilewright.graph.comparison import difference

NOT_ASKED = ("groups", "weights_int8", "weights_int4")
"""Passes that put attention into a kernel with its mask, or round weights."""
LOWEST = float(np.finfo("float32").min)


def written_out(form: str, mask: str, shared: int = 1, keys: int | str = 7) -> Builder:
    """Six heads of five queries; keys for so many heads together; how scores are scaled; what says which keys are seen."""
    b = Builder("written")
    q, k, v = (
        b.input("q", (2, 6, 5, 4)),
        b.input("k", (2, 6 // shared, keys, 4)),
        b.input("v", (2, 6 // shared, keys, 3)),
    )
    if shared > 1:
        k, v = (
            b.node(
                "reshape",
                b.node(
                    "broadcast_to",
                    b.node("reshape", each, shape=(2, 6 // shared, 1, keys, depth)),
                    shape=(2, 6 // shared, shared, keys, depth),
                ),
                shape=(2, 6, keys, depth),
            )
            for each, depth in ((k, 4), (v, 3))
        )
    number = itertools.count()

    def param(value: float) -> str:
        return b.param(f"c{next(number)}", np.asarray(value, "float32"))

    if form == "operands":
        q, k = b.node("multiply", q, param(0.5)), b.node("divide", k, param(2.0))
    scores = b.node("matmul", q, b.node("transpose", k, axes=(0, 1, 3, 2)))
    if form == "product":
        scores = b.node("multiply", param(0.25), scores)
    elif form == "quotient":
        scores = b.node("divide", scores, param(4.0))
    if "add" in mask:
        added = (
            b.node("where", b.input("m", (2, 1, 5, keys), "bool"), param(0.0), param(LOWEST))
            if "chosen" in mask
            else b.input("m", (6, 1, keys))
        )
        scores = b.node("add", added, scores)
    if "twice" in mask:
        scores = b.node("add", scores, b.input("n", (2, 1, 5, keys)))
    if mask == "where":
        scores = b.node("where", b.input("m", (5, keys), "bool"), scores, param(-math.inf))
    if mask == "filled":
        scores = b.node("where", b.input("m", (2, 1, 1, keys), "bool"), param(LOWEST), scores)
    weights = b.node("softmax", scores, axis=3)
    if mask == "where":
        weights = b.node("where", b.node("isnan", weights), param(0.0), weights)
    b.output("y", b.node("matmul", weights, v))
    return b


def arrays(g: Any, sizes: dict[str, int]) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    shapes = [tuple(sizes.get(str(extent), extent) for extent in kind.shape) for kind in g.inputs.values()]
    return [
        random.random(shape) < 0.4 if kind.dtype == "bool" else random.standard_normal(shape).astype("float32")
        for shape, kind in zip(shapes, g.inputs.values(), strict=True)
    ]


@pytest.mark.parametrize(
    ("form", "mask", "shared"),
    [
        ("plain", "none", 3),
        ("product", "add", 1),
        ("quotient", "add chosen", 2),
        ("operands", "where", 1),
        ("plain", "filled", 6),
        ("operands", "add twice", 1),
    ],
)
def test_what_models_write_is_one_operator(form: str, mask: str, shared: int) -> None:
    g = written_out(form, mask, shared).graph()
    after = g.transform(*(name for name in tw.graph.PASSES if name not in NOT_ASKED))
    assert [node.operator for node in after.nodes].count("attention") == 1
    assert not {"softmax", "matmul"} & {node.operator for node in after.nodes}
    assert (
        after.inputs["q"].shape[1]
        == shared * after.types[next(node for node in after.nodes if node.operator == "attention").inputs[1]].shape[1]
    )
    given = arrays(g, {})
    assert difference(after.run(*given)[0], g.run(*given)[0]) <= 1e-6


def test_it_is_one_kernel_with_its_mask_over_any_number_of_keys() -> None:
    g = written_out("product", "add", 2, "n").graph()
    m = tw.build(g)
    for keys in (1, 13):
        given = arrays(g, {"n": keys})
        assert difference(m(*given), g.run(*given)[0]) <= 1e-5
    sized = tw.build(written_out("product", "add", 2, 13).graph())
    assert sum(sized.kernels.values()) == 1
    assert difference(sized(*given), m(*given)) <= 1e-6


@pytest.mark.parametrize("unseen", ["zero", "nan"])
def test_a_query_that_sees_no_key_gives_what_the_graph_says(unseen: str) -> None:
    g = written_out("plain", "where" if unseen == "zero" else "add").graph()
    given = arrays(g, {})
    given[3][2] = False if unseen == "zero" else -math.inf
    y, expected = tw.build(g)(*given), g.run(*given)[0]
    assert np.isnan(expected).any() == (unseen == "nan")
    assert difference(y, expected) <= 1e-5


def test_what_others_read_stays_as_it_is() -> None:
    b = written_out("product", "add")
    b.output("weights", next(node for node in b.graph().nodes if node.operator == "softmax").outputs[0])
    after = b.graph().transform()
    assert {"softmax", "matmul"} <= {node.operator for node in after.nodes}


@pytest.mark.parametrize(
    ("kind", "queries", "keys"),
    [
        ("bool", 7, 7),
        ("added", 3, 7),
        ("lowest", 5, 5),
        ("all", 2, 3),
        ("row", 2, 3),
        ("another", 5, 5),
        ("weak", 5, 5),
    ],
)
def test_a_mask_that_is_known_to_be_causal_is_no_mask(kind: str, queries: int, keys: int) -> None:
    b = Builder("known")
    q, k, v = b.input("q", (2, queries, 4)), b.input("k", (2, keys, 4)), b.input("v", (2, keys, 3))
    seen = np.tril(np.ones((queries, keys), bool), keys - queries)
    if kind in ("all", "row"):
        seen = np.ones((1 if kind == "row" else queries, keys), bool)
    if kind == "another":
        seen[3, 4] = True
    hidden = {"added": -math.inf, "lowest": LOWEST, "weak": -5.0}.get(kind)
    mask = seen if hidden is None else np.where(seen, np.float32(0), np.float32(hidden))[None]
    b.output("y", b.node("attention", q, k, v, b.param("m", mask), scale=0.5))
    g = b.graph()
    (node,) = g.transform("attention").nodes
    assert (len(node.inputs) == 4) == (kind in ("another", "weak"))
    assert node.attributes["causal"] == (kind in ("bool", "added", "lowest"))
    given = arrays(g, {})
    assert difference(g.transform("attention").run(*given)[0], g.run(*given)[0]) <= 1e-6
