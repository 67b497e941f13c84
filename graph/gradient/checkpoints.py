"""Values that the way back computes anew instead of having them kept.

    graph net                                   forward: h = f(x), y = g(h), loss = k(y)
      checkpoints: y                            back: gradient by y; then h again = f(after(x, gradient by y)), g and f back

A graph is cut behind its checkpoints. What a part reads of others is kept, all else of it is computed a second time: from copies
(`after`) that wait for the gradient, so that nobody takes both for one computation, and the first one's memory is free in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...base.errors import user_source
from ..assembly import Assembly
from ..errors import NoGradient
from ..node import Node, Parts

__all__ = ["Recomputed"]


class Recomputed:
    """The parts of a graph whose nodes were added to `b`. parts: of each node the number of its part, by its first value."""

    def __init__(self, b: Assembly, g: Parts, parts: Mapping[str, int]) -> None:
        self.b, self.g, self.parts = b, g, parts
        self._last = max(parts.values(), default=0)
        self._made: dict[int, dict[str, str]] = {}

    @staticmethod
    def of(b: Assembly, g: Parts, checkpoints: Sequence[str]) -> Recomputed | None:
        """None where there are no checkpoints. Raises NoGradient (TW0930) for what is not a value of a node."""
        computed = {name for node in g.nodes for name in node.outputs}
        wrong = next((name for name in checkpoints if name not in computed), None)
        if wrong is not None:
            raise NoGradient(
                f"graph {g.name} has no checkpoint {wrong!r}"[:300],
                reason="no node gives this value",
                called=user_source(),
                fix="name values of nodes, as str(g) shows them",
            )
        parts: dict[str, int] = {}
        number = 0
        for node in g.nodes:
            parts[node.outputs[0]] = number
            number += any(name in checkpoints for name in node.outputs)
        return Recomputed(b, g, parts) if checkpoints else None

    def node(self, node: Node, head: str) -> Node:
        """A node of the graph on values that are computed anew, once there is this gradient."""
        number = self.parts[node.outputs[0]]
        if number == self._last:  # its values were made just now
            return node
        values = self._made.get(number)
        if values is None:
            values = self._made[number] = self._emit_copy(number, head)
        return replace(
            node,
            inputs=tuple(values.get(name, name) for name in node.inputs),
            outputs=tuple(values.get(name, name) for name in node.outputs),
        )

    def _emit_copy(self, number: int, head: str) -> dict[str, str]:
        """The nodes of a part a second time: what their values, and those that they read, are called."""
        values: dict[str, str] = {}
        for node in self.g.nodes:
            if self.parts[node.outputs[0]] != number:
                continue
            for name in node.inputs:
                if name and name not in values and name not in self.g.constants:
                    values[name] = self.b.node("after", name, head, source=node.source)
            if not any(name in values for name in node.inputs):
                continue
            attributes: dict[str, Any] = dict(node.attributes)
            made = self.b.nodes(
                node.operator,
                *(values.get(name, name) for name in node.inputs),
                source=node.source,
                bodies=node.bodies,
                **attributes,
            )
            values.update(zip(node.outputs, made, strict=True))
        return values
