"""A graph of ONNX, the model's own or one inside of a node, on its way to a graph of ours: each node by the row of its operator,
what is known computed at once.

Shapes, axes and the like may come as inputs of the model, or be computed. What a conversion needs to know, and does not, is noted:
the inputs that it comes from are *late*, if they are small; a value that is computed is *measured*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ...base import FAULTS, TilewrightError, dataclass, field, is_interruption, user_source
from ..conversion import NeedsValue, Refused, Scope
from ..errors import InvalidNode, NotAModel
from ..node import Param
from ..subgraphs import InnerScope
from .context import ROWS, Context, operator_name
from .reader import is_known, narrow_constants, read_array, read_attributes, widen_integers
from .schema import check_node

__all__ = ["CONTROL", "Needs", "Reading", "controls"]

_MOST_LATE = 64
_MOST_DEPTH = 8
_CHANGES = ""
"""Among the sources of a value: that it changes from iteration to iteration."""


@dataclass
class Needs:
    """Values that must be known before a model can be read. values: what is known already, inputs and values of ONNX by name.
    versions: of its operators, by their domain. late: inputs. weights: the model's own that were read, by their numbers. measured:
    values that are computed, by the names under which they will be known, and what they are in our graph."""

    values: Mapping[str, NDArray[Any]]
    folder: Path | None
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    late: dict[str, None] = field(default_factory=dict[str, None])
    weights: dict[int, Param] = field(default_factory=dict[int, Param])
    measured: dict[str, str] = field(default_factory=dict[str, str])


class Reading:
    """Reading of one ONNX graph.

    outer: of the graph around this one, which stands inside of one of its nodes.
    """

    def __init__(self, needs: Needs, scope: Scope, outer: Reading | None = None) -> None:
        self.needs, self.scope, self.outer = needs, scope, outer
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.unsupported: dict[str, list[str]] = {}
        self.waiting: set[str] = set()
        """Values of ONNX that cannot be told yet, since a conversion before them waits or is refused."""
        self.sources: dict[str, set[str]] = {} if outer is None else dict(outer.sources)
        """The inputs that a value comes from."""

    @property
    def is_outside(self) -> bool:
        """Return whether the nodes are those of the model's own graph."""
        return self.outer is None or not isinstance(self.scope, InnerScope) and self.outer.is_outside

    def enter_graph(self, name: str) -> tuple[Reading, InnerScope]:
        """The reading of a graph inside of a node. Raises Refused."""
        if self.depth >= _MOST_DEPTH:
            raise Refused("its graphs are nested too deep")
        scope = InnerScope(self.scope, name or "body")
        return Reading(self.needs, scope, self), scope

    def value(self, name: str) -> str | None:
        """Our value of this name, here or around; None where there is none."""
        if name not in self.scope.values and self.outer is not None:
            outside = self.outer.value(name)
            if outside is not None:
                self.scope.values[name] = self.scope.taken(outside) if isinstance(self.scope, InnerScope) else outside
        return self.scope.values.get(name)

    def is_unknown(self, name: str) -> bool:
        """Return whether a value cannot be told yet."""
        return (
            name in self.waiting
            or name not in self.scope.values
            and self.outer is not None
            and self.outer.is_unknown(name)
        )

    def refuse_unknown(self, graph: Any) -> None:
        """Lists every operator that has no row."""
        for node in graph.node:
            if not is_known(node):
                self.refuse(node, "the operator is not supported")

    def parameters(self, graph: Any) -> None:
        held = self.needs.weights
        for name, operator in narrow_constants(graph).items():
            if operator:
                raise NotAModel(
                    f"{operator} reads {name!r}, whose elements have less than a byte"[:300],
                    called=user_source(),
                    reason="they are bytes here, which is the same for DequantizeLinear and Cast alone",
                    fix="store them as int8 or uint8",
                )
        statistics = {name for node in graph.node if node.op_type == "BatchNormalization" for name in node.input[3:5]}
        for at, tensor in enumerate(graph.initializer):
            if self.outer is not None:
                self.scope.values[tensor.name] = self.scope.constant(
                    widen_integers(read_array(tensor, self.needs.folder))
                )
                continue
            held[at] = (
                held[at]
                if at in held
                else Param.of(widen_integers(read_array(tensor, self.needs.folder)), tensor.name in statistics)
            )
            self.scope.values[tensor.name] = self.scope.graph.param(tensor.name, held[at])
        if graph.sparse_initializer:
            raise NotAModel(
                "the model has sparse weights", called=user_source(), fix="write them as they are, with their zeros"
            )

    def nodes(self, nodes: Sequence[Any]) -> None:
        for node in nodes:
            inputs = [name for name in node.input if name]
            behind = (
                inputs if node.op_type not in ("Shape", "Size") else []
            )  # what they give does not depend on what is held
            self.sources.update(
                {name: set[str]().union(*(self.sources.get(one, set()) for one in behind)) for name in node.output}
            )
            if any(map(self.is_unknown, inputs)) or not is_known(node):
                self.waiting.update(node.output)
                continue
            missing = [name for name in inputs if self.value(name) is None]
            if missing:
                raise NotAModel(
                    f"the node {node.name or node.op_type!r} reads {missing[0]!r}, which nothing before it gives"[:300],
                    called=user_source(),
                    fix="onnx.checker.check_model(model) shows what is wrong",
                )
            self.node(node)

    def context(self, node: Any) -> Context:
        """Return the context of a node for its row."""
        inputs = [(self.value(name) or "") if name else "" for name in node.input]
        c = Context(self.scope, node, inputs, read_attributes(node, self.needs.folder), node.name or f"{node.op_type}")
        c.measures = self.needs.values
        return c

    def check(self, node: Any) -> None:
        """Raise InvalidNode (TW0916) for a node that its operator's definition does not allow."""
        graph = self.scope.graph
        values = [(self.value(name) or "") if name else "" for name in node.input]
        types = [graph.types.get(value) for value in values]
        data = [None if kind is None else graph.data(value) for value, kind in zip(values, types, strict=True)]
        check_node(node, self.needs.versions, types, data)

    def node(self, node: Any) -> None:
        try:
            self.check(node)
            operator = operator_name(node)
            if operator in CONTROL:
                CONTROL[operator](self, node)
                return
            c = self.context(node)
            results = ROWS[operator](c)
            c.refuse_unread_attributes()
            for name, value in zip(node.output, [results] if isinstance(results, str) else results, strict=False):
                if name and value:
                    self.define(name, value)
        except InvalidNode:
            raise
        except NeedsValue as need:
            self.wait(node, str(need), need.value)
        except Refused as reason:
            self.refuse(node, str(reason))
        except TilewrightError as problem:
            self.refuse(node, f"{problem.headline}. {problem.reason}")
        except (*FAULTS, MemoryError) as problem:
            if is_interruption(problem):
                raise
            self.refuse(node, f"it is not as its operator says: {type(problem).__name__} {problem}")

    def define(self, name: str, value: str) -> None:
        if name in self.scope.values:
            raise Refused(f"its value {name!r} is there already")
        if name in self.needs.values and self.is_outside:
            value = self.scope.constant(self.needs.values[name])
        self.scope.values[name] = value

    def wait(self, node: Any, name: str, value: str = "") -> None:
        """Make late what a needed value comes from, or has it measured. value: what it is of ours, where it is none of ONNX's."""
        self.waiting.update(node.output)
        if not value and self.may_wait(name):
            self.needs.late.update(dict.fromkeys(sorted(self.sources[name] - set(self.needs.values))))
            return
        ours = value or self.value(name) or ""
        if not self.is_outside or not ours or not _is_small(self.scope, ours):
            self.refuse(node, f"what {name!r} holds has to be known")
            return
        self.needs.measured[name] = ours

    def may_wait(self, name: str) -> bool:
        """Return whether a value comes from inputs that may be late."""
        needed = self.sources.get(name, set())
        return bool(needed) and all(map(self._may_be_late, needed))

    def _may_be_late(self, name: str) -> bool:
        """Return whether an input is small enough."""
        root = self
        while root.outer is not None:
            root = root.outer
        return name != _CHANGES and _is_small(root.scope, root.scope.values[name])

    def changes(self, name: str) -> None:
        """Notes that a value changes from iteration to iteration."""
        self.sources[name] = {_CHANGES}

    def read(self, graph: Any) -> None:
        """All nodes of a graph inside."""
        self.parameters(graph)
        self.refuse_unknown(graph)
        self.nodes(graph.node)

    def merge(self, inside: Reading) -> None:
        """Lists what a graph inside of this one has that is not supported."""
        for reason, names in inside.unsupported.items():
            self.unsupported.setdefault(reason, []).extend(names)

    def beside(self, graph: Any, given: Sequence[str] = ()) -> Reading:
        """A graph inside of a node whose nodes were added to those of this one; the names of their values are their own. given: our
        values of its inputs."""
        reading = Reading(self.needs, self.scope.beside(), self)
        if self.depth >= _MOST_DEPTH:
            raise Refused("its graphs are nested too deep")
        reading.scope.values.update({entry.name: value for entry, value in zip(graph.input, given, strict=True)})
        reading.read(graph)
        self.merge(reading)
        return reading

    def inline_graph(self, node: Any, graph: Any) -> None:
        """The nodes of a graph in the place of one."""
        reading = self.beside(graph)
        for name, entry in zip(node.output, graph.output, strict=True):
            self.sources[name] = reading.sources.get(entry.name, set())
            value = reading.value(entry.name)
            if reading.is_unknown(entry.name) or reading.unsupported:
                self.waiting.add(name)
            elif name and value is not None:
                self.define(name, value)

    def refuse(self, node: Any, reason: str) -> None:
        self.waiting.update(node.output)
        name = node.name or (node.output[0] if node.output else "?")
        self.unsupported.setdefault(f"{operator_name(node)}: {reason}", []).append(name)


Control = Callable[[Reading, Any], None]
CONTROL: dict[str, Control] = {}
"""How a node with graphs inside becomes nodes of ours."""


def controls(name: str) -> Callable[[Control], Control]:
    """Make a row for this operator."""

    def register(row: Control) -> Control:
        CONTROL[name] = row
        return row

    return register


def _is_small(scope: Scope, value: str) -> bool:
    """Return whether a value may be asked for before the rest is known."""
    kind = scope.graph.types[value]
    return kind.is_static and len(kind.shape) < 2 and all(int(extent) <= _MOST_LATE for extent in kind.shape)
