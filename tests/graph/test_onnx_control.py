"""Models of ONNX with graphs inside of their nodes, recurrent layers, and shapes that depend on what is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw

pytest.importorskip("onnx.parser", reason="the package onnx, which reads the models, is not installed")
import onnx.parser
import onnx.reference


def model(body: str, inputs: str, outputs: str, opset: int = 17) -> Any:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> net ({inputs}) => ({outputs}) {{ {body} }}'
    return onnx.parser.parse_model(text)


def check(proto: Any, *inputs: dict[str, Any], tolerance: float = 1e-5) -> Any:
    """What is built, and what the reference computes, agree with ONNX's own reference on all of these inputs."""
    g = tw.graph.from_onnx(proto)
    m = tw.build(g)
    theirs = onnx.reference.ReferenceEvaluator(proto)
    for given in inputs:
        wanted = theirs.run(None, given)
        built = m(**given)
        for results in (built if isinstance(built, list) else [built], g.run(**given)):
            for got, want in zip(results, wanted, strict=True):
                assert got.shape == want.shape and got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return g


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


BRANCHES = """
    y = If (c) <then_branch = then () => (float[n, 3] a) { t = Mul(x, x)  a = Relu(t) },
                else_branch = other () => (float[n, 3] b) { b = Add(x, w) }>
"""


def test_a_branch_is_chosen_when_the_model_runs() -> None:
    proto = model(BRANCHES, "float[n, 3] x, bool c, float[3] w", "float[n, 3] y")
    given = {"x": floats(2, 3), "w": floats(3)}
    g = check(proto, {**given, "c": np.asarray(True)}, {**given, "c": np.asarray(False), "x": floats(5, 3)})
    assert isinstance(g, tw.graph.Graph) and [node.operator for node in g.nodes] == ["if"]


def test_branches_of_other_shapes_are_told_apart_at_the_call() -> None:
    proto = model(
        """y = If (c) <then_branch = then () => (float[2, 3] a) { a = Relu(x) },
                                 else_branch = other () => (float[3, 2] b) { b = Transpose(x) }>""",
        "float[2, 3] x, bool c",
        "float[p, q] y",
    )
    g = check(proto, {"x": floats(2, 3), "c": np.asarray(True)}, {"x": floats(2, 3), "c": np.asarray(False)})
    assert g.late == ("c",)
    with pytest.raises(tw.ExportError, match=r"(?s)TW0915.*depends on values: of c"):
        g.export("libnet.so")


LOOP = """
    trips = Constant <value = int64 {{{trips}}}> ()
    last, rows = Loop (trips, c, x) <body = body (int64 i, bool on, float[3] s) => (bool go, float[3] t, float[3] r) {{
        t = Add(s, w)  r = Mul(t, t)  m = ReduceMax <keepdims = 0> (t)  go = Less(m, limit)
    }}>
"""


@pytest.mark.parametrize("condition", [True, False])
def test_rows_of_a_loop_are_as_many_as_it_runs(condition: bool) -> None:
    proto = model(
        LOOP.format(trips=6), "float[3] x, bool c, float[3] w, float limit", "float[3] last, float[k, 3] rows"
    )
    m = tw.build(tw.graph.from_onnx(proto))
    for limit, runs in ((-1, 1), (2.5, 3), (100, 6)):
        last, rows = m(np.zeros(3, "float32"), np.asarray(condition), np.ones(3, "float32"), np.float32(limit))
        sums = np.outer(np.arange(1, 1 + (runs if condition else 0)), np.ones(3, "float32"))
        np.testing.assert_array_equal(rows, sums**2)
        np.testing.assert_array_equal(last, np.full(3, len(sums), "float32"))


def test_a_loop_counts_trips_that_the_call_says_and_reads_the_graph_around() -> None:
    proto = model(
        """last = Loop (trips, , x) <body = body (int64 i, bool on, float[3] s) => (bool go, float[3] t) {
        f = Cast <to = 1> (i)  p = MatMul(s, w)  t = Add(p, f)  go = Identity(on)
    }>""",
        "float[3] x, int64 trips, float[3, 3] w",
        "float[3] last",
    )
    g = tw.graph.from_onnx(proto)
    m = tw.build(g)
    wanted, w = floats(3), floats(3, 3)
    for trips in range(4):
        np.testing.assert_allclose(m(floats(3), np.int64(trips), w), wanted, rtol=1e-5)
        wanted = wanted @ w + trips
    assert [node.operator for node in g.nodes] == ["loop"] and g.outputs["last"] == ((3,), "float32")


