"""From a model of ONNX to a graph: each node by the row of its operator, what is known computed at once, what is not supported
listed whole.

Shapes, axes and the like may come as inputs of the model. They are told apart while the model is read: what a conversion needs to
know, and does not, makes the inputs that it comes from *late*. A model with late inputs is read again when their values are there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FAULTS, TilewrightError, user_source
from ..conversion import Refused, unsupported
from ..errors import NotAModel
from ..node import Parts
from ..rewrite import without_dead
from ..types import Extent
from . import arithmetic, layers, quantized, shapes
from .context import ROWS, Context, NeedsValue, VersionedScope
from .package import onnx_package
from .reader import array_of, attributes_of, input_type, is_known

__all__ = ["FAMILIES", "Importer"]

FAMILIES = (arithmetic, layers, quantized, shapes)
"""Importing them fills the table of rows."""

_MOST_LATE = 64
_MOST_DEPTH = 8


@dataclass
class Importer:
    """A model that is read, once or again as more becomes known. folder: where its weights may lie. given: the shapes that the
    user fixes or names. state: the output that follows an input in its memory, by the input's name. late: the inputs of which
    values are needed, in the order in which that was seen."""

    proto: Any
    folder: Path | None
    given: Mapping[str, Sequence[Extent]]
    state: Mapping[str, str]
    late: dict[str, None] = field(default_factory=dict[str, None])

    def read(self, values: Mapping[str, NDArray[Any]]) -> Parts | None:
        """The graph, where late inputs have these values; None where others are late, which are in `late` from then on. Raises
        NotAModel (TW0911), UnsupportedModel (TW0912), BadExternalData (TW0913)."""
        return _Reading(self, values).graph()


class _Reading:
    def __init__(self, importer: Importer, values: Mapping[str, NDArray[Any]]) -> None:
        proto = importer.proto
        versions = {entry.domain: entry.version for entry in proto.opset_import}
        opset = versions.get("", versions.get("ai.onnx", 0))
        newest = onnx_package().defs.onnx_opset_version()
        if not 7 <= opset <= newest:
            raise NotAModel(f"the model's operators are of version {opset}", called=user_source(),
                            allowed=f"7 to {newest}", reason="their meaning is known for these versions",
                            fix="onnx.version_converter.convert_version(model, 21)")
        self.importer, self.values = importer, values
        self.scope = VersionedScope(re.sub(r"[^A-Za-z0-9_.]", "_", proto.graph.name) or "main", opset)
        self.unsupported: dict[str, list[str]] = {}
        self.waiting: set[str] = set()
        """Values of ONNX that cannot be told yet, since a conversion before them waits or is refused."""
        self.sources: dict[str, set[str]] = {}
        """The inputs that a value comes from."""

    def graph(self) -> Parts | None:
        model = self.importer.proto.graph
        self.parameters(model)
        for entry in model.input:
            if entry.name not in self.scope.values:
                self.input(entry)
        self.refuse_unknown(model)
        self.nodes(model.node, 0)
        if self.unsupported:
            raise unsupported(self.unsupported)
        late = [name for name in self.importer.late if name not in self.values]
        if late:
            return None
        for entry in model.output:
            if entry.name not in self.scope.values:
                raise NotAModel(f"the model's output {entry.name!r} is no value of it"[:200], called=user_source(),
                                fix="onnx.checker.check_model(model) shows what is wrong")
            self.scope.graph.output(entry.name, self.scope.values[entry.name])
        for past, present in self.importer.state.items():
            self.scope.graph.state(past, present)
        return without_dead(self.scope.graph.parts())

    def parameters(self, model: Any) -> None:
        for tensor in model.initializer:
            self.scope.values[tensor.name] = self.scope.graph.param(tensor.name, array_of(tensor, self.importer.folder))
        if model.sparse_initializer:
            raise NotAModel("the model has sparse weights", called=user_source(), fix="write them as they are, with their zeros")

    def input(self, entry: Any) -> None:
        name = entry.name
        self.sources[name] = {name}
        if name in self.values:
            self.scope.values[name] = self.scope.graph.param(name, np.asarray(self.values[name]))
            return
        shape, dtype = input_type(entry, self.importer.given.get(name))
        self.scope.values[name] = self.scope.graph.input(name, shape, dtype)

    def refuse_unknown(self, model: Any) -> None:
        """Lists every operator that has no row."""
        for node in model.node:
            if not is_known(node):
                self.refuse(node, "the operator is not supported")

    def nodes(self, nodes: Sequence[Any], depth: int) -> None:
        for node in nodes:
            inputs = [name for name in node.input if name]
            behind = inputs if node.op_type not in ("Shape", "Size") else []  # what they give does not depend on what is held
            self.sources.update({name: set[str]().union(*(self.sources.get(one, set()) for one in behind)) for name in node.output})
            if any(name in self.waiting for name in inputs) or not is_known(node):
                self.waiting.update(node.output)
                continue
            missing = [name for name in inputs if name not in self.scope.values]
            if missing:
                raise NotAModel(f"the node {node.name or node.op_type!r} reads {missing[0]!r}, which nothing before it gives"[:300],
                                called=user_source(), fix="onnx.checker.check_model(model) shows what is wrong")
            self.node(node, depth)

    def node(self, node: Any, depth: int) -> None:
        inputs = [self.scope.values[name] if name else "" for name in node.input]
        try:
            if node.op_type == "If" and not node.domain:
                self.branch(node, inputs, depth)
                return
            c = Context(self.scope, node, inputs, attributes_of(node, self.importer.folder), node.name or f"{node.op_type}")
            results = ROWS[node.op_type](c)
            c.refuse_unread_attributes()
            for name, value in zip(node.output, [results] if isinstance(results, str) else results, strict=False):
                if name and value:
                    self.define(name, value)
        except NeedsValue as need:
            self.wait(node, str(need))
        except Refused as reason:
            self.refuse(node, str(reason))
        except TilewrightError as problem:
            self.refuse(node, f"{problem.headline}. {problem.reason}")
        except (*FAULTS, MemoryError) as problem:
            self.refuse(node, f"it is not as its operator says: {type(problem).__name__} {problem}")

    def define(self, name: str, value: str) -> None:
        if name in self.scope.values:
            raise Refused(f"its value {name!r} is there already")
        self.scope.values[name] = value

    def wait(self, node: Any, name: str) -> None:
        """Makes the inputs late that a needed value comes from."""
        self.waiting.update(node.output)
        inputs = self.scope.graph.types
        needed = self.sources.get(name, set()) - set(self.values)
        for one in needed:
            kind = inputs[self.scope.values[one]]
            if not kind.is_static or len(kind.shape) > 1 or any(int(extent) > _MOST_LATE for extent in kind.shape):
                self.refuse(node, f"what {name!r} holds has to be known, and comes from {one}: {kind}")
                return
        if not needed:
            self.refuse(node, f"what {name!r} holds has to be known")
        self.importer.late.update(dict.fromkeys(sorted(needed)))

    def branch(self, node: Any, inputs: Sequence[str], depth: int) -> None:
        """One branch of an If whose condition is known."""
        c = Context(self.scope, node, inputs, {}, node.name)
        chosen = "then_branch" if c.array(0).reshape(-1)[0] else "else_branch"
        graph = next(attribute.g for attribute in node.attribute if attribute.name == chosen)
        self.inlined(node, graph, depth)

    def inlined(self, node: Any, graph: Any, depth: int) -> None:
        """The nodes of a graph in the place of one; their values have names of their own, what they read besides is outside."""
        if depth >= _MOST_DEPTH:
            raise Refused("its branches are nested too deep")
        defined = {name for inner in graph.node for name in inner.output} | {tensor.name for tensor in graph.initializer}

        def renamed(name: str) -> str:
            return f"{node.output[0]}/{name}" if name in defined and name else name

        for tensor in graph.initializer:
            self.define(renamed(tensor.name), self.scope.constant(array_of(tensor, self.importer.folder)))
        copies: list[Any] = []
        for inner in graph.node:
            copy = type(inner)()
            copy.CopyFrom(inner)
            del copy.input[:], copy.output[:]
            copy.input.extend(map(renamed, inner.input))
            copy.output.extend(map(renamed, inner.output))
            copies.append(copy)
        self.nodes(copies, depth + 1)
        for name, entry in zip(node.output, graph.output, strict=True):
            source = renamed(entry.name)
            self.sources[name] = self.sources.get(source, set())
            if source in self.waiting:
                self.waiting.add(name)
            elif name:
                self.define(name, self.scope.values[source])

    def refuse(self, node: Any, reason: str) -> None:
        self.waiting.update(node.output)
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        self.unsupported.setdefault(f"{operator}: {reason}", []).append(node.name or (node.output[0] if node.output else "?"))
