"""Operators of ONNX that look places up, count, or transform: by machine code, against onnx's own reference, at odd sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw

pytest.importorskip("onnx.helper", reason="the package onnx, which reads the models, is not installed")
import onnx.reference
from onnx import TensorProto, helper

random = np.random.default_rng(7)


def drawn(*shape: int, low: float = -1.5, high: float = 1.5) -> Any:
    return random.uniform(low, high, shape).astype("float32")


KINDS = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}


def agrees(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], tolerance: float = 1e-5) -> list[Any]:
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info(name, KINDS[str(value.dtype)], value.shape) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    expected = onnx.reference.ReferenceEvaluator(made).run(None, inputs)
    results = tw.build(tw.graph.from_onnx(made))(**inputs)
    found = results if isinstance(results, list) else [results]
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    return found


@pytest.mark.parametrize("align", [0, 1])
def test_cubic_samples_at_the_border_are_moved_there_first(align: int) -> None:
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="cubic", padding_mode="border", align_corners=align)
    agrees([node], {"x": drawn(1, 2, 5, 3), "grid": drawn(1, 7, 3, 2)}, ["y"])


def test_regions_as_the_greatest_of_weighted_neighbours() -> None:
    node = helper.make_node("RoiAlign", ["x", "rois", "batch"], ["y"], mode="max", output_height=3, output_width=1,
                            spatial_scale=0.5, sampling_ratio=0)
    rois = np.asarray([[1, 2, 17, 9], [-3, 0, 5, 21], [6, 6, 6, 6]], "float32")
    agrees([node], {"x": drawn(2, 3, 7, 9), "rois": rois, "batch": np.asarray([1, 0, 1])}, ["y"])


def test_frames_of_a_signal_and_back() -> None:
    nodes = [helper.make_node("Constant", [], ["step"], value_int=3), helper.make_node("Constant", [], ["size"], value_int=9),
             helper.make_node("HannWindow", ["size"], ["window"]), helper.make_node("STFT", ["x", "step", "window"], ["frames"]),
             helper.make_node("Constant", [], ["axis"], value_int=2),
             helper.make_node("DFT", ["frames", "size", "axis"], ["back"], inverse=1, onesided=1)]
    agrees(nodes, {"x": drawn(2, 31, 1)}, ["frames", "back"])


def test_slices_each_once() -> None:
    x = random.integers(0, 2, (3, 11, 2))
    for axis in (None, 1):
        node = helper.make_node("Unique", ["x"], ["y", "first", "inverse", "counts"], **({} if axis is None else {"axis": axis}))
        agrees([node], {"x": x}, ["y", "first", "inverse", "counts"])
    node = helper.make_node("Unique", ["x"], ["y", "first", "inverse", "counts"], sorted=0)
    assert len(agrees([node], {"x": random.integers(0, 5, 17)}, ["y", "first", "inverse", "counts"])[0]) <= 5


def test_the_greatest_go_back_to_their_places() -> None:
    nodes = [helper.make_node("MaxPool", ["x"], ["p", "places"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("MaxUnpool", ["p", "places"], ["y"], kernel_shape=[2, 2], strides=[2, 2])]
    pooled, _, y = agrees(nodes, {"x": drawn(2, 3, 6, 4)}, ["p", "places", "y"])
    assert np.count_nonzero(y) == pooled.size
