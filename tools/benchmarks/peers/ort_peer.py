"""onnxruntime on the CPU: models of a few nodes, made here, whose inputs and outputs stand on the arrays' own memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..cases import Arrays, Builder, Runner, threads

__all__ = ["Node", "call", "matmul", "model"]

_OPSET = 23


@dataclass(frozen=True)
class Node:
    """An ONNX operator by name. inputs: names: the case's inputs are "x0", "x1", ... in order, its outputs "y0", ...; other
    names are values between nodes. domain: "" is ONNX's own; "com.microsoft" holds onnxruntime's own operators."""

    operator: str
    inputs: Sequence[str]
    outputs: Sequence[str] = ("y0",)
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    domain: str = ""


def call(nodes: Sequence[Node], constants: Sequence[int] = (), extra: dict[str, np.ndarray] | None = None) -> Builder:
    """A model of these nodes. constants: places of inputs that are weights: they become part of the model, so that
    onnxruntime packs them beforehand. extra: constants that are no inputs of the case, by name."""
    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        import onnxruntime as ort

        ort.set_default_logger_severity(3)
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads(), 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        text = model(nodes, inputs, outputs, constants, extra or {})
        session = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        kept = {f"x{i}": array for i, array in enumerate(inputs) if i not in constants}
        for name, array in kept.items():
            binding.bind_input(name, "cpu", 0, _kind(array), array.shape, array.ctypes.data)
        for i, array in enumerate(outputs):
            binding.bind_output(f"y{i}", "cpu", 0, _kind(array), array.shape, array.ctypes.data)
        return lambda: session.run_with_iobinding(binding)
    return builder


def model(nodes: Sequence[Node], inputs: Arrays, outputs: Arrays, constants: Sequence[int], extra: dict[str, np.ndarray]) -> bytes:
    """The ModelProto's bytes."""
    from onnx import helper, numpy_helper

    def value(name: str, array: np.ndarray) -> Any:
        return helper.make_tensor_value_info(name, _kind(array), array.shape)

    fixed = {f"x{i}": inputs[i] for i in constants} | extra
    graph = helper.make_graph(
        [helper.make_node(n.operator, n.inputs, n.outputs, domain=n.domain, **n.attributes) for n in nodes], "case",
        [value(f"x{i}", array) for i, array in enumerate(inputs) if i not in constants],
        [value(f"y{i}", array) for i, array in enumerate(outputs)],
        [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in fixed.items()])
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def _kind(array: np.ndarray) -> int:
    """ONNX's number of an array's dtype."""
    from onnx import TensorProto, helper

    return TensorProto.BFLOAT16 if array.dtype.name == "bfloat16" else helper.np_dtype_to_tensor_dtype(array.dtype)


matmul = call([Node("MatMul", ["x0", "x1"])])
"""C = A @ B, both given at run time."""
