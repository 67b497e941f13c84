"""tvm.relay.frontend: models from ONNX and from torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ....base.arguments import is_a
from ....graph import from_onnx as _from_onnx
from ....graph import from_torch as _from_torch
from ....graph.graph import Graph
from ....graph.open_graph import OpenGraph
from ....graph.rewrite import rename_inputs
from .. import nd
from ..error import TVMError

__all__ = ["from_onnx", "from_pytorch"]


def from_onnx(
    model: Any,
    shape: Mapping[str, Sequence[Any]] | None = None,
    dtype: Any = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    **_: object,
) -> tuple[Graph, dict[str, nd.NDArray]]:
    """A model of ONNX as a graph, and its parameters, which the graph holds too."""
    del dtype, opset, freeze_params
    return _split_params(_from_onnx(model, shapes=shape), "from_onnx")


def from_pytorch(
    script_module: Any,
    input_infos: Sequence[tuple[str, Any]] | None = None,
    custom_convert_map: Any = None,
    default_dtype: str = "float32",
    **_: object,
) -> tuple[Graph, dict[str, nd.NDArray]]:
    """A program of torch.export as a graph, and its parameters, which the graph holds too.

    script_module: the program, or the path of a file .pt2; or a torch.nn.Module, which is exported for inputs of zeros.
    input_infos: for each input its name, and its shape, or its shape and its dtype: `[("data", (1, 3, 224, 224))]`.
    """
    if custom_convert_map:
        raise TVMError("operators that a program converts itself are not taken: write them of others, or as a graph")
    infos = [_info(one, default_dtype) for one in input_infos or ()]
    if not any(kind.__name__ == "Module" for kind in type(script_module).__mro__):
        g, params = _split_params(_from_torch(script_module), "from_torch")
    elif any("jit" in kind.__module__ for kind in type(script_module).__mro__):
        raise TVMError("TorchScript is not read: pass torch.export.export(module, args), or the module itself")
    else:
        torch: Any = sys.modules["torch"]
        args = [torch.zeros(*shape, dtype=getattr(torch, dtype)) for _, shape, dtype in infos]
        g, params = _split_params(_from_torch(script_module, args), "from_torch")
    return (Graph.of(rename_inputs(g, [name for name, *_ in infos])) if infos else g), params


def _info(given: tuple[str, Any], dtype: str) -> tuple[str, tuple[int, ...], str]:
    """The name, the shape and the dtype of an input."""
    name, said = given
    shape, dtype = said if len(said) == 2 and is_a(said[1], str) else (said, dtype)
    return name, tuple(map(int, shape)), {"float": "float32", "int": "int32"}.get(dtype, dtype)


def _split_params(g: Graph | OpenGraph, reads: str) -> tuple[Graph, dict[str, nd.NDArray]]:
    if not isinstance(g, Graph):
        raise TVMError(f"shapes depend on the values of {', '.join(g.late)}: tw.graph.{reads}(model) runs such a model")
    return g, {name: nd.array(value) for name, value in g.params.items()}