def test_a_scan_goes_over_slices_forward_and_backward() -> None:
    proto = model(
        """last, rows = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0],
        scan_output_axes = [1], scan_output_directions = [1],
        body = body (float[2] s, float[2] a, float[2] b) => (float[2] t, float[2] r) { p = Mul(a, b) t = Add(s, p) r = Tanh(t) }
    > (x, y, z)""",
        "float[2] x, float[2, n] y, float[n, 2] z",
        "float[2] last, float[2, n] rows",
    )
    g = tw.graph.from_onnx(proto)
    m = tw.build(g)
    for n in (1, 4):
        x, y, z = floats(2), floats(2, n), floats(n, 2)
        sums = x[:, None] + np.cumsum((y[:, ::-1] * z.T), 1)
        for got, want in zip(m(x, y, z), (sums[:, -1], np.tanh(sums)[:, ::-1]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert g.outputs["rows"] == ((2, "n"), "float32")


def test_endless_loops_and_changing_shapes_are_refused() -> None:
    endless = model(
        "last = Loop ( , , x) <body = body (int64 i, bool on, float[3] s) => (bool on2, float[3] t) "
        "{ on2 = Identity(on) t = Neg(s) }>",
        "float[3] x",
        "float[3] last",
    )
    with pytest.raises(tw.GraphError, match=r"(?s)TW0912.*Loop: it never ends"):
        tw.graph.from_onnx(endless)
    growing = model(
        "n = Constant <value = int64 {3}> () last = Loop (n, , x) <body = body (int64 i, bool on, float[m] s) => "
        "(bool on2, float[k] t) { on2 = Identity(on) t = Concat <axis = 0> (s, s) }>",
        "float[3] x",
        "float[k] last",
    )
    with pytest.raises(tw.GraphError, match=r"(?s)TW0912.*Loop: loop cannot be like this"):
        tw.graph.from_onnx(growing)


@pytest.mark.parametrize("kind, gates, results", [("RNN", 1, 2), ("GRU", 3, 2), ("LSTM", 4, 3)])
def test_recurrent_layers_of_any_number_of_steps_and_of_both_directions(kind: str, gates: int, results: int) -> None:
    hidden, width, batch = 3, 2, 2
    names = ["y", "h", "c"][:results]
    proto = model(
        f'{", ".join(names)} = {kind} <hidden_size = {hidden}, direction = "bidirectional"> (x, w, r, b)',
        f"float[t, {batch}, {width}] x, float[2, {gates * hidden}, {width}] w, float[2, {gates * hidden}, {hidden}] r, "
        f"float[2, {2 * gates * hidden}] b",
        ", ".join(f"float[a{at}, b{at}, c{at}{', d' if not at else ''}] {name}" for at, name in enumerate(names)),
    )
    w, r, b = floats(2, gates * hidden, width), floats(2, gates * hidden, hidden), floats(2, 2 * gates * hidden)
    m = tw.build(tw.graph.from_onnx(proto))
    for steps in (1, 5):
        x = floats(steps, batch, width)
        both = [recurrent(kind, x, w[0], r[0], b[0]), recurrent(kind, x[::-1], w[1], r[1], b[1])]
        rows = np.stack([both[0][0], both[1][0][::-1]], 1)
        for got, want in zip(
            m(x, w, r, b),
            [rows, *(np.stack(states) for states in zip(*(one[1] for one in both), strict=True))],
            strict=True,
        ):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def recurrent(
    kind: str, x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """All steps of one direction, and the states at last, as ONNX defines them."""

    def sigmoid(value: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-value))

    hidden = r.shape[1]
    h, c = (np.zeros((x.shape[1], hidden), "float32") for _ in range(2))
    wb, rb = np.split(b, 2)
    rows: list[np.ndarray] = []
    for now in x:
        ahead, behind = np.split(now @ w.T + wb, len(w) // hidden, 1), np.split(h @ r.T + rb, len(w) // hidden, 1)
        if kind == "RNN":
            h = np.tanh(ahead[0] + behind[0])
        elif kind == "GRU":
            z, reset = sigmoid(ahead[0] + behind[0]), sigmoid(ahead[1] + behind[1])
            h = (1 - z) * np.tanh(ahead[2] + (reset * h) @ r[2 * hidden :].T + rb[2 * hidden :]) + z * h
        else:
            i, o, f = (sigmoid(ahead[at] + behind[at]) for at in range(3))
            c = f * c + i * np.tanh(ahead[3] + behind[3])
            h = o * np.tanh(c)
        rows.append(h)
    return np.stack(rows), [h, c] if kind == "LSTM" else [h]


def test_an_open_graph_is_exported_for_values_of_its_inputs(tmp_path: Path) -> None:
    proto = model("y = Reshape(x, s)", "float[2, 3] x, int64[2] s", "float[p, q] y")
    g = tw.graph.from_onnx(proto)
    assert isinstance(g, tw.graph.OpenGraph)
    closed = g.close(floats(2, 3), np.asarray([3, 2]))
    assert closed.export(tmp_path / "libnet.so")[0].name == "libnet.so"


def test_what_is_not_zero_is_counted_when_the_model_runs() -> None:
    proto = model("y = NonZero(x) z = Transpose(y)", "float[2, 3] x", "int64[k, 2] z")
    g = check(proto, *({"x": np.array(rows, "float32")} for rows in ([[0, 1, 2], [3, 0, 0]], [[0, 0, 0], [0, 0, 7]])))
    assert isinstance(g, tw.graph.OpenGraph)
    with pytest.raises(tw.ExportError, match="values that it computes"):
        g.export("libnet.so")
    assert g.run(np.zeros((2, 3), "float32"))[0].shape == (0, 2)


def test_what_is_not_zero_or_different_of_an_open_shape() -> None:
    proto = model(
        "y = NonZero(x)  v, i, at, count = Unique(x)", "float[n, 2] x", "int64[2, k] y, float[m] v, int64[m] count"
    )
    given = np.asarray([[3, 0], [1, 3], [0, -1]], "float32")
    m = tw.build(tw.graph.from_onnx(proto))
    for rows in (3, 1, 0):
        places, values, counts = m(x=given[:rows])
        np.testing.assert_array_equal(places, np.nonzero(given[:rows]))
        for one, other in zip((values, counts), np.unique(given[:rows], return_counts=True), strict=True):
            np.testing.assert_array_equal(one, other)


def test_boxes_that_overlap_a_better_one_are_left_out() -> None:
    proto = model(
        """most = Constant <value = int64 {3}> () overlap = Constant <value = float {0.5}> ()
        least = Constant <value = float {0.1}> () y = NonMaxSuppression(boxes, scores, most, overlap, least)""",
        "float[2, 7, 4] boxes, float[2, 2, 7] scores",
        "int64[k, 3] y",
        11,
    )
    m = tw.build(tw.graph.from_onnx(proto))
    random = np.random.default_rng(0)
    for _ in range(2):
        corner = random.random((2, 7, 2))
        boxes = np.concatenate([corner, corner + random.random((2, 7, 2))], 2).astype("float32")
        scores = random.random((2, 2, 7)).astype("float32")
        np.testing.assert_array_equal(m(boxes, scores), suppressed(boxes, scores, 3, 0.5, 0.1))


def suppressed(boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float) -> np.ndarray:
    kept: list[tuple[int, int, int]] = []
    for batch, kind in np.ndindex(scores.shape[:2]):
        mine: list[int] = []
        for at in np.argsort(-scores[batch, kind]):
            a = boxes[batch, at]
            areas = [(a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() for b in boxes[batch, mine]]
            shared = [
                np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0).prod() for b in boxes[batch, mine]
            ]
            if (
                len(mine) < most
                and scores[batch, kind, at] > least
                and all(one / (both - one) <= overlap for one, both in zip(shared, areas, strict=True))
            ):
                mine.append(int(at))
        kept += [(batch, kind, at) for at in mine]
    return np.array(kept, "int64").reshape(-1, 3)


def test_attention_with_groups_of_heads_a_mask_and_a_past() -> None:
    proto = model(
        "y, pk, pv = Attention <is_causal = 1, softcap = 2.0> (q, k, v, mask, past_k, past_v)",
        "float[2, 4, 3, 5] q, float[2, 2, 3, 5] k, float[2, 2, 3, 5] v, bool[3, 5] mask, float[2, 2, 2, 5] past_k, "
        "float[2, 2, 2, 5] past_v",
        "float[2, 4, 3, 5] y, float[2, 2, 5, 5] pk, float[2, 2, 5, 5] pv",
        24,
    )
    random = np.random.default_rng(1)
    q, k, v, past_k, past_v = (
        random.standard_normal(shape).astype("float32")
        for shape in ((2, 4, 3, 5), (2, 2, 3, 5), (2, 2, 3, 5), (2, 2, 2, 5), (2, 2, 2, 5))
    )
    mask = np.array([[0, 0, 0, 0, 0], [1, 0, 1, 1, 1], [1, 1, 1, 0, 1]], bool)
    y, whole_k, whole_v = tw.build(tw.graph.from_onnx(proto))(q, k, v, mask, past_k, past_v)
    np.testing.assert_array_equal(whole_k, np.concatenate([past_k, k], 2))
    scores = 2 * np.tanh(q @ whole_k.repeat(2, 1).swapaxes(2, 3) / np.sqrt(5) / 2)
    scores = np.where(mask & np.tri(3, 5, 2, dtype=bool), scores, -np.inf)
    chances = np.exp(scores) / np.maximum(np.exp(scores).sum(-1, keepdims=True), 1e-30)
    np.testing.assert_allclose(y, chances @ whole_v.repeat(2, 1), rtol=1e-4, atol=1e-5)
    assert not y[:, :, 0].any()  # it sees nothing


@pytest.mark.parametrize("batch", [1, 2])
def test_the_old_scan_goes_over_each_of_a_batch_as_far_as_it_is_long(batch: int) -> None:
    proto = model(
        """y, z = Scan <num_scan_inputs = 1, directions = [1], body = slices (float[2] sum, float[2] one) =>
                     (float[2] after, float[2] row) { after = Add(sum, one)  row = Mul(after, one) }> (lengths, first, x)""",
        f"int64[{batch}] lengths, float[{batch}, 2] first, float[{batch}, 3, 2] x",
        "float[p, 2] y, float[p, 3, 2] z",
        8,
    )
    given = {"lengths": np.arange(batch, dtype="int64") + 2, "first": floats(batch, 2), "x": floats(batch, 3, 2)}
    last, rows = tw.build(tw.graph.from_onnx(proto))(**given)
    for at, length in enumerate(given["lengths"]):
        slices = given["x"][at, ::-1][:length]
        sums = given["first"][at] + np.cumsum(slices, 0)
        np.testing.assert_allclose(last[at], sums[-1], rtol=1e-6)
        np.testing.assert_allclose(
            rows[at], np.concatenate([sums * slices, np.zeros((3 - length, 2), "float32")]), rtol=1e-6
        )


def test_operators_that_are_older_than_what_is_known_and_mean_the_same() -> None:
    check(model("y = Not(x)", "bool[3] x", "bool[3] y", 1), {"x": np.asarray([True, False, True])})
    with pytest.raises(tw.TilewrightError, match=r"TW0911.*opset version 6"):
        tw.graph.from_onnx(model("y = Add(x, x)", "float[3] x", "float[3] y", 6))


def test_norms_of_a_batch_in_training() -> None:
    proto = model(
        "y, m, v = BatchNormalization <training_mode = 1, momentum = 0.7> (x, s, b, mean, var)",
        "float[4, 3, 5] x, float[3] s, float[3] b, float[3] mean, float[3] var",
        "float[4, 3, 5] y, float[3] m, float[3] v",
    )
    check(proto, {"x": floats(4, 3, 5), "s": floats(3), "b": floats(3), "mean": floats(3), "var": np.abs(floats(3))})


MOVING = """
    one = Constant <value = int64[1] {{1}}> ()  on = Constant <value = bool {{1}}> ()  {trips}
    last, rows = Loop (n, on, y) <body = body (int64 i, bool c, float[2] s) => (bool go, float[2] t, float[2] r) {{
        axis = Constant <value = int64[1] {{0}}> ()  two = Constant <value = int64[1] {{2}}> ()  go = Identity(c)
        at = Unsqueeze (i, axis)  from = Add(at, one)  to = Add(from, two)
        part = Slice (x, from, to)  t = Add(s, part)  r = Mul(t, t)
    }}>
"""


def test_slices_that_move_with_a_loop_lie_in_what_they_cut() -> None:
    given = {"x": floats(8), "y": floats(2)}
    known, outputs = MOVING.format(trips="n = Constant <value = int64 {5}> ()"), "float[2] last, float[k, 2] rows"
    check(model(known, "float[8] x, float[2] y", outputs), given)
    open_ended = MOVING.format(trips="")
    g = check(
        model(open_ended, "float[8] x, float[2] y, int64 n", outputs),
        *({**given, "n": np.asarray(n)} for n in (3, 1, 6)),
    )
    assert g.late == ("n",)
    with pytest.raises(tw.TilewrightError, match="what 'from' holds has to be known"):  # the last would be shorter
        tw.build(g)(**given, n=np.asarray(7))
    without = open_ended.replace("last, rows", "last").replace(", float[2] r)", ")").replace("r = Mul(t, t)", "")
    check(model(without, "float[8] x, float[2] y, int64 n", "float[2] last"), {**given, "n": np.asarray(3)})


def test_all_of_an_open_dimension_in_order() -> None:
    proto = model(
        """shape = Shape(x)  last = Constant <value = int64[1] {1}> ()  k = Gather(shape, last)
                     values, places = TopK <largest = 0> (x, k)""",
        "float[2, n] x",
        "float[2, n] values, int64[2, n] places",
    )
    assert isinstance(check(proto, {"x": floats(2, 9)}, {"x": floats(2, 1)}), tw.graph.Graph)


def test_a_file_of_far_too_many_nodes_inside_of_others_is_refused() -> None:
    proto = model(BRANCHES, "bool c, float[n, 3] x, float[3] w", "float[n, 3] y")
    for branch in proto.graph.node[0].attribute:
        branch.g.node.extend(branch.g.node[0] for _ in range(1 << 13))
    with pytest.raises(tw.TilewrightError, match=r"TW0911.*inside of nodes have too many nodes") as caught:
        tw.graph.from_onnx(proto)
    assert "more than 16384" in str(caught.value)
