"""tvm.relay.frontend: models from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....graph import from_onnx as _from_onnx
from ....graph.graph import Graph
from .. import nd
from ..error import TVMError

__all__ = ["from_onnx"]


def from_onnx(
    model: Any, shape: Mapping[str, Sequence[Any]] | None = None, dtype: Any = "float32", opset: int | None = None,
    freeze_params: bool = True, **_: object,
) -> tuple[Graph, dict[str, nd.NDArray]]:
    """A model of ONNX as a graph, and its parameters, which the graph holds too."""
    del dtype, opset, freeze_params
    g = _from_onnx(model, shapes=shape)
    if not isinstance(g, Graph):
        raise TVMError(f"shapes depend on the values of {', '.join(g.late)}: tw.graph.from_onnx(model) runs such a model")
    return g, {name: nd.array(value) for name, value in g.params.items()}
