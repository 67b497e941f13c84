"""Models of ONNX whose nodes are not as their operators are defined, or that would become far more than their files hold."""

from __future__ import annotations

import time
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw

pytest.importorskip("onnx.helper", reason="the package onnx, which reads the models, is not installed")
from onnx import TensorProto, helper, numpy_helper


def model(
    node: Any, inputs: dict[str, tuple[Any, str]], weights: dict[str, Any] | None = None, opset: int = 18, **more: Any
) -> Any:
    graph = helper.make_graph(
        [node],
        "net",
        [
            helper.make_tensor_value_info(name, getattr(TensorProto, dtype), shape)
            for name, (shape, dtype) in inputs.items()
        ],
        [helper.make_tensor_value_info(node.output[0], TensorProto.UNDEFINED, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)


N = helper.make_node
PLANE = {"x": ((6, 2), "FLOAT")}
LINE = {"x": ((1, 1, 6), "FLOAT")}
INVALID: dict[str, tuple[Any, str]] = {
    "split in other numbers than outputs": (model(N("Split", ["x"], ["a", "b"], num_outputs=3), PLANE), "num_outputs"),
    "parts of a split": (model(N("Split", ["x"], ["a", "b"], split=[2, 2]), PLANE, opset=11), "'split' is"),
    "a vector of counts": (model(N("TopK", ["x", "k"], ["a", "b"]), PLANE, {"k": np.asarray([1, 2])}), "size 1"),
    "too many outputs": (model(N("Relu", ["x"], ["a", "b", "c"]), PLANE), "3 outputs"),
    "too few inputs": (model(N("Add", ["x"], ["a"]), PLANE), "1 inputs"),
    "an absent input": (model(N("Add", ["x", ""], ["a"]), PLANE), "absent"),
    "a product of vectors": (model(N("Gemm", ["x", "x"], ["a"]), {"x": ((6,), "FLOAT")}), "rank 2"),
    "an axis before the first": (model(N("Flatten", ["x"], ["a"], axis=-9), PLANE), "axis"),
    "an attribute of another kind": (model(N("Flatten", ["x"], ["a"], axis=1.5), PLANE), "FLOAT"),
    "an attribute of no meaning": (model(N("Relu", ["x"], ["a"], evil=1), PLANE), "'evil'"),
    "an attribute that is absent": (model(N("Cast", ["x"], ["a"]), PLANE), "no attribute 'to'"),
    "a mode that there is not": (model(N("MaxPool", ["x"], ["a"], kernel_shape=[2], auto_pad="EVIL"), LINE), "'EVIL'"),
    "windows of padding": (model(N("MaxPool", ["x"], ["a"], kernel_shape=[2], pads=[2, 2]), LINE), "'pads'"),
    "windows of another rank": (model(N("MaxPool", ["x"], ["a"], kernel_shape=[2], strides=[1, 1]), LINE), "'strides'"),
    "steps of 0": (model(N("MaxPool", ["x"], ["a"], kernel_shape=[2], strides=[0]), LINE), "'strides' is"),
    "a place that there is not": (model(N("Gather", ["x", "i"], ["a"]), PLANE, {"i": np.asarray([6])}), "place 6"),
    "axes twice": (model(N("Transpose", ["x"], ["a"], perm=[0, 0]), PLANE), "'perm'"),
    "a flag that is none": (model(N("ReduceMax", ["x"], ["a"], keepdims=2), PLANE), "'keepdims' is 2"),
    "a norm that there is not": (model(N("LpNormalization", ["x"], ["a"], p=3), PLANE), "'p' is 3"),
    "a dtype that it does not take": (model(N("Relu", ["x"], ["a"]), {"x": ((2,), "BOOL")}), "unsupported type"),
}


@pytest.mark.parametrize("name", INVALID)
def test_nodes_that_are_not_as_their_operators_are_defined_are_refused(name: str) -> None:
    proto, reason = INVALID[name]
    with pytest.raises(tw.GraphError, match=f"(?s)TW0916.*{reason}.*allowed:"):
        tw.graph.from_onnx(proto)


def test_nodes_inside_of_loops_are_looked_at_too() -> None:
    body = helper.make_graph(
        [N("Identity", ["c"], ["d"]), N("Relu", ["s"], ["t", "u"])],
        "body",
        [
            helper.make_tensor_value_info(name, kind, shape)
            for name, kind, shape in (
                ("i", TensorProto.INT64, ()),
                ("c", TensorProto.BOOL, ()),
                ("s", TensorProto.FLOAT, (2,)),
            )
        ],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in ("d", "t")],
    )
    node = N("Loop", ["n", "", "x"], ["y"], body=body)
    with pytest.raises(tw.GraphError, match=r"TW0916.*Relu"):
        tw.graph.from_onnx(model(node, {"x": ((2,), "FLOAT")}, {"n": np.asarray(3)}))


def test_functions_that_call_functions_become_no_more_nodes_than_a_model_may_have() -> None:
    def nested(levels: int, last: str, domain: str = "") -> Any:
        versions = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
        functions = []
        for at in range(levels):
            called, where = (f"f{at + 1}", "own") if at < levels - 1 else (last, domain)
            nodes = [N(called, ["x"], ["t"], domain=where), N(called, ["t"], ["y"], domain=where)]
            functions.append(helper.make_function("own", f"f{at}", ["x"], ["y"], nodes, versions))
        graph = helper.make_graph(
            [N("f0", ["x"], ["y"], domain="own")],
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3,))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (3,))],
        )
        return helper.make_model(graph, functions=functions, opset_imports=versions)

    assert len(tw.graph.from_onnx(nested(4, "Exp")).nodes) == 16
    begin = time.perf_counter()
    for proto in (nested(16, "Exp"), nested(400, "Exp"), nested(3, "f0", "own")):
        with pytest.raises(tw.GraphError, match=r"TW0911.*functions"):
            tw.graph.from_onnx(proto)
    assert time.perf_counter() - begin < 10


