"""Passes in their order: chosen, named, watched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.cli.command import main
from tilewright.graph import PASSES, Builder

TEXT = """graph g {
  input x: float32[2, 3]
  param two: float32[] = (2.0)
  a: float32[2, 3] = power(x, two)    # first
  b: float32[2, 3] = power(x, two)
  c: float32[2, 3] = exp(b)
  d: float32[2, 3] = log(c)
  y: float32[2, 3] = add(a, d)
  output y
}"""


def operators(g: tw.graph.Graph) -> list[str]:
    return [node.operator for node in g.nodes]


DEFAULT = [name for name, one in PASSES.items() if one.rounding != "fast" and name != "groups"]


def test_the_default_pipeline_holds_for_floats() -> None:
    after = tw.graph.parse(TEXT).transform(*DEFAULT)
    assert operators(after) == ["square", "exp", "log", "add"]
    assert after.nodes[0].source == "first", "a node that is replaced is still known by its name"


def test_passes_are_chosen_by_name() -> None:
    g = tw.graph.parse(TEXT)
    assert operators(g.transform("common")) == ["power", "exp", "log", "add"]
    assert operators(g.transform("common", "fast_algebra")) == ["power", "add"]
    assert g.transform("moves") is g
    with pytest.raises(tw.GraphError, match=r"(?s)TW0914: there is no pass 'fuse'.*dead, quantized, common"):
        g.transform("fuse")
    with pytest.raises(tw.GraphError, match="TW0914"):
        g.transform(["common"])  # type: ignore[arg-type]


def test_a_build_takes_the_passes_that_its_options_allow() -> None:
    x = np.full((2, 3), 10, "float32")  # exp(100) overflows
    g = tw.graph.parse(TEXT)
    assert np.isinf(tw.build(g)(x)).all()
    np.testing.assert_array_equal(tw.build(g, fast_math=True)(x), np.full((2, 3), 200, "float32"))


def test_the_list_says_which_passes_change_rounding() -> None:
    assert not PASSES["algebra"].changes_rounding and PASSES["powers"].changes_rounding
    assert str(PASSES["dead"]) == "nodes and parameters that no output needs are left out (keeps every bit)"


def test_what_each_pass_changed_is_written_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_DUMP", str(tmp_path))
    tw.graph.parse(TEXT).transform("dead", "common", "powers")
    texts = {path.name: path.read_text() for path in (tmp_path / "graph.g").iterdir()}
    assert sorted(texts) == ["00_common.diff", "01_powers.diff"]
    assert "-  b: float32[2, 3] = power(x, two)\n" in texts["00_common.diff"]
    assert "+  a: float32[2, 3] = square(x)    # first\n" in texts["01_powers.diff"]


def test_symbols_stay_symbols() -> None:
    g = tw.graph.parse("""graph g {
      input x: float32[n, 3]
      a: float32[n * 3] = reshape(x, shape=("n * 3",))
      y: float32[n, 3] = reshape(a, shape=("n", 3))
      z: float32[n, 3] = relu(y)
      output z
    }""")
    assert operators(g.transform()) == ["relu"]


def test_without_names_there_is_a_node_for_each_kernel() -> None:
    g = tw.graph.parse(TEXT)
    after = g.transform()
    assert operators(after) == ["fused"]  # two read the square, which costs little to compute for both
    assert after.nodes[0].attributes["body"] == "add(square(x0), log(exp(square(x0))))" and after.nodes[0].inputs == (
        "x",
    )


def test_the_command_transforms_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.txt").write_text(TEXT)
    assert main(["transform", str(tmp_path / "g.txt"), "--passes", "common,powers"]) == 0
    told = capsys.readouterr()
    assert "a: float32[2, 3] = square(x)" in told.out and "g: 5 nodes before, 4 after" in told.err
    assert main(["transform", str(tmp_path / "g.txt"), "-o", str(tmp_path / "h.safetensors")]) == 0
    assert len(tw.graph.load(tmp_path / "h.safetensors").nodes) == 1
    both = ["transform", str(tmp_path / "g.txt"), "--page", str(tmp_path / "g.html"), "-o", str(tmp_path / "i.txt")]
    assert main(both) == 0 and (tmp_path / "g.html").exists() and "fused(" in (tmp_path / "i.txt").read_text()
    assert main(["transform", "--list"]) == 0 and "fast_algebra   rules of real numbers" in capsys.readouterr().out
    assert main(["transform", str(tmp_path / "g.txt"), "--passes", "nothing"]) == 1
    assert "TW0914" in capsys.readouterr().err


def test_a_factor_of_a_product_of_vectors_stays() -> None:
    b = tw.graph.Builder("vectors")
    product = b.node("matmul", b.input("x", (5,)), b.param("w", np.arange(5, dtype="float32")))
    b.output("y", b.node("multiply", product, b.param("c", np.float32(3))))
    after = b.graph().transform("scales")
    assert operators(after) == ["matmul", "multiply"], "there is no channel that the factor could go into"


def test_a_page_shows_what_each_pass_changed(tmp_path: Path) -> None:
    text = tw.graph.parse(TEXT).show(tmp_path / "steps.html").read_text()
    assert "<h2>1. common</h2>" in text and ". groups</h2>" in text and "kernels, in the order" not in text
    assert '<span class="gone">-  b: float32[2, 3] = power(x, two)</span>' in text
    assert tw.graph.parse(TEXT).show(tmp_path / "named.html", "common").read_text().count("<h2>") == 2


def test_a_stack_of_one_value_moves_nothing() -> None:
    b = tw.graph.Builder()
    b.output("y", b.node("reshape", b.node("relu", b.node("stack", b.input("x", ("n", 3)), axis=1)), shape=("n", 3)))
    after = b.graph().transform("moves", "sinks")
    assert [node.operator for node in after.nodes] == ["relu"]


def test_what_is_known_is_read_at_a_place_that_symbols_tell() -> None:
    b = tw.graph.Builder()
    x, w = b.input("x", ("n", 2)), b.param("w", np.arange(10, dtype="float32").reshape(5, 2))
    row = b.node(
        "slice", w, begin=("n",), end=("n + 1",), step=(1,), axes=(0,)
    )  # of shapes without symbols, both of them
    b.output("y", b.node("add", x, row))
    b.output("at", b.node("arange", shape=(2,), start=("n",)))
    g = b.graph()
    for n in (0, 3):
        given = np.ones((n, 2), "float32")
        for got, expected in zip(tw.build(g)(given), g.run(given), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_a_transformed_graph_keeps_what_derivatives_do_not_pass() -> None:
    b = Builder()
    x = b.input("x", (3,), "float64")
    kept = b.node("stop_gradient", b.node("square", x))
    b.output("y", b.node("sum", b.node("multiply", x, kept), axes=(0,)))
    numbers = np.array([1.0, 2.0, 3.0])
    for g in (b.graph(), b.graph().transform(), b.graph().transform("algebra", "common")):
        np.testing.assert_allclose(g.gradient("y", ["x"]).run(numbers)[1], numbers**2)
        assert tw.build(g)(numbers) == 36
    assert "stop_gradient" not in operators(b.graph().transform("stops"))
