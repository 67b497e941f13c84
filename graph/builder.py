"""Builder of graphs: inputs, parameters and nodes, each of which uses what is there already.

    b = tw.graph.Builder("net")
    x = b.input("x", (1, 3, "h", "w"))
    b.output("y", b.node("relu", b.node("conv", x, b.param("w", weights), stride=(1, 1))))
    g = b.graph()

Parsers, importers and passes make theirs this way too, so that every node's types were found by declaring it.
"""

from __future__ import annotations

from .assembly import Assembly
from .graph import Graph

__all__ = ["Builder"]


class Builder(Assembly):
    """Make a graph: inputs, parameters and nodes in an order in which each uses what is there already."""

    def graph(self) -> Graph:
        """The graph of what was added so far."""
        return Graph.of(self.parts())
