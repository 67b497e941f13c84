"""Weights in 8 and 4 bits: what is read becomes less, and how far results move."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.cli.command import main
from tilewright.graph import PASSES, Builder


def two_layers(rows: int | str, depth: int = 97) -> tw.graph.Graph:
    random = np.random.default_rng(3)
    b = Builder("two_layers")
    first, second = (
        b.param(name, (random.standard_normal(shape) / 8).astype("float32"))
        for name, shape in (("w", (depth, 129)), ("v", (65, 129)))
    )
    hidden = b.node(
        "relu",
        b.node(
            "add",
            b.node("matmul", b.input("x", (1, rows, depth)), first),
            b.param("c", random.standard_normal(129).astype("float32")),
        ),
    )
    b.output("y", b.node("matmul", hidden, second, transpose_b=True))
    return b.graph()


@pytest.mark.parametrize("bits, error", [(8, 0.02), (4, 0.2)])
def test_products_come_near_those_of_the_weights_they_were(bits: int, error: float) -> None:
    g = two_layers(3)
    packed = g.transform(f"weights_int{bits}")
    assert [node.operator for node in packed.nodes] == ["weight_only_matmul", "add", "relu", "weight_only_matmul"]
    bytes_of = [sum(array.nbytes for array in one.params.values()) for one in (g, packed)]
    assert bytes_of[1] < bytes_of[0] * (bits + 0.5) / 32 * 1.6, "a scale for each 32; panels and groups are filled up"
    m, x = tw.build(packed), np.random.default_rng(0).standard_normal((1, 3, 97)).astype("float32")
    expected = g.run(x)[0]
    assert m.verify(x)
    assert 0 < np.abs(m(x) - expected).max() < error * np.abs(expected).max()
    assert any("weight_only_matmul+add+relu" in row.operators for row in m.profile(x).rows)


def test_no_build_packs_weights_that_nobody_asked_for() -> None:
    g = two_layers("n")
    assert "weight_only_matmul" not in str(g.transform())
    assert str(PASSES["weights_int8"]).endswith("(only where it is named: values change)")
    x = np.random.default_rng(0).standard_normal((1, 2, 97)).astype("float32")
    np.testing.assert_allclose(tw.build(g.transform("weights_int8"))(x), g.run(x)[0], atol=0.1)


def test_a_table_that_is_looked_up_and_turned_for_scores_is_packed_for_them() -> None:
    random = np.random.default_rng(1)
    b = Builder("words")
    table = b.param("table", random.standard_normal((65, 33)).astype("float32"))
    word = b.node("take", table, b.input("word", (1,), "int64"), axis=0)
    b.output("scores", b.node("matmul", word, b.node("transpose", table, axes=(-1, 0))))
    packed = b.graph().transform("weights_int8")
    assert [node.operator for node in packed.nodes] == ["take", "weight_only_matmul"]
    at = np.asarray([7])
    expected = b.graph().run(at)[0]
    assert np.abs(packed.run(at)[0] - expected).max() < 0.03 * np.abs(expected).max()


def test_what_is_no_matrix_of_finite_weights_stays() -> None:
    g = two_layers(2, depth=31)
    assert next(node.operator for node in g.transform("weights_int4").nodes) == "matmul", (
        "less than a group along the sum"
    )
    b = Builder()
    b.output("y", b.node("matmul", b.input("x", (2, 33)), b.param("w", np.full((33, 4), np.inf, "float32"))))
    assert b.graph().transform("weights_int4") is not None and "weight_only" not in str(
        b.graph().transform("weights_int4")
    )


def test_a_library_holds_the_packed_weights(tmp_path: Path) -> None:
    two_layers(1).save(tmp_path / "net.safetensors")
    sizes: list[int] = []
    for passes in ([], ["--passes", "weights_int4"]):
        out = tmp_path / f"lib{len(passes)}.so"
        assert main(["compile", str(tmp_path / "net.safetensors"), "-o", str(out), "--weights", "file", *passes]) == 0
        sizes.append((tmp_path / f"{len(passes)}.weights").stat().st_size)
    assert sizes[1] < sizes[0] / 3.5
