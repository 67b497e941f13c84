"""Operators of ONNX that look places up, count, or transform: by machine code, against onnx's own reference, at odd sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.topi.row import find_reference

pytest.importorskip("onnx.helper", reason="the package onnx, which reads the models, is not installed")
import onnx.numpy_helper
import onnx.reference
from onnx import TensorProto, helper

random = np.random.default_rng(7)


def drawn(*shape: int, low: float = -1.5, high: float = 1.5) -> Any:
    return random.uniform(low, high, shape).astype("float32")


KINDS = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}


def agrees(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: list[str],
    tolerance: float = 1e-5,
    opsets: tuple[tuple[str, int], ...] = (("", 22),),
) -> list[Any]:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, KINDS[str(value.dtype)], value.shape) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid(*one) for one in opsets])
    expected = onnx.reference.ReferenceEvaluator(made).run(None, inputs)
    results = tw.build(tw.graph.from_onnx(made))(**inputs)
    found = results if isinstance(results, list) else [results]
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    return found


@pytest.mark.parametrize("align", [0, 1])
def test_cubic_samples_at_the_border_are_moved_there_first(align: int) -> None:
    node = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], mode="cubic", padding_mode="border", align_corners=align
    )
    agrees([node], {"x": drawn(1, 2, 5, 3), "grid": drawn(1, 7, 3, 2)}, ["y"])


def test_regions_as_the_greatest_of_weighted_neighbours() -> None:
    node = helper.make_node(
        "RoiAlign",
        ["x", "rois", "batch"],
        ["y"],
        mode="max",
        output_height=3,
        output_width=1,
        spatial_scale=0.5,
        sampling_ratio=0,
    )
    rois = np.asarray([[1, 2, 17, 9], [-3, 0, 5, 21], [6, 6, 6, 6]], "float32")
    agrees([node], {"x": drawn(2, 3, 7, 9), "rois": rois, "batch": np.asarray([1, 0, 1])}, ["y"])


def test_frames_of_a_signal_and_back() -> None:
    nodes = [
        helper.make_node("Constant", [], ["step"], value_int=3),
        helper.make_node("Constant", [], ["size"], value_int=9),
        helper.make_node("HannWindow", ["size"], ["window"]),
        helper.make_node("STFT", ["x", "step", "window"], ["frames"]),
        helper.make_node("Constant", [], ["axis"], value_int=2),
        helper.make_node("DFT", ["frames", "size", "axis"], ["back"], inverse=1, onesided=1),
    ]
    agrees(nodes, {"x": drawn(2, 31, 1)}, ["frames", "back"])


def test_frames_of_a_complex_signal_have_the_first_frequencies_alone_unless_all_are_asked_for() -> None:
    step = helper.make_node("Constant", [], ["step"], value_int=5)
    size = helper.make_node("Constant", [], ["size"], value_int=8)
    for bins, asked in ((5, {}), (5, {"onesided": 1}), (8, {"onesided": 0})):
        node = helper.make_node("STFT", ["x", "step", "", "size"], ["frames"], **asked)
        (frames,) = agrees([step, size, node], {"x": drawn(2, 31, 2)}, ["frames"])
        assert frames.shape == (2, 5, bins, 2)


def test_slices_each_once() -> None:
    x = random.integers(0, 2, (3, 11, 2))
    for axis in (None, 1):
        node = helper.make_node(
            "Unique", ["x"], ["y", "first", "inverse", "counts"], **({} if axis is None else {"axis": axis})
        )
        agrees([node], {"x": x}, ["y", "first", "inverse", "counts"])
    node = helper.make_node("Unique", ["x"], ["y", "first", "inverse", "counts"], sorted=0)
    assert len(agrees([node], {"x": random.integers(0, 5, 17)}, ["y", "first", "inverse", "counts"])[0]) <= 5


def test_the_greatest_go_back_to_their_places() -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p", "places"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("MaxUnpool", ["p", "places"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    pooled, _, y = agrees(nodes, {"x": drawn(2, 3, 6, 4)}, ["p", "places", "y"])
    assert np.count_nonzero(y) == pooled.size


def test_attention_whose_scores_a_graph_inside_changes() -> None:
    def modifier(nodes: list[Any]) -> Any:
        kind = helper.make_tensor_value_info("s", TensorProto.FLOAT, (1, 4, 3, 5))
        return helper.make_graph(
            nodes, "modifier", [kind], [helper.make_tensor_value_info("r", TensorProto.FLOAT, (1, 4, 3, 5))]
        )

    score = modifier([helper.make_node("Tanh", ["s"], ["t"]), helper.make_node("Add", ["t", "t"], ["r"])])
    node = helper.make_node(
        "FlexAttention",
        ["q", "k", "v"],
        ["y"],
        domain="ai.onnx.preview",
        scale=0.3,
        score_mod=score,
        prob_mod=modifier([helper.make_node("Mul", ["s", "s"], ["r"])]),
    )
    agrees(
        [node],
        {"q": drawn(1, 4, 3, 6), "k": drawn(1, 2, 5, 6), "v": drawn(1, 2, 5, 7)},
        ["y"],
        opsets=(("", 26), ("ai.onnx.preview", 1)),
    )


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention_keeps_a_state(rule: str) -> None:
    inputs = {"q": drawn(2, 5, 4 * 3), "k": drawn(2, 5, 2 * 3), "v": drawn(2, 5, 2 * 7), "past": drawn(2, 2, 3, 7)}
    names = [*inputs, "decay" if "gated" in rule else "", "beta" if "delta" in rule else ""]
    inputs |= {name: drawn(2, 5, 2, low=-1, high=0) for name in names[4:] if name}
    node = helper.make_node("LinearAttention", names, ["y", "present"], q_num_heads=4, kv_num_heads=2, update_rule=rule)
    agrees([node], inputs, ["y", "present"], opsets=(("", 27),))


def test_a_causal_convolution_goes_on_from_its_state() -> None:
    def node(past: int) -> Any:
        nodes = [helper.make_node("CausalConvWithState", ["x", "w", "", "past"], ["y", "present"], activation="silu")]
        return agrees(
            nodes,
            {"x": drawn(2, 3, 5), "w": drawn(3, 1, 4), "past": drawn(2, 3, past)},
            ["y", "present"],
            opsets=(("", 27),),
        )

    assert node(3)[1].shape == (2, 3, 3)
    with pytest.raises(tw.TilewrightError, match=r"TW0916.*CausalConvWithState"):
        node(2)


@pytest.mark.parametrize("gather", [0, 1, 2, 3])
def test_trees_of_several_depths(gather: int) -> None:
    """The first has two nodes above its leaves, the second one, which a missing value passes as true."""

    def weights(name: str, values: list[float]) -> Any:
        return helper.make_tensor(name, TensorProto.FLOAT, (len(values),), values)

    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=3,
        aggregate_function=gather,
        tree_roots=[0, 2],
        nodes_modes=helper.make_tensor("modes", TensorProto.UINT8, (3,), [1, 4, 2]),
        nodes_featureids=[0, 2, 1],
        nodes_splits=weights("splits", [0.5, 1, -0.5]),
        nodes_truenodeids=[1, 0, 3],
        nodes_trueleafs=[0, 1, 1],
        nodes_falsenodeids=[2, 1, 4],
        nodes_falseleafs=[1, 1, 1],
        nodes_missing_value_tracks_true=[0, 0, 1],
        leaf_targetids=[0, 2, 1, 2, 0],
        leaf_weights=weights("leaves", [1, -2, 3, 0.25, 7]),
    )
    x = drawn(9, 3)
    x[:4, 2], x[5, 1] = 1, np.nan
    agrees([node], {"x": x}, ["y"], opsets=(("", 22), ("ai.onnx.ml", 5)))


def test_a_deep_tree_that_asks_for_several_values() -> None:
    """Twenty nodes one below the other, some of which ask for one of several values, one for none."""
    values = [2.0, 3.0, np.nan, np.nan, -4.0, np.nan]
    modes = [6 if at in (3, 7, 18) else 1 for at in range(20)]
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        tree_roots=[0],
        nodes_modes=helper.make_tensor("modes", TensorProto.UINT8, (20,), modes),
        nodes_featureids=[at % 3 for at in range(20)],
        nodes_splits=helper.make_tensor("splits", TensorProto.FLOAT, (20,), [-2.0 + at / 20 for at in range(20)]),
        nodes_truenodeids=list(range(20)),
        nodes_trueleafs=[1] * 20,
        nodes_falsenodeids=[*range(1, 20), 20],
        nodes_falseleafs=[0] * 19 + [1],
        membership_values=helper.make_tensor("members", TensorProto.FLOAT, (6,), values),
        leaf_targetids=[0] * 21,
        leaf_weights=helper.make_tensor("leaves", TensorProto.FLOAT, (21,), [float(at) for at in range(21)]),
    )
    x = np.abs(drawn(25, 3))
    x[1, 0], x[2, 0], x[3, 1], x[4, 0] = 3, 2, -4, -4
    y = agrees([node], {"x": x}, ["y"], opsets=(("", 22), ("ai.onnx.ml", 5)))[0]
    assert y[:3, 0].tolist() == [20, 3, 3]


def test_tables_of_labels_and_of_words() -> None:
    label = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_int64s=[3, 1, 4, 1],
        values_floats=[1.0, 2.0, 3.0, 4.0],
        default_float=-1.0,
    )
    found = agrees([label], {"x": np.asarray([[1, 2], [3, 4]])}, ["y"], opsets=(("", 22), ("ai.onnx.ml", 4)))
    assert found[0].tolist() == [[4, -1], [1, 3]]
    x = np.asarray([[2, 5, 5, 2, 2, 5, 1], [5, 5, 5, 2, 9, 2, 2]])
    (counts,) = agrees([words([1.0] * 5)], {"x": x}, ["y"])
    shown = [helper.make_tensor_value_info("x", TensorProto.INT64, x.shape), onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph([words([0.5, 2, 3, 4, 5])], "net", shown[:1], shown[1:])
    (y,) = tw.graph.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])).run(x)
    np.testing.assert_allclose(y, counts * [2, 3, 4, 0.5, 5])  # a weight of each n-gram, not of each column


def words(weights: list[float]) -> Any:
    return helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode="TFIDF",
        min_gram_length=1,
        max_gram_length=3,
        max_skip_count=2,
        ngram_counts=[0, 2, 6],
        ngram_indexes=[3, 0, 1, 2, 4],
        pool_int64s=[2, 5, 2, 5, 5, 5, 5, 2, 2],
        weights=weights,
    )


def test_places_of_the_greatest_are_none_of_the_padding() -> None:
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[3], pads=[2, 0])
    x = np.asarray([[[0, 0, 0, 5, 0, 0, 0, 0]]], "float32")
    for least in (0, -np.inf):
        array = np.where(x == 0, np.float32(least), x)
        shown = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
        graph = helper.make_graph([node], "net", shown, [onnx.ValueInfoProto(name=name) for name in "yi"])
        g = tw.graph.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
        for _, i in (g.run(array), tw.build(g)(array)):
            assert i.reshape(-1).tolist() == [0, 0, 0, 3, 3, 3, 4, 5]


def test_places_of_what_is_pooled_in_column_major_order_are_those_of_all_dimensions() -> None:
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 1, 2], strides=[2, 1, 2], storage_order=1)
    shown = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 1, 4, 3, 6))]
    graph = helper.make_graph([node], "net", shown, [onnx.ValueInfoProto(name=name) for name in "yi"])
    x = drawn(2, 1, 4, 3, 6)
    y, i = tw.graph.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])).run(x)
    np.testing.assert_array_equal(np.concatenate([part.ravel(order="F") for part in x])[i], y)


@pytest.mark.parametrize(("mode", "taps", "step"), [("SAME_UPPER", 2, 5), ("SAME_LOWER", 1, 4)])
def test_a_transposed_convolution_whose_taps_are_fewer_than_its_steps(mode: str, taps: int, step: int) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], auto_pad=mode, strides=[step, step])
    (y,) = agrees([node], {"x": drawn(1, 2, 4, 5), "w": drawn(2, 3, taps, taps), "b": drawn(3)}, ["y"])
    assert y.shape == (1, 3, 4 * step, 5 * step), "as many as inputs times steps, the bias where nothing is reached"


@pytest.mark.parametrize("size", [2, 4])
def test_neighbours_of_an_even_number_have_one_more_behind(size: int) -> None:
    """onnx's reference takes rows of the batch for channels here; the sum is the specification's."""
    x = drawn(2, 5, 3, 2)
    squares = np.stack([(x[:, max(0, at - (size - 1) // 2) : at + size // 2 + 1] ** 2).sum(1) for at in range(5)], 1)
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.3, beta=0.6, bias=1.2)
    shown = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", x.shape), ("y", None))
    ]
    graph = helper.make_graph([node], "net", shown[:1], shown[1:])
    m = tw.build(tw.graph.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])))
    np.testing.assert_allclose(m(x), x / (1.2 + 0.3 / size * squares) ** 0.6, rtol=1e-5)


def test_places_of_what_is_unpooled_are_those_of_the_shape_that_was_pooled_or_of_what_is_asked_for() -> None:
    """The first as the specification's own example has it; places outside of that shape can only be of the other."""
    nodes = [
        helper.make_node("Constant", [], ["size"], value_ints=[1, 2, 5, 6]),
        helper.make_node("MaxUnpool", ["x", "places", "size"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    x, places = drawn(1, 2, 2, 2), np.asarray([[[[5, 7], [13, 15]], [[16, 18], [24, 31]]]])
    agrees(nodes, {"x": x, "places": places}, ["y"])
    outer = np.asarray([[[[7, 9], [19, 21]], [[30, 33], [43, 59]]]])
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape),
            helper.make_tensor_value_info("places", TensorProto.INT64, outer.shape),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    (y,) = tw.graph.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])).run(x, outer)
    np.testing.assert_array_equal(y.reshape(-1)[outer.reshape(-1)], x.reshape(-1))
    assert np.count_nonzero(y) == x.size


