"""Models of ONNX: read, refused whole, never trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.cli.command import main
from tilewright.topi.row import find_reference

pytest.importorskip("onnx.helper", reason="the package onnx, which reads the models, is not installed")
import onnx
import onnx.reference
from onnx import TensorProto, helper, numpy_helper


def model(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: list[str],
    weights: dict[str, Any] | None = None,
    opset: int = 17,
) -> Any:
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, kinds[dtype], shape) for name, (shape, dtype) in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def vision() -> Any:
    """A convolution with its batch norm, pooling, a reshape whose shape is computed, and a product."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((4, 3, 3, 3)).astype("float32"),
        "v": random.standard_normal((16, 5)).astype("float32"),
        **{name: random.uniform(0.5, 1, 4).astype("float32") for name in ("scale", "shift", "mean", "variance")},
        "first": np.asarray(0),
        "rest": np.asarray([-1]),
        "zero": np.asarray([0]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["b"], "norm"),
        helper.make_node("Relu", ["b"], ["r"], "relu"),
        helper.make_node("MaxPool", ["r"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Shape", ["p"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "zero"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["p", "to"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["y"], "head"),
    ]
    return model(nodes, {"x": (("n", 3, 4, 4), "float32")}, ["y"], weights)


def test_a_cache_is_updated_in_place() -> None:
    made = model(
        [
            helper.make_node("TensorScatter", ["past", "row", "at"], ["present"], mode="circular"),
            helper.make_node("ReduceSum", ["present"], ["sum"], keepdims=0),
        ],
        {"past": ((2, 3, 5, 4), "float32"), "row": ((2, 3, 2, 4), "float32"), "at": ((2,), "int64")},
        ["sum", "present"],
        opset=24,
    )
    assert tw.graph.from_onnx(made, state=True).state == {"past": "present"}
    m = tw.build(tw.graph.from_onnx(made, state={"past": "present"}))
    random = np.random.default_rng(0)
    past, row = (random.standard_normal(shape).astype("float32") for shape in ((2, 3, 5, 4), (2, 3, 2, 4)))
    expected = onnx.reference.ReferenceEvaluator(made).run(
        None, {"past": past.copy(), "row": row, "at": np.array([1, 4])}
    )
    np.testing.assert_allclose(m(past, row, np.array([1, 4])), expected[0], rtol=1e-5)
    np.testing.assert_array_equal(past, expected[1])


def test_a_vision_model_with_any_number_of_images() -> None:
    g = tw.graph.from_onnx(vision())
    assert g.inputs == {"x": (("n", 3, 4, 4), "float32")} and g.outputs == {"y": (("n", 5), "float32")}
    assert [node.operator for node in g.nodes] == ["conv", "batch_norm", "relu", "max_pool", "reshape", "matmul"]
    assert [node.source for node in g.nodes][:2] == ["conv", "norm"]
    assert tw.graph.parse(str(g)) == g
    m = tw.build(g)
    for n in (1, 3):
        x = np.random.default_rng(n).standard_normal((n, 3, 4, 4)).astype("float32")
        expected = onnx.reference.ReferenceEvaluator(vision()).run(None, {"x": x})[0]
        np.testing.assert_allclose(m(x), expected, rtol=1e-4, atol=1e-5)
        assert m.verify(x)


def test_shapes_are_fixed_or_named() -> None:
    assert tw.graph.from_onnx(vision(), shapes={"x": (2, 3, 4, 4)}).outputs == {"y": ((2, 5), "float32")}
    assert tw.graph.from_onnx(vision(), shapes={"x": ("batch", 3, 4, 4)}).symbols == ["batch"]
    with pytest.raises(tw.GraphError, match=r"TW0911: the model has no input 'z'"):
        tw.graph.from_onnx(vision(), shapes={"z": (1,)})


def test_what_is_computed_of_open_extents_stays_open() -> None:
    """As exporters write positions, masks of any length, and sizes from them."""
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Shape", ["x"], ["length"], start=1, end=2),
        node("Squeeze", ["length", "zero"], ["last"]),
        node("Range", ["first", "last", "step"], ["places"]),
        node("Unsqueeze", ["places", "zero"], ["row"]),
        node("Equal", ["s", "minus"], ["is_open"]),
        node("Where", ["is_open", "ones", "s"], ["shape"]),
        node("Expand", ["row", "shape"], ["whole"]),
        node("Cast", ["whole"], ["floats"], to=TensorProto.FLOAT),
        node("Slice", ["table", "zero", "length", "zero"], ["part"]),
        node("Add", ["floats", "part"], ["a"]),
        node("Slice", ["x", "minus1", "far", "one", "minus1"], ["turned"]),
        node("Add", ["a", "turned"], ["y"]),
        node("Flatten", ["x"], ["flat"], axis=0),
        node("Size", ["x"], ["count"]),
        node("Cast", ["count"], ["many"], to=TensorProto.FLOAT),
        node("Div", ["flat", "many"], ["z"]),
    ]
    weights = {
        "zero": [0],
        "one": [1],
        "minus1": [-1],
        "first": np.asarray(0),
        "step": np.asarray(1),
        "minus": [-1, -1],
        "ones": [1, 1],
        "far": [-(1 << 62)],
        "table": np.arange(9, dtype="float32"),
    }
    made = model(nodes, {"x": (("n", "length"), "float32")}, ["y", "z", "length"], weights)
    g = tw.graph.from_onnx(made)
    assert isinstance(g, tw.graph.Graph) and g.outputs["z"] == ((1, "length * n"), "float32")
    m = tw.build(g)
    for shape in ((2, 5), (1, 9)):
        x = np.random.default_rng(5).standard_normal(shape).astype("float32")
        for ours, theirs in zip(m(x), onnx.reference.ReferenceEvaluator(made).run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(tw.GraphError, match="TW0906"):  # the table has no more rows
        m(np.zeros((1, 10), "float32"))


@pytest.mark.parametrize(
    ("mode", "where"),
    [
        ("nearest", "asymmetric"),
        ("nearest", "half_pixel"),
        ("linear", "half_pixel"),
        ("linear", "align_corners"),
        ("linear", "pytorch_half_pixel"),
    ],
)
def test_pictures_of_any_size_are_resized(mode: str, where: str) -> None:
    """By scales, and to the size of another picture."""
    node = helper.make_node
    how = {"mode": mode, "coordinate_transformation_mode": where}
    made = model(
        [
            node("Resize", ["x", "", "scales"], ["a"], **how),
            node("Shape", ["z"], ["s"]),
            node("Resize", ["x", "", "", "s"], ["b"], **how),
        ],
        {"x": ((1, 2, "h", "w"), "float32"), "z": ((1, 2, "v", "u"), "float32")},
        ["a", "b"],
        {"scales": np.asarray([1, 1, 2, 0.75], "float32")},
        opset=19,
    )
    g = tw.graph.from_onnx(made)
    assert isinstance(g, tw.graph.Graph) and g.outputs["a"][0] == (1, 2, "h * 2", "w * 3 // 4")
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype("float32") for shape in ((1, 2, 5, 7), (1, 2, 4, 9))]
    expected = onnx.reference.ReferenceEvaluator(made).run(None, dict(zip("xz", arrays, strict=True)))
    sizes = tw.build(g)(*arrays), tw.build(g, buckets=[{"h": 1, "v": 1}])(*arrays)
    for results in sizes:
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_everything_that_is_not_supported_is_listed_at_once() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"], "where"),
        helper.make_node("RandomUniformLike", ["x"], ["b"], "one"),
        helper.make_node("RandomUniformLike", ["x"], ["c"], "two"),
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("TopK", ["x", "k"], ["d", "e"], "unordered", sorted=0),
    ]
    bad = model(nodes, {"x": ((3, 4), "float32")}, ["y"], {"k": np.asarray([1])})
    with pytest.raises(
        tw.GraphError,
        match=r"(?s)TW0912: the model has 3 nodes.*2 × RandomUniformLike: .*"
        r"\(one, two\).*1 × TopK: its results have no order \(unordered\)",
    ):
        tw.graph.from_onnx(bad)


