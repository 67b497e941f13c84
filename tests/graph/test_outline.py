"""Files of ONNX are read without their large weights, which come from the file one by one."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
import tilewright as tw  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from tilewright.base.errors import TilewrightError  # noqa: E402
from tilewright.graph.onnx.outline import build_outline  # noqa: E402


def model(*weights: np.ndarray) -> bytes:
    """x + each of the weights."""
    names = [f"w{at}" for at in range(len(weights))]
    nodes = [
        helper.make_node("Add", ["x" if at == 0 else f"s{at}", name], [f"s{at + 1}"]) for at, name in enumerate(names)
    ]
    shape = list(np.broadcast_shapes(*(weight.shape for weight in weights)))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", f"s{len(names)}"))
    graph = helper.make_graph(
        nodes, "sums", [x], [y], [numpy_helper.from_array(w, n) for w, n in zip(weights, names, strict=True)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def test_weights_are_the_same_from_a_file_and_from_bytes(tmp_path: Path) -> None:
    weights = [numbers(257, 129, seed=1), numbers(129), numbers(257, 129, seed=2)]
    path = tmp_path / "sums.onnx"
    path.write_bytes(model(*weights))
    small = build_outline(memoryview(path.read_bytes()), path.name)
    assert small is not None
    assert len(small) < 2000, "two large weights are left out"
    assert onnx.load_model_from_string(small).graph.initializer[0].data_location == TensorProto.EXTERNAL
    g = tw.graph.from_onnx(path)
    assert g == tw.graph.from_onnx(path.read_bytes())
    path.write_bytes(b"")
    np.testing.assert_array_equal(g.params["w2"], weights[2], "what became of the file is nothing to the graph")


@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor.dims.append(2),
        lambda tensor: setattr(tensor, "data_type", 99),
        lambda tensor: setattr(tensor, "raw_data", tensor.raw_data[:-1]),
        lambda tensor: tensor.ClearField("data_type"),
    ],
)
def test_a_weight_that_is_not_what_it_says_is_left_to_be_refused(change, tmp_path: Path) -> None:
    proto = onnx.load_model_from_string(model(numbers(257, 129)))
    change(proto.graph.initializer[0])
    content = proto.SerializeToString()
    assert build_outline(memoryview(content), "x.onnx") is None
    path = tmp_path / "x.onnx"
    path.write_bytes(content)
    with pytest.raises(TilewrightError, match=r"w0|dtype"):
        tw.graph.from_onnx(path)


def parsed(content: bytes) -> object:
    """What protobuf makes of it; None where it refuses."""
    try:
        return onnx.load_model_from_string(content)
    except Exception:  # noqa: BLE001  protobuf's own
        return None


def test_damaged_bytes_mean_what_they_mean_to_protobuf() -> None:
    content, draw = model(numbers(257, 129)), random.Random(3)
    places = [*range(400), *range(len(content) - 200, len(content))]
    compared = 0
    for _ in range(300):
        damaged = bytearray(content)
        damaged[draw.choice(places)] = draw.randrange(256)
        small = build_outline(memoryview(damaged), "x.onnx")
        if small is None:
            continue
        whole, shown = parsed(bytes(damaged)), parsed(small)
        if shown is not None:
            tensor = shown.graph.initializer[0]
            said = {entry.key: int(entry.value) for entry in tensor.external_data if entry.key != "location"}
            tensor.raw_data = bytes(damaged[said["offset"] : said["offset"] + said["length"]])
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
        assert shown == whole
        compared += whole is not None
    assert compared > 50