def test_a_net_of_open_sizes_whose_extents_meet_again() -> None:
    """An image beside what was halved and doubled, SAME windows, and a softmax over all that is not the batch: of any even size."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["half"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Constant", [], ["scales"], value_floats=[1.0, 1.0, 2.0, 2.0]),
        helper.make_node("Resize", ["half", "", "scales"], ["whole"], mode="nearest"),
        helper.make_node("Concat", ["x", "whole"], ["both"], axis=1),
        helper.make_node("Conv", ["both", "v"], ["mixed"], auto_pad="SAME_UPPER"),
        helper.make_node("MaxPool", ["mixed"], ["pooled"], kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
        helper.make_node("Softmax", ["pooled"], ["y"], axis=1),
    ]
    weights = [
        onnx.numpy_helper.from_array(value, name)
        for name, value in (("w", drawn(1, 1, 3, 3)), ("v", drawn(2, 2, 2, 2)))
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [-1, 1, "?", "?"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)])
    before = onnx.reference.ReferenceEvaluator(made)  # whose softmax of version 12 is that of version 13
    g = tw.graph.from_onnx(made)
    assert list(g.inputs["x"].shape) == ["x_0", 1, "x_2", "x_3"], "each is open by itself"
    m = tw.build(g)
    for shape in ((1, 1, 6, 10), (3, 1, 8, 2)):
        x = drawn(*shape)
        (pooled,) = before.run(["pooled"], {"x": x})
        expected = find_reference("softmax")(pooled.reshape(len(x), -1), axis=1).reshape(pooled.shape)
        np.testing.assert_allclose(m(x), expected, rtol=1e-4, atol=1e-6)
    with pytest.raises(tw.TilewrightError, match=r"TW0906|TW0518"):
        m(drawn(1, 1, 5, 6))


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT2", "UINT2"])
def test_weights_of_less_than_a_byte(kind: str) -> None:
    low, high = {"INT4": (-8, 7), "UINT4": (0, 15), "INT2": (-2, 1), "UINT2": (0, 3)}[kind]
    numbers, zeros = random.integers(low, high + 1, (6, 5)), random.integers(low, high + 1, (2, 5))
    weights = [
        helper.make_tensor("w", getattr(TensorProto, kind), (6, 5), numbers.reshape(-1).tolist()),
        helper.make_tensor("z", getattr(TensorProto, kind), (2, 5), zeros.reshape(-1).tolist()),
        onnx.numpy_helper.from_array(drawn(2, 5), "s"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=3),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
        helper.make_node("Cast", ["w"], ["c"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 6))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "c")],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    x = drawn(3, 6)
    y, c = tw.build(tw.graph.from_onnx(made))(x)
    scales = np.repeat(onnx.numpy_helper.to_array(weights[2]), 3, 0)
    np.testing.assert_allclose(y, x @ ((numbers - np.repeat(zeros, 3, 0)) * scales), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(c, numbers)
    made.graph.node.append(helper.make_node("QuantizeLinear", ["y", "one", "z0"], ["q"]))
    made.graph.initializer.extend(
        [
            onnx.numpy_helper.from_array(np.float32(1), "one"),
            helper.make_tensor("z0", getattr(TensorProto, kind), (), [0]),
        ]
    )
    with pytest.raises(tw.TilewrightError, match="QuantizeLinear reads 'z0', whose elements have less than a byte"):
        tw.graph.from_onnx(made)


def test_floats_of_8_bits_end_at_their_greatest_number_unless_asked_not_to() -> None:
    x = np.append(drawn(60) * 300, [np.inf, -np.inf, np.nan, 459.0]).astype(np.float32)
    nodes, outputs, expected, scale = [], [], [], np.float32(0.7)
    weights = [onnx.numpy_helper.from_array(scale, "s")]
    for kind, most in (("FLOAT8E4M3FN", 448), ("FLOAT8E5M2", 57344)):
        number, held = getattr(TensorProto, kind), onnx.helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind))
        weights.append(helper.make_tensor(f"z{kind}", number, (), [0.0]))
        with np.errstate(all="ignore"):
            for saturate in (0, 1):
                name = f"{kind}{saturate}"
                nodes.append(helper.make_node("Cast", ["x"], [name], to=number, saturate=saturate))
                expected.append((np.clip(x, -most, most) if saturate else x).astype(held))
                outputs.append(helper.make_tensor_value_info(name, number, None))
            nodes.append(helper.make_node("QuantizeLinear", ["x", "s", f"z{kind}"], [f"q{kind}"]))
            nodes.append(helper.make_node("DequantizeLinear", [f"q{kind}", "s"], [f"d{kind}"]))
            outputs.append(helper.make_tensor_value_info(f"d{kind}", TensorProto.FLOAT, None))
            expected.append(np.clip(x / scale, -most, most).astype(held).astype(np.float32) * scale)
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    made = helper.make_model(
        helper.make_graph(nodes, "net", given, outputs, weights), opset_imports=[helper.make_opsetid("", 21)]
    )
    for got, want in zip(tw.build(tw.graph.from_onnx(made))(x), expected, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


def test_maps_of_numbered_classes_are_a_matrix() -> None:
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[7, 3])
    maps = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_value_info("y", helper.make_sequence_type_proto(maps))],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)])
    x = drawn(5, 2).astype("float32")
    np.testing.assert_array_equal(tw.build(tw.graph.from_onnx(made))(x), x)
    node.attribute[0].ints.append(4)
    graph.node[0].CopyFrom(node)
    with pytest.raises(tw.GraphError, match="its 3 keys are not those of 2 columns"):
        tw.graph.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)]))


def test_trees_whose_labels_are_texts_are_refused() -> None:
    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["y", "z"],
        domain="ai.onnx.ml",
        classlabels_strings=["cat", "dog"],
        nodes_modes=["LEAF"],
        **{f"nodes_{name}": [0] for name in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")},
        nodes_values=[0.0],
        class_treeids=[0],
        class_nodeids=[0],
        class_ids=[0],
        class_weights=[1.0],
    )
    outs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])], outs)
    with pytest.raises(tw.GraphError, match=r"TW0912.*\n.*its labels are texts"):
        tw.graph.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)]))
