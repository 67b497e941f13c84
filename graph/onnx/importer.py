"""A model of ONNX as a graph, read again as more becomes known of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base import dataclass, field, user_source
from ..caches import State, keep_state
from ..conversion import Scope, unsupported_model
from ..errors import NotAModel
from ..node import Param, Parts
from ..open_graph import Measures
from ..rewrite import remove_dead
from ..types import Extent, TensorType, tensor_type
from . import (
    arithmetic,
    attention,
    branches,
    calls,
    choices,
    feature_tables,
    layers,
    lists,
    microsoft,
    quantization,
    recurrent,
    shapes,
    signals,
    stateful,
    trees,
    vision,
)
from .package import onnx_package
from .reader import input_type, walk_nodes
from .reading import Needs, Reading

__all__ = ["FAMILIES", "Importer"]

FAMILIES = (
    arithmetic,
    attention,
    branches,
    calls,
    choices,
    layers,
    feature_tables,
    lists,
    *microsoft.FAMILIES,
    quantization,
    recurrent,
    shapes,
    signals,
    stateful,
    trees,
    vision,
)
"""Importing them fills the table of rows."""


_OLDEST = 7
"""The version from which on all operators are known; of those before, the ones that meant the same."""


@dataclass
class Importer:
    """A model that is read, once or again as more becomes known. folder: where its weights may lie. given: the shapes that the
    user fixes or names. state: the output that follows an input in its memory, by the input's name, or True. late: the inputs of which
    values are needed, in the order in which that was seen. weights: the model's own, by their numbers, which are read once."""

    proto: Any
    folder: Path | None
    given: Mapping[str, Sequence[Extent]]
    state: State
    late: dict[str, None] = field(default_factory=dict[str, None])
    weights: dict[int, Param] = field(default_factory=dict[int, Param])

    @property
    def inputs(self) -> dict[str, TensorType]:
        """Inputs that are not parameters. Raises NotAModel (TW0911)."""
        known = {tensor.name for tensor in self.proto.graph.initializer}
        return {
            entry.name: tensor_type(*input_type(entry, self.given.get(entry.name)))
            for entry in self.proto.graph.input
            if entry.name not in known
        }

    def read(self, values: Mapping[str, NDArray[Any]]) -> Parts | Measures | None:
        """The graph, where late inputs, and what was measured, have these values; what has to be measured first; None where further
        inputs are late, which are in `late` from then on. Raises NotAModel (TW0911), UnsupportedModel (TW0912), BadExternalData
        (TW0913)."""
        needs = Needs(values, self.folder, self._versions(), self.late, self.weights)
        reading = Reading(needs, Scope(re.sub(r"[^A-Za-z0-9_.]", "_", self.proto.graph.name) or "main", self._opset()))
        model, scope = self.proto.graph, reading.scope
        reading.parameters(model)
        for entry in model.input:
            if entry.name not in scope.values:
                self._input(reading, entry, values)
        reading.refuse_unknown(model)
        reading.nodes(model.node)
        for entry in model.output:
            if scope.values.get(entry.name) in scope.lists:
                reading.unsupported.setdefault("a sequence is not an output", []).append(entry.name)
        if reading.unsupported:
            raise unsupported_model(reading.unsupported)
        if any(name not in values for name in self.late):
            return None
        results = needs.measured or {entry.name: scope.values.get(entry.name) for entry in model.output}
        for name, value in results.items():
            if value is None:
                raise NotAModel(
                    f"the model's output {name!r} is not a value of it"[:200],
                    called=user_source(),
                    fix="onnx.checker.check_model(model) shows what is wrong",
                )
            scope.graph.output(name, value)
        if needs.measured:
            return Measures(remove_dead(scope.graph.parts()))
        if self.state is True:
            return keep_state(remove_dead(scope.graph.parts()))
        for past, present in (self.state or {}).items():
            scope.graph.state(past, present)
        return remove_dead(scope.graph.parts())

    def _versions(self) -> dict[str, int]:
        return {entry.domain: entry.version for entry in self.proto.opset_import}

    def _opset(self) -> int:
        versions = self._versions()
        opset, defs = versions.get("", versions.get("ai.onnx", 0)), onnx_package().defs
        newest = defs.onnx_opset_version()
        used = {node.op_type for node in walk_nodes(self.proto.graph) if node.domain in ("", "ai.onnx")}
        if not (opset or used):
            return newest
        if 0 < opset < _OLDEST and all(_is_as_later(defs, name, opset) for name in used):
            return _OLDEST
        if not _OLDEST <= opset <= newest:
            raise NotAModel(
                f"the model uses opset version {opset}",
                called=user_source(),
                allowed=f"{_OLDEST} to {newest}",
                reason="these versions are supported",
                fix="onnx.version_converter.convert_version(model, 21)",
            )
        return opset

    def _input(self, reading: Reading, entry: Any, values: Mapping[str, NDArray[Any]]) -> None:
        name, scope = entry.name, reading.scope
        reading.sources[name] = {name}
        if name in values:
            scope.values[name] = scope.graph.param(name, np.asarray(values[name]), fixed=True)
            return
        shape, dtype = input_type(entry, self.given.get(name))
        scope.values[name] = scope.graph.input(name, shape, dtype)


def _is_as_later(defs: Any, name: str, opset: int) -> bool:
    """Return whether an operator of a version before the oldest that is known means what it means in that one."""
    try:
        return defs.get_schema(name, opset, "").since_version == defs.get_schema(name, _OLDEST, "").since_version
    except defs.SchemaError:
        return False
