"""Importer from an exported program of torch to a graph: each call by the row of its operator, what is written in place made functional,
what is not supported listed whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import user_source, warn_user
from ..caches import State, keep_state
from ..conversion import Scope, unsupported_model
from ..errors import BadExternalData, NotAModel
from ..node import Parts
from ..open_graph import Measures
from ..rewrite import remove_dead
from ..types import TensorType
from . import (
    arithmetic,
    gradients,
    indexing,
    layers,
    lookups,
    losses,
    makers,
    movement,
    recurrent,
    reductions,
    special,
    vision,
)
from .aliases import Alias, Storage
from .archive import Archive
from .extents import UNREAD
from .frame import FrameReading, find_tensors
from .guards import assumptions
from .schema import Exported, TensorName, Values, exported

__all__ = ["FAMILIES", "Importer"]

FAMILIES = (
    arithmetic,
    gradients,
    layers,
    lookups,
    losses,
    makers,
    movement,
    indexing,
    recurrent,
    reductions,
    special,
    vision,
)
"""Importing them fills the table of rows."""


class Importer:
    """An archive's program, read with this state, once or again as more becomes known of it. late: nothing; its inputs have the
    shapes that the program says."""

    def __init__(self, archive: Archive, name: str, state: State) -> None:
        self.archive, self.name, self.finds_state = archive, name, state is True
        self.state: Mapping[str, str] = {} if state is True or state is None else state
        self.late: dict[str, None] = {}
        self._program = exported(archive.program)

    @property
    def inputs(self) -> dict[str, TensorType]:
        """Inputs that the user passes."""
        scope = Scope(self.name)
        reading = _Reading(self.archive, self._program, scope, self.state)
        frame = FrameReading(scope, self._program.frame, {})
        for at, entry in enumerate(self._program.inputs):
            if entry.kind == "user_input" and isinstance(entry.argument, TensorName):
                reading.add_user_input(frame, entry.argument, at)
        return dict(scope.graph.parts().inputs)

    def read(self, values: Mapping[str, NDArray[Any]]) -> Parts | Measures:
        """The graph, where what was measured has these values, or what has to be measured first. Raises NotAModel (TW0911),
        UnsupportedModel (TW0912), BadExternalData (TW0913), BadGraph (TW0901)."""
        state = self.state
        if self.finds_state:
            reading = _Reading(self.archive, self._program, Scope(self.name), {})
            g = reading.graph(values)
            if isinstance(g, Measures):
                return g
            state = {path: path for path in reading.written}
        reading = _Reading(self.archive, self._program, Scope(self.name), state)
        g = reading.graph(values)
        if self.finds_state:
            return keep_state(g) if isinstance(g, Parts) else g
        reading.warn_of_forgotten()
        return g


class _Reading:
    def __init__(self, archive: Archive, program: Exported, scope: Scope, state: Mapping[str, str]) -> None:
        self.archive, self.program, self.state = archive, program, state
        self.scope = scope
        self.refused: dict[str, list[str]] = {}
        self.names: Counter[str] = Counter()
        self.written: dict[str, bool] = {}
        """Inputs that the program writes, by name: true where the caller passes them."""

    def graph(self, values: Mapping[str, NDArray[Any]]) -> Parts | Measures:
        frame = FrameReading(self.scope, self.program.frame, self.refused)
        frame.known = values
        for at, entry in enumerate(self.program.inputs):
            if entry.kind == "user_input" and isinstance(entry.argument, TensorName):
                self.add_user_input(frame, entry.argument, at)
        read = {str(name) for node in self.program.frame.nodes for name in find_tensors(node.arguments)}
        read |= {str(entry.argument) for entry in self.program.results}
        for entry in self.program.inputs:
            if entry.kind != "user_input" and str(entry.argument) in read:
                self.add_constant(frame, entry)
        inputs = {name: alias.storage for name, alias in frame.tensors.items()}
        frame.run()
        if self.refused:
            raise unsupported_model(self.refused)
        if frame.measured:
            for name, value in frame.measured.items():
                self.scope.graph.output(name, value)
            return Measures(remove_dead(self.scope.graph.parts()))
        self.add_results(frame, inputs)
        for past, present in self.state.items():
            self.scope.graph.state(past, present)
        return remove_dead(self.scope.graph.parts())

    def add_user_input(self, frame: FrameReading, name: TensorName, at: int) -> None:
        meta = self.program.frame.tensors.get(name)
        if meta is None or meta.dtype is None:
            raise NotAModel(
                f"the program's input {at} is of no type that values here can have",
                called=user_source(),
                fix="inputs that are tensors of numbers",
            )
        if UNREAD in meta.shape:
            raise NotAModel(
                f"the program's input {at} has a shape that cannot be read",
                called=user_source(),
                reason=f"{name} has {', '.join(map(str, meta.shape))}"[:300],
                fix="dynamic_shapes that are symbols of torch.export.Dim, or sums and products of them",
            )
        frame.tensors[name] = Alias.fresh(self.scope.graph.input(str(name), meta.shape, meta.dtype))

    def add_constant(self, frame: FrameReading, entry: Values) -> None:
        """A parameter, a buffer, or a constant tensor."""
        if entry.kind not in ("parameter", "buffer", "tensor_constant"):
            raise NotAModel(
                f"the program has an input that is a {entry.kind[:50]}",
                called=user_source(),
                reason="it is not a tensor",
                fix="a module whose state is tensors",
            )
        meta = self.program.frame.tensors.get(entry.argument)
        if entry.path in self.state and meta is not None and meta.dtype is not None:
            frame.tensors[entry.argument] = Alias.fresh(self.scope.graph.input(entry.path, meta.shape, meta.dtype))
            return
        param = self.archive.param(entry.path)
        if meta is None or meta.value_type != (param.type.shape, param.type.dtype):
            raise BadExternalData(
                f"the values of {entry.path!r} are not those that the program means"[:200],
                called=user_source(),
                reason=f"they are {param.type}",
                fix="write the archive again by torch.export.save",
            )
        name = entry.path if entry.path and entry.path not in self.scope.graph.types else str(entry.argument)
        held = param if entry.kind == "parameter" and meta.is_trained else replace(param, fixed=True)
        frame.tensors[entry.argument] = Alias.fresh(self.scope.graph.param(name, held))
        if entry.kind == "parameter":
            self.scope.weights.add(name)

    def add_results(self, frame: FrameReading, inputs: Mapping[str, Storage]) -> None:
        """The user's outputs first, then what was written of buffers and inputs."""
        asked = self.asked()
        paths = {
            entry.argument: entry.path or str(entry.argument)
            for entry in self.program.inputs
            if entry.argument is not None
        }
        for entry in self.program.results:
            if entry.kind == "user_output" and entry.argument is not None:
                name = str(entry.argument) if isinstance(entry.argument, TensorName) else "number"
                value = frame.value(entry.argument)
                if asked and name not in self.state.values():
                    value, asked = self.scope.emit("after", (value, asked), {}, "sizes")[0], ""
                self.add_output(name, value)
        for name, path in paths.items():
            if name in inputs and inputs[name].version:
                self.add_output(path, inputs[name].value)
        for entry in self.program.inputs:
            name = str(entry.argument)
            if entry.kind in ("buffer", "tensor_constant", "user_input") and name in inputs and inputs[name].version:
                self.written[paths[entry.argument]] = entry.kind == "user_input"
        for entry in self.program.results:
            if entry.kind in ("buffer_mutation", "user_input_mutation"):
                self.written[entry.path] = entry.kind == "user_input_mutation"
        for entry in self.program.results:
            if entry.kind in ("buffer_mutation", "user_input_mutation", "parameter_mutation"):
                self.add_output(entry.path, frame.value(entry.argument))
            elif entry.kind != "user_output":
                raise NotAModel(
                    f"the program has an output that is a {entry.kind[:50]}",
                    called=user_source(),
                    fix="a program for inference",
                )

    def warn_of_forgotten(self) -> None:
        """Warn where what the program writes is not updated: buffers, such as a decoder's cache, are constants of the graph, so that
        every call begins with what they hold now, and inputs stay as they are."""
        for passed, what in (
            (False, "buffers, and every call begins with what they hold now"),
            (True, "inputs, which stay as they are"),
        ):
            names = [name for name, is_input in self.written.items() if is_input is passed and name not in self.state]
            if names:
                named = ", ".join(f"{name!r}: {name!r}" for name in names[:4]) + (", ..." if len(names) > 4 else "")
                warn_user(
                    user_source(),
                    f"the model writes to {len(names)} of its {what}: from_torch(..., state={{{named}}}), or "
                    "state=True, makes them inputs that are updated in place",
                )

    def asked(self) -> str:
        """A value without elements, whose shape there is only for sizes of which torch's assumptions hold: what comes after it asks
        for them. "" where they need not be asked for."""
        shape = assumptions(self.program.guards, self.program.greatest, self.scope.graph.parts())
        if not shape:
            return ""
        nothing = self.scope.constant(np.zeros((*[1] * len(shape), 0), bool))
        return self.scope.emit("broadcast_to", (nothing,), {"shape": (*shape, 0)}, "sizes")[0]

    def add_output(self, name: str, value: str) -> None:
        """An output; of several that are one value, each has a name of its own."""
        count = self.names[name]
        self.names[name] += 1
        self.scope.graph.output(f"{name}_{count}" if count else name, value)
