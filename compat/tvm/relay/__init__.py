"""tvm.relay, as far as it makes a library of a model: frontend.from_onnx, frontend.from_pytorch and build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....driver import build as _driver
from ....graph.graph import Graph
from ....graph.model import Model
from ....graph.node import Param
from ..library import write_archive
from ..nd import NDArray
from ..transform import PassContext
from . import frontend

__all__ = ["ExecutorFactory", "build", "build_config", "frontend"]

build_config = PassContext
"""What TVM called the context of a build until 0.7."""


class ExecutorFactory:
    """A model that was built: `graph, lib, params = ...`, or lib["default"](dev) for graph_executor.GraphModule."""

    def __init__(self, model: Model, graph: Graph) -> None:
        self.model, self._graph = model, str(graph)
        self.held = {name: param.digest for name, param in graph.constants.items()}

    def get_graph_json(self) -> str:
        """The graph's text."""
        return self._graph

    def get_params(self) -> dict[str, NDArray]:
        """None are left to be set: the model holds its parameters."""
        return {}

    def export_library(self, path: str, **_: object) -> None:
        """Write it as a library that C calls (docs/models.md), or a .tar of one; tvm.runtime.load_module reads both."""
        if Path(path).suffix == ".tar":
            write_archive(Path(path), self.model.export)
        else:
            self.model.export(path)

    def __getitem__(self, name: str) -> Any:
        if name != "default":
            raise KeyError(name)
        return self._select_device

    def _select_device(self, device: object = None) -> ExecutorFactory:
        """Return the argument of graph_executor for a device: there is one."""
        del device
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter((self.get_graph_json(), self, self.get_params()))


def build(
    ir_mod: Graph,
    target: Any = "llvm",
    target_host: Any = None,
    executor: Any = None,
    runtime: Any = None,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> ExecutorFactory:
    """A graph as machine code, with these parameters in place of its own of the same names."""
    del target_host, executor, runtime, workspace_memory_pools, constant_memory_pools, mod_name
    given = {
        name: Param.of(getattr(value, "numpy", lambda value=value: value)())
        for name, value in (params or {}).items()
        if name in ir_mod.constants
    }
    g = Graph.of(replace(ir_mod, constants={**ir_mod.constants, **given})) if given else ir_mod
    return ExecutorFactory(_driver.build(g, target=str(target)), g)
