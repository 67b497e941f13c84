"""A graph: built, printed, parsed, kept in a file, run by the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.base.errors import GraphError
from tilewright.graph import Builder, Graph


def network(weights: np.ndarray | None = None) -> Graph:
    b = Builder("net")
    x = b.input("x", (1, 3, "h", "w"))
    w = b.param(
        "w", np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("float32") if weights is None else weights
    )
    y = b.node("relu", b.node("conv", x, w, padding=(1, 1, 1, 1), source="Conv_0"), source='a "name"\n')
    b.output("mean", b.node("mean", y, axes=(2, 3)))
    b.output("y", y)
    return b.graph()


def test_types_are_found_by_declaring_symbols_included() -> None:
    g = network()
    assert g.inputs == {"x": ((1, 3, "h", "w"), "float32")}
    assert g.outputs == {"mean": ((1, 4), "float32"), "y": ((1, 4, "h", "w"), "float32")}
    assert g.symbols == ["h", "w"] and [node.source for node in g.nodes] == ["Conv_0", 'a "name"\n', ""]


def test_the_text_parses_back_to_an_equal_graph() -> None:
    g = network()
    again = tw.graph.parse(str(g))
    assert again == g and str(again) == str(g)
    x = np.ones((1, 3, 2, 5), "float32")
    np.testing.assert_array_equal(tw.graph.parse(str(g), g.params).run(x)[0], g.run(x)[0])
    with pytest.raises(tw.GraphError, match=r"TW0907: graph net has no value for w"):
        again.run(x)


def test_names_values_and_extents_of_every_kind_survive_the_text() -> None:
    b = Builder("a graph")
    x = b.input("input:0", ("n", "n * 2 + 1", 0), "float16")
    for at, values in enumerate(([True, False], [1.5, float("inf"), float("nan"), -0.0], [2**63 - 1, -(2**63)], 3)):
        b.output(f"out {at}", b.node("identity", b.param(f"p/{at}", np.asarray(values))))
    b.output("none", b.node("sum", x, axes=(), outputs=["a.b/c:1"]))
    g = b.graph()
    assert tw.graph.parse(str(g)) == g
    assert "input:0: float16[n, n * 2 + 1, 0]" in str(g)
    assert np.isnan(tw.graph.parse(str(g)).params["p/1"][2]) and np.signbit(tw.graph.parse(str(g)).params["p/1"][3])


@pytest.mark.parametrize(
    "before, after, reason",
    [
        ("relu(v2)", "relo(v2)", "there is no operator 'relo'"),
        ("relu(v2)", "relu(v9)", "no value 'v9'"),
        ("relu(v2)", "relu(v2, v2)", "too many inputs"),
        ("relu(v2)", "relu(v2, slope=1)", "has no attribute 'slope'"),
        ("groups=1", "groups=2", "is not a program"),
        ("v3: float32[1, 4, h, w]", "v3: float32[1, 4, h, h]", "v3 is float32.1, 4, h, w., not"),
        ("v3: float32[1, 4, h, w]", "v3: floaty[1, 4, h, w]", "not of floaty"),
        ("float32[1, 3, h, w]", "float32[1, 3, h(, w]", "invalid extent"),
        ("float32[1, 3, h, w]", "float32[1, 3, -1, w]", "invalid extent|integer"),
        ("float32[1, 3, h, w]", "float32[1, 3, h / 2, w]", "which division"),
        ("output y = v3", "output y = v3 v3", "where the line ends"),
        ("output y = v3", "output mean = v3", "two outputs"),
        ("(2, 3)", "((((((((((2))))))))))", "nested too deep"),
        ("(2, 3)", "(7,)", "is not a program"),
        ("}", "", "expected|found"),
        ("graph net", "graf net", "expected graph"),
    ],
)
def test_a_text_that_means_nothing_is_refused_with_its_line(before: str, after: str, reason: str) -> None:
    text = str(network())
    assert before in text
    with pytest.raises(tw.GraphError, match=rf"(?s)TW0904: line \d+ .*({reason})"):
        tw.graph.parse(text.replace(before, after, 1))


def test_params_with_other_bits_make_another_graph() -> None:
    weights = np.ones((4, 3, 3, 3), "float32")
    g = network(weights)
    weights[0, 0, 0, 0] = 2  # g has a copy
    assert g.params["w"].max() == 1 and network(weights) != g
    with pytest.raises(tw.GraphError, match="another digest"):
        tw.graph.parse(str(g), {"w": weights})


def test_a_file_keeps_graph_and_params(tmp_path: Path) -> None:
    g = network()
    g.save(tmp_path / "net.safetensors")
    loaded = tw.graph.load(tmp_path / "net.safetensors")
    assert loaded == g and np.array_equal(loaded.params["w"], g.params["w"])
    assert [path.name for path in tmp_path.iterdir()] == ["net.safetensors"]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    network().save(path)
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])

    def with_entry(**changed: object) -> bytes:
        text = json.dumps({**header, "w": {**header["w"], **changed}}).encode()
        return len(text).to_bytes(8, "little") + text + whole[8 + length :]

    damaged = [whole[:cut] for cut in (0, 7, 8, 100, len(whole) - 1)]
    damaged += [
        b"\xff" * 8 + whole[8:],
        with_entry(dtype="F64"),
        with_entry(shape=[1 << 61, 1 << 61]),
        with_entry(shape=[-1]),
        with_entry(data_offsets=[0, 1 << 40]),
        with_entry(data_offsets=[5]),
        with_entry(dtype=[]),
        with_entry(shape=None),
    ]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(tw.GraphError, match="TW0905"):
            tw.graph.load(path)
    with pytest.raises(tw.GraphError, match=r"TW0905.*cannot be read"):
        tw.graph.load(tmp_path / "nothing")


def test_builders_refuse_what_is_no_graph() -> None:
    b = Builder()
    b.input("x", (2, 3))
    with pytest.raises(tw.GraphError, match="TW0901: graph main defines 'x' twice"):
        b.input("x", (2,))
    with pytest.raises(tw.GraphError, match="TW0901: graph main has no value 'y'"):
        b.node("relu", "y")
    with pytest.raises(tw.GraphError, match="TW0902: there is no operator"):
        b.node("conv7", "x")
    with pytest.raises(tw.GraphError, match=r"TW0902: sum needs attribute 'axes'"):
        b.node("sum", "x")
    with pytest.raises(tw.GraphError, match=r"TW0903: reshape\(float32\[2, 3\]\) is not a program"):
        b.node("reshape", "x", shape=(4,))
    with pytest.raises(tw.GraphError, match="TW0901: values of a graph are not of complex64"):
        b.input("z", (2,), "complex64")
    with pytest.raises(tw.GraphError, match="TW0901: a shape has an invalid extent"):
        b.input("z", (-2,))


def test_calls_that_do_not_fit_say_what_is_taken() -> None:
    g = network()
    x = np.ones((1, 3, 2, 5), "float32")
    wrong = [
        ((), "not given x"),
        ((x, x), "takes 1 inputs, and got 2"),
        ((x[0],), "of 3 dimensions"),
        ((x.astype("float64"),), "got float64"),
        ((x[:, :2],), "got the shape"),
        (("x",), "numpy makes no array|got"),
    ]
    for arrays, reason in wrong:
        with pytest.raises(tw.GraphError, match=rf"(?s)TW0906.*({reason}).*allowed: x: float32\[1, 3, h, w\]"):
            g.run(*arrays)
    with pytest.raises(tw.GraphError, match=r"(?s)TW0906.*'z' is none of its inputs"):
        g.run(z=x)
    np.testing.assert_array_equal(g.run(x=x)[0], g.run(x.tolist())[0])


@pytest.mark.parametrize(
    ("begin", "end", "step", "shape"),
    [
        (0, "s", 1, "s"),
        (1, "s", 1, "s - 1"),
        (0, -1, 1, "s - 1"),
        (-2, 1 << 62, 1, 2),
        (0, 1 << 62, 2, "(s + 1) // 2"),
        (0, "s - 1", 3, "(s + 1) // 3"),
        (1, 4, 1, "min(s - 1, 3)"),
    ],
)
def test_ends_of_slices_are_symbols(begin: Any, end: Any, step: int, shape: Any) -> None:
    b = Builder()
    part = b.node("slice", b.input("x", (2, "s")), begin=(begin,), end=(end,), step=(step,), axes=(1,))
    b.output("part", part)
    assert b.types[part].shape == (2, shape)
    g = b.graph()
    x = np.arange(14, dtype="float32").reshape(2, 7)
    np.testing.assert_array_equal(tw.build(g)(x), g.run(x)[0])


def test_parts_of_a_split_are_symbols() -> None:
    b = Builder()
    for at, part in enumerate(b.nodes("split", b.input("x", ("s", 3)), sizes=(2, "s - 3", 1), axis=0)):
        b.output(f"part{at}", part)
    g = b.graph()
    x = np.arange(21, dtype="float32").reshape(7, 3)
    for ours, theirs in zip(tw.build(g)(x), (x[:2], x[2:6], x[6:]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(GraphError, match="do not make up s"):
        b.nodes("split", "x", sizes=(2, "s"), axis=0)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("n * m * 8 // (n * 8)", "m"),
        ("(n + 3) // 4 * m * 6 // (m * 4)", "(n + 3) // 4 * 3 // 2"),
        ("n * m // (m * n)", 1),
        ("8 // n", "8 // n"),
    ],
)
def test_quotients_of_extents_are_written_without_what_both_sides_are_multiplied_by(
    said: str, meant: int | str
) -> None:
    b = Builder()
    x = b.input("x", ("n", "m"))
    b.output("y", b.node("broadcast_to", b.node("sum", x, axes=(0, 1)), shape=(said,)))
    assert b.graph().outputs["y"].shape == (meant,)