def test_an_attribute_that_nobody_knows_is_refused_and_not_passed_over() -> None:
    odd = model([helper.make_node("Relu", ["x"], ["y"], slope=0.5)], {"x": ((3,), "float32")}, ["y"])
    with pytest.raises(tw.GraphError, match=r"(?s)TW0916.*Relu.*an attribute 'slope'"):
        tw.graph.from_onnx(odd)


def test_shapes_that_come_as_inputs_close_the_graph_when_it_is_called() -> None:
    late = model(
        [helper.make_node("Reshape", ["x", "to"], ["r"]), helper.make_node("Relu", ["r"], ["y"])],
        {"x": ((2, 6), "float32"), "to": ((2,), "int64")},
        ["y"],
    )
    g = tw.graph.from_onnx(late)
    assert isinstance(g, tw.graph.OpenGraph) and g.late == ("to",)
    m = tw.build(g)
    x = np.random.default_rng(0).standard_normal((2, 6)).astype("float32")
    for to in ((3, 4), (-1, 1), (3, 4)):
        np.testing.assert_array_equal(m(x, np.asarray(to)), np.maximum(x, 0).reshape(to))
    np.testing.assert_array_equal(g.run(x, to=np.asarray([12, 1]))[0], np.maximum(x, 0).reshape(12, 1))
    assert list(g.close(x, np.asarray([4, 3])).inputs) == ["x"]
    with pytest.raises(tw.GraphError, match=r"TW0912: .*nodes that are not supported"):
        m(x, np.asarray([5, 5]))
    with pytest.raises(tw.GraphError, match=r"TW0906: the model's input to is int64"):
        m(x, np.asarray([5.0, 5.0]))


