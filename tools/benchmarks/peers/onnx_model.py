"""Models of a few ONNX nodes, made here, and all the libraries that run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..cases import Arrays

__all__ = ["Node", "kind", "model"]

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


def model(
    nodes: Sequence[Node], inputs: Arrays, outputs: Arrays, constants: Sequence[int], extra: dict[str, np.ndarray]
) -> bytes:
    """The ModelProto's bytes."""
    from onnx import helper, numpy_helper

    def value(name: str, array: np.ndarray) -> Any:
        return helper.make_tensor_value_info(name, kind(array), array.shape)

    fixed = {f"x{i}": inputs[i] for i in constants} | extra
    graph = helper.make_graph(
        [helper.make_node(n.operator, n.inputs, n.outputs, domain=n.domain, **n.attributes) for n in nodes],
        "case",
        [value(f"x{i}", array) for i, array in enumerate(inputs) if i not in constants],
        [value(f"y{i}", array) for i, array in enumerate(outputs)],
        [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in fixed.items()],
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def kind(array: np.ndarray) -> int:
    """ONNX's number of an array's dtype."""
    from onnx import TensorProto, helper

    return TensorProto.BFLOAT16 if array.dtype.name == "bfloat16" else helper.np_dtype_to_tensor_dtype(array.dtype)