def test_what_is_known_takes_no_more_memory_than_a_machine_has() -> None:
    """A sum over ten thousand million zeros, a range of as many numbers, and what a text says."""
    far = np.asarray([50_000, 50_000])
    for proto in (
        model(N("ConstantOfShape", ["s"], ["y"]), {}, {"s": far}),
        model(N("Expand", ["x", "s"], ["y"]), {}, {"s": far, "x": np.ones(1, "float32")}),
        model(N("Tile", ["x", "s"], ["y"]), {}, {"s": far, "x": np.ones((1, 1), "float32")}),
        model(N("Pad", ["x", "s"], ["y"]), {}, {"s": np.append(far, far), "x": np.ones((1, 1), "float32")}),
        model(
            N("Range", ["b", "e", "d"], ["y"]), {}, {"b": np.asarray(0), "e": np.asarray(1 << 40), "d": np.asarray(1)}
        ),
        model(N("HannWindow", ["e"], ["y"]), {}, {"e": np.asarray(1 << 40)}),
        model(
            N("OneHot", ["x", "d", "v"], ["y"]), {}, {"x": np.zeros(9, int), "d": np.asarray(1 << 40), "v": np.ones(2)}
        ),
    ):
        with pytest.raises(tw.GraphError, match="TW0912"):
            tw.graph.from_onnx(proto)
    text = "graph g {\n  const a: float32[] = (0.0)\n  b: float32[50000, 50000] = broadcast_to(a, shape=(50000, 50000))\n  output b = b\n}"
    with pytest.raises(tw.GraphError, match="10000000000 bytes"):
        tw.graph.parse(text)


def test_slices_that_go_backwards_from_before_the_first_element_begin_there() -> None:
    x = np.arange(10, dtype="float32").reshape(2, 5)
    for begin, end, step in ((-9, -100, -1), (-9, -100, -3), (-5, -6, -2), (-9, 3, -1), (7, -9, -2)):
        weights = {name: np.asarray([value]) for name, value in (("b", begin), ("e", end), ("a", 1), ("s", step))}
        g = tw.graph.from_onnx(model(N("Slice", ["x", "b", "e", "a", "s"], ["y"]), {"x": ((2, 5), "FLOAT")}, weights))
        first = min(max(begin + 5 if begin < 0 else begin, 0), 4)
        last = min(max(end + 5 if end < 0 else end, -1), 4)
        np.testing.assert_array_equal(g.run(x)[0], x[:, list(range(first, last, step))])


def test_zeros_are_quantised_by_a_scale_that_is_one() -> None:
    node = N("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
    proto = model(node, {"x": ((4,), "FLOAT")}, opset=13)
    proto.graph.output.extend(
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in ("scale", "zero")]
    )
    m = tw.build(tw.graph.from_onnx(proto))
    for value in (0.0, -0.0, 1e-45):
        y, scale, zero = m(np.asarray([value, 0, 0, 0], "float32"))
        assert (y.tolist(), float(scale), int(zero)) == ([0, 0, 0, 0], 1.0, 0)
    y, scale, zero = m(np.asarray([3, 3, 3, 3], "float32"))
    assert (y.tolist(), int(zero)) == ([255] * 4, 0) and scale == np.float32(3) / np.float32(255)


def valid() -> list[Any]:
    """Models whose files are damaged below, each with attributes, weights and inputs that are optional."""
    image = {"x": ((1, 2, 5, 5), "FLOAT")}
    return [
        model(
            N("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 1], group=1),
            image,
            {"w": np.ones((3, 2, 3, 3), "float32")},
        ),
        model(N("MaxPool", ["x"], ["y"], kernel_shape=[2, 3], ceil_mode=1, pads=[1, 0, 0, 1]), image),
        model(N("Resize", ["x", "", "s"], ["y"], mode="linear"), image, {"s": np.asarray([1, 1, 2, 2], "float32")}),
        model(
            N("Slice", ["x", "b", "e"], ["y"]), image, {"b": np.asarray([0, 0, 1, 1]), "e": np.asarray([1, 2, 4, -1])}
        ),
        model(N("Gemm", ["x", "w"], ["y"], transB=1, alpha=0.5), PLANE, {"w": np.ones((3, 2), "float32")}),
        model(N("TopK", ["x", "k"], ["y", "i"], axis=0, largest=0), PLANE, {"k": np.asarray([2])}),
        model(N("Split", ["x", "s"], ["y", "z"], axis=0), PLANE, {"s": np.asarray([2, 4])}),
        model(N("Einsum", ["x", "x"], ["y"], equation="ij,kj->ik"), PLANE),
    ]


def damaged(random: Any, proto: Any) -> bytes:
    """A file with some of its bytes changed, cut out or doubled."""
    content = bytearray(proto.SerializeToString())
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(len(content)))
        kind = int(random.integers(4))
        if kind < 2:
            content[at] = int(random.integers(256))
        elif kind == 2:
            del content[at : at + int(random.integers(1, 9))]
        else:
            content[at:at] = content[at : at + int(random.integers(1, 9))]
    return bytes(content)


def test_damaged_files_are_refused_or_read() -> None:
    random, protos = drawn.rng("damaged models of ONNX"), valid()
    for at in range(drawn.count(300, 20_000)):
        content = damaged(random, protos[at % len(protos)])
        try:
            tw.graph.from_onnx(content)
        except tw.GraphError:
            continue


def test_what_is_damaged_above_is_valid() -> None:
    for proto in valid():
        assert tw.graph.from_onnx(proto).nodes