def test_values_of_inputs_that_are_given_make_a_graph_without_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = model(
        [helper.make_node("Reshape", ["x", "to"], ["r"]), helper.make_node("Mul", ["r", "by"], ["y"])],
        {"x": (("n", 6), "float32"), "to": ((2,), "int64"), "by": ((), "float32")},
        ["y"],
    )
    x = np.random.default_rng(0).standard_normal((2, 6)).astype("float32")
    g = tw.graph.from_onnx(late).with_values({"to": [3, -1], "by": 2})
    assert isinstance(g, tw.graph.Graph) and list(g.inputs) == ["x"]
    np.testing.assert_array_equal(g.run(x)[0], x.reshape(3, 4) * 2)
    g = g.with_values({"x": x})
    assert not g.inputs and not g.symbols
    np.testing.assert_array_equal(tw.build(g)(), x.reshape(3, 4) * 2)
    for wrong in ({"to": [3.5, 1]}, {"to": [1, 2, 3]}, {"of": 1}, {"by": [1.0]}, {"by": "two"}):
        with pytest.raises(tw.GraphError, match=r"TW0906: the model('s input (to|by) is| has no input 'of')"):
            tw.graph.from_onnx(late).with_values(wrong)

    path, library = tmp_path / "late.onnx", tmp_path / "liblate.so"
    onnx.save(late, path)
    assert main(["compile", str(path), "-o", str(library)]) == 1
    assert "--value to=...  (int64[2])" in capsys.readouterr().err
    assert (
        main(["compile", str(path), "-o", str(library), "--value", "to=3,-1", "--value", "by=2", "--shape", "x=2,6"])
        == 0
    )
    out = np.empty((3, 4), "float32")
    f = tw.load(str(library))
    f(x, out, tw.empty((64,), "uint8"))
    np.testing.assert_array_equal(out, x.reshape(3, 4) * 2)


