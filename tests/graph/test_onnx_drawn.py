"""Drawn models of ONNX, one operator each, beside onnxruntime; where the two differ, onnx's own reference says which is right."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from numpy.typing import NDArray
from tilewright.graph.onnx.context import CONTROL_NAMES, ROWS, operator_name
from tilewright.graph.onnx.reader import walk_nodes

pytest.importorskip("onnx.helper", reason="the package onnx, which reads the models, is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime, which computes what is expected, is not installed")
import drawn_onnx
import drawn_onnx_elements  # noqa: F401  the modules of families fill the table
import drawn_onnx_layers  # noqa: F401
import drawn_onnx_networks  # noqa: F401
import drawn_onnx_rows  # noqa: F401
import drawn_onnx_shapes  # noqa: F401
import onnx.reference
import onnxruntime as runtime
from onnx import GraphProto

Results = list[NDArray[Any]]
BUILT = 12
"""Of so many models one is built and called beside the reference of its graph."""


def session(proto: Any) -> Any:
    """onnxruntime's session of a model; None for one that it does not take."""
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001  its kinds are its own
        return None


def computed(run: Any, arrays: dict[str, Any]) -> Results | None:
    """What it gives; None where it refuses these arrays."""
    try:
        return [np.asarray(one) for one in run(None, arrays)]
    except Exception:  # noqa: BLE001  each has kinds of its own
        return None


def by_reference(proto: Any) -> Any:
    """How onnx's own reference runs a model; it does not have all operators."""
    return lambda names, arrays: onnx.reference.ReferenceEvaluator(proto).run(names, arrays)


def agrees(ours: Results, theirs: Results | None, tolerance: float) -> bool:
    """Whether results are of one dtype and shape and as near as the operator rounds; -1 allows quantised numbers a step."""
    if theirs is None or len(ours) != len(theirs):
        return False
    for one, other in zip(ours, theirs, strict=True):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.dtype.kind in "biu":
            far = int(tolerance < 0)
            if np.abs(one.astype(object) - other.astype(object)).max(initial=0) > far:
                return False
        elif not np.allclose(one.astype(float), other.astype(float), abs(tolerance), abs(tolerance), equal_nan=True):
            return False
    return True


def problem(case: int, name: str) -> str:
    """What is wrong with a drawn model; "" where nothing is."""
    random = drawn.rng(f"models of ONNX: {name}", case)
    model = drawn_onnx.draw(random, name)
    theirs = session(model.expected)
    run = theirs.run if theirs else by_reference(model.expected) if model.nodes else None
    try:
        graph = tw.graph.from_onnx(model.proto)
    except tw.GraphError:  # a form that is not supported
        return ""
    for sizes in model.sizes(random):
        arrays = model.arrays(random, sizes)
        expected = None if run is None else computed(run, arrays)
        try:
            ours = graph.run(**arrays)
        except tw.GraphError:  # sizes that it does not take
            continue
        if expected is None or agrees(ours, expected, model.tolerance):
            continue
        if not agrees(ours, computed(by_reference(model.proto), arrays), model.tolerance):
            return f"{model.operator}, version {model.opset}, {model.attributes}, {model.inputs}, sizes {sizes}"
        if case % BUILT == 0:
            built = tw.build(graph)(**arrays)
            found = built if isinstance(built, list) else [built]
            if not agrees(found, ours, model.tolerance):
                return f"built otherwise than its reference: {model.operator}, {model.attributes}, {sizes}"
    return ""


@pytest.mark.parametrize("name", drawn_onnx.FAMILIES)
def test_drawn_models_give_what_onnxruntime_or_the_reference_gives(name: str) -> None:
    found = [problem(case, name) for case in range(drawn.count(6, 160))]
    assert not any(found), "\n".join(filter(None, found))


def test_every_operator_that_is_read_is_drawn() -> None:
    seen: set[str] = set()
    for make in drawn_onnx.FAMILIES.values():
        for case in range(250):
            model = make(drawn_onnx.Draws(np.random.default_rng(case)))
            seen |= {operator_name(node) for node in walk_nodes(GraphProto(node=model.nodes))} or {model.operator}
    assert {*ROWS, *CONTROL_NAMES} - seen == {"ai.onnx.ml.ZipMap"}, (
        "whose maps no operator reads: test_onnx_operators.py"
    )
