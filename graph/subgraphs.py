"""Graphs inside of nodes, as importers put them together: what they read of the graph outside becomes an input of theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .conversion import Items, Scope
from .node import Parts
from .rewrite import remove_dead
from .types import Extent, TensorType

__all__ = ["InnerScope", "emit_if", "emit_loop"]


class InnerScope(Scope):
    """A graph to be inside of a node. outer: the one that the node stands in."""

    def __init__(self, outer: Scope, name: str) -> None:
        super().__init__(name, outer.opset)
        self.outer = outer
        self.trips = dict(outer.trips)
        self._taken: dict[str, str] = {}
        self._captured: dict[str, str] = {}
        """The outer values by the inputs that they are."""

    def taken(self, value: str) -> str:
        """An outer value in here: known, where it is known outside; otherwise an input."""
        if value not in self._taken and value in self.outer.lists:
            items = self.outer.lists[value]
            rows = self.taken(items.rows) if items.rows else ""
            self._taken[value] = self.name_list(Items(tuple(map(self.taken, items.values)), rows, items.grows))
        elif value not in self._taken:
            held = self.outer.graph.find_param(value)
            (name,) = self.graph.fresh(1)
            if held is not None:
                self.graph.param(name, held)
            else:
                kind = self.outer.graph.types[value]
                self._captured[self.graph.input(name, kind.shape, kind.dtype)] = value
                for ours, theirs in ((self.shapes, self.outer.shapes), (self.steps, self.outer.steps)):
                    if value in theirs:
                        ours[name] = theirs[value]
            self._taken[value] = name
        return self._taken[value]

    def parts(self, results: Sequence[str]) -> tuple[Parts, dict[str, str]]:
        """The graph that gives these values, and which of its inputs are which outer values: those that it needs."""
        g = remove_dead(replace(self.graph.parts(), results={f"result{at}": value for at, value in enumerate(results)}))
        needed = set(g.results.values()) | {name for node in g.nodes for name in node.inputs}
        captured = {name: value for name, value in self._captured.items() if name in needed}
        return replace(
            g, inputs={name: kind for name, kind in g.inputs.items() if name not in self._captured}
        ), captured


def _append_captured(g: Parts, captured: Mapping[str, str], values: Mapping[str, TensorType]) -> Parts:
    """The graph with these outer values as its last inputs, whether it reads them or not."""
    names = {value: name for name, value in captured.items()}
    taken = {*g.types, *captured}
    inputs = dict(g.inputs)
    for value, kind in values.items():
        name = names.get(value, value)
        while value not in names and name in taken:
            name += "_"
        taken.add(name)
        inputs[name] = kind
    return replace(g, inputs=inputs)


def emit_if(
    scope: Scope,
    condition: str,
    branches: Sequence[InnerScope],
    results: Sequence[Sequence[str]],
    source: str,
) -> tuple[str, ...]:
    """A node `if`. results: what each branch gives. Raises BadNode (TW0903)."""
    made = [branch.parts(values) for branch, values in zip(branches, results, strict=True)]
    values = {value: scope.graph.types[value] for _, captured in made for value in captured.values()}
    return scope.graph.nodes(
        "if", condition, *values, bodies=[_append_captured(g, captured, values) for g, captured in made], source=source
    )


def emit_loop(
    scope: Scope,
    body: InnerScope,
    trips: str,
    condition: str,
    first: Sequence[str],
    results: Sequence[str],
    count: Extent | None,
    source: str,
) -> tuple[str, ...]:
    """A node `loop`. body: its own inputs are the number of the iteration and what is carried. Raises BadNode (TW0903)."""
    g, captured = body.parts(results)
    values = {value: scope.graph.types[value] for value in captured.values()}
    return scope.graph.nodes(
        "loop",
        trips,
        condition,
        *first,
        *values,
        bodies=[_append_captured(g, captured, values)],
        carried=len(first),
        count=() if count is None else (count,),
        source=source,
    )