def test_extents_that_have_to_be_one_are_taken_for_one() -> None:
    """As torch.onnx.export leaves them, where an example's batch was 1: 8 // n for 8."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], end=1),
        helper.make_node("Div", ["eight", "shape"], ["part"]),
        helper.make_node("Concat", ["shape", "minus", "part"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["p"]),
        helper.make_node("LayerNormalization", ["p", "scale"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    w, scale = rng.standard_normal((8, 4)).astype("float32"), np.arange(4, dtype="float32")
    known = {"w": w, "scale": scale, "eight": np.asarray([8]), "minus": np.asarray([-1])}
    g = tw.graph.from_onnx(model(nodes, {"x": (("n", 6, 8), "float32")}, ["y", "p"], known))
    x = rng.standard_normal((1, 6, 8)).astype("float32")
    np.testing.assert_allclose(tw.build(g)(x)[1], x @ w, rtol=1e-4, atol=1e-5)
    with pytest.raises(tw.GraphError, match=r"TW0906: .*no such sizes"):
        g.run(np.zeros((2, 6, 8), "float32"))


def test_a_branch_of_a_known_condition_stands_in_its_place() -> None:
    def branch(name: str, operator: str) -> Any:
        return helper.make_graph(
            [helper.make_node(operator, ["x"], ["v"])],
            name,
            [],
            [helper.make_tensor_value_info("v", TensorProto.FLOAT, [3])],
        )

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("t", "Neg"), else_branch=branch("e", "Abs"))
    for condition, operator in ((True, "negative"), (False, "abs")):
        g = tw.graph.from_onnx(model([node], {"x": ((3,), "float32")}, ["y"], {"c": np.asarray(condition)}))
        assert [one.operator for one in g.nodes] == [operator]


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17, 21])
def test_softmax_means_what_its_version_says(opset: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    m = model([helper.make_node("Softmax", ["x"], ["y"])], {"x": ((2, 3, 4), "float32")}, ["y"], opset=opset)
    flat = x.reshape(2, 12) if opset < 13 else x
    expected = find_reference("softmax")(flat, axis=-1).reshape(x.shape)
    np.testing.assert_allclose(tw.build(tw.graph.from_onnx(m))(x), expected, rtol=1e-5)


def test_other_versions_are_refused() -> None:
    for opset in (6, 9999):
        with pytest.raises(tw.GraphError, match=f"TW0911: the model uses opset version {opset}"):
            tw.graph.from_onnx(
                model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": ((3,), "float32")}, ["y"], opset=opset)
            )


def external(folder: Path, **changed: str) -> Path:
    """A model whose weight lies beside it, with what it says of the place changed."""
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    made = model(nodes, {"x": ((4,), "float32")}, ["y"], {"w": np.arange(4, dtype="float32")})
    (folder / "w.bin").write_bytes(made.graph.initializer[0].raw_data)
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "0", "length": "16", **changed}.items():
        weight.external_data.add(key=key, value=value)
    (folder / "net.onnx").write_bytes(made.SerializeToString())
    return folder / "net.onnx"


def test_weights_beside_a_model_are_read_below_its_folder_only(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(64))
    g = tw.graph.from_onnx(external(inside))
    np.testing.assert_array_equal(g.params["w"], np.arange(4))
    (inside / "link").symlink_to(tmp_path / "w.bin")
    wrong = [
        {"location": place}
        for place in (
            "../w.bin",
            str(tmp_path / "w.bin"),
            "link",
            "nothing",
            "",
            "..",
            "/etc/passwd",
            "x" * 5000,
            "a/" * 3000,
        )
    ]
    wrong += [{"offset": "8"}, {"offset": "-4"}, {"length": "8"}, {"offset": "9" * 30}, {"length": "x"}]
    for changed in wrong:
        with pytest.raises(tw.GraphError, match=r"TW0913: the weights 'w' are not there"):
            tw.graph.from_onnx(external(inside, **changed))
    with pytest.raises(tw.GraphError, match=r"TW0913"):
        tw.graph.from_onnx(external(inside).read_bytes())


def test_truncated_and_mutated_models_are_refused_or_read() -> None:
    whole = vision().SerializeToString()
    random = np.random.default_rng(7)
    damaged = [whole[: int(cut)] for cut in random.integers(0, len(whole), 40)]
    for _ in range(120):
        content = bytearray(whole)
        for at in random.integers(0, len(whole), int(random.integers(1, 6))):
            content[at] = random.integers(0, 256)
        damaged.append(bytes(content))

    def code(content: bytes) -> str:
        try:
            tw.graph.from_onnx(content)
        except tw.TilewrightError as error:
            return error.code[:4]
        return "read"

    codes = [code(content) for content in damaged]
    assert set(codes) == {"TW09", "read"} and codes.count("TW09") >= 40


def test_claims_of_sizes_take_no_memory() -> None:
    huge = np.asarray([1 << 20, 1 << 20])
    filled = model([helper.make_node("ConstantOfShape", ["n"], ["y"])], {}, ["y"], {"n": huge})
    with pytest.raises(tw.GraphError, match=r"TW0912(.|\n)*4398046511104 bytes"):
        tw.graph.from_onnx(filled)
    ranged = model(
        [helper.make_node("Range", ["a", "b", "c"], ["y"])],
        {},
        ["y"],
        {"a": np.asarray(0), "b": np.asarray(1 << 60), "c": np.asarray(1)},
    )
    with pytest.raises(tw.GraphError, match=r"(?s)TW0912: .*numbers while the model is read"):
        tw.graph.from_onnx(ranged)
    weight = model([helper.make_node("Relu", ["w"], ["y"])], {}, ["y"], {"w": np.zeros(3, "float32")})
    weight.graph.initializer[0].dims[:] = [1 << 40, 1 << 20]
    with pytest.raises(tw.GraphError, match=r"TW0911: the tensor 'w' cannot be read"):
        tw.graph.from_onnx(weight)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    for wrong in (b"", b"not a model", 3, tmp_path / "nothing.onnx", onnx.ModelProto()):
        with pytest.raises(tw.GraphError, match=r"TW0911"):
            tw.graph.from_onnx(wrong)


@pytest.mark.parametrize(
    "kind", ["ReduceSum", "ReduceL1", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "ReduceL2"]
)
@pytest.mark.parametrize("axes", [None, [], [1]])
@pytest.mark.parametrize("nothing", [0, 1])
def test_reductions_of_no_axes_reduce_all_or_nothing_as_they_say(
    kind: str, axes: list[int] | None, nothing: int
) -> None:
    weights = {} if axes is None else {"axes": np.asarray(axes, "int64")}
    node = helper.make_node(kind, ["x", *weights], ["y"], keepdims=1, noop_with_empty_axes=nothing)
    proto = model([node], {"x": ((3, 1, 2), "float32")}, ["y"], weights, opset=18)
    x = np.arange(1, 7, dtype="float32").reshape(3, 1, 2)
    expected = onnx.reference.ReferenceEvaluator(proto).run(None, {"x": x})[0]
    np.testing.assert_allclose(tw.build(tw.graph.from_onnx(proto))(x), expected, rtol=1e-5)


def test_extents_that_are_written_otherwise_are_taken_for_one_and_asked_at_the_call() -> None:
    """As torch's exporter writes a mask of its own length beside a sequence."""
    nodes = [helper.make_node("Reshape", ["m", "shape"], ["flat"]), helper.make_node("Add", ["x", "flat"], ["y"])]
    net = model(nodes, {"x": (("n", "k"), "float32"), "m": (("a", "b"), "float32")}, ["y"], {"shape": [1, -1]})
    g = tw.graph.from_onnx(net)
    m = tw.build(g)
    x, mask = np.ones((3, 4), "float32"), np.arange(4, dtype="float32").reshape(2, 2)
    np.testing.assert_array_equal(m(x, mask), x + mask.reshape(1, 4))
    for run in (m, g.run):
        with pytest.raises(tw.TilewrightError, match=r"TW0906: graph .* takes no such sizes"):
            run(x, mask[:1])


def test_sizes_of_two_steps_are_those_of_one() -> None:
    b = tw.graph.Builder("steps")
    x = b.input("x", ("((n + 3) // 4 + 1) // 2", 2))
    assert b.node("add", x, b.input("y", ("(n + 7) // 8", 2))) and set(b.graph().inputs) == {"x", "y"}
    assert b.graph().inputs["x"] == b.graph().inputs["y"]


def test_channels_that_are_open_are_those_of_the_weights() -> None:
    """As torch's exporter writes a model of which every dimension may change."""
    weights = {"w": np.ones((2, 3, 1, 1), "float32")}
    g = tw.graph.from_onnx(
        model([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": (tuple("nchk"), "float32")}, ["y"], weights)
    )
    assert g.run(np.ones((1, 3, 2, 2), "float32"))[0].tolist() == [[[[3, 3], [3, 3]], [[3, 3], [3, 3]]]]
    with pytest.raises(tw.TilewrightError, match=r"TW0906"):
        g.run(np.ones((1, 4, 2, 2), "float32"))
