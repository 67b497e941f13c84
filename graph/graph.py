"""Models as graphs: what users hold."""

from __future__ import annotations

from os import PathLike
from typing import Any

from numpy.typing import NDArray

from ..codegen.result import BuildOptions
from .file import write_file
from .model import Model, build_model
from .node import Parts
from .passes import default_passes, grouped, passes_named, transformed
from .printer import graph_text
from .reference import run

__all__ = ["Graph"]


class Graph(Parts):
    """A model. Two are equal if they have the same inputs, parameters (to the bit), nodes and outputs under the same names.

    `str(g)` is its text, which tw.graph.parse reads. It never changes: a Builder makes a new one.
    """

    def run(self, *arrays: Any, **named: Any) -> list[NDArray[Any]]:
        """The outputs for these inputs (in order, or by name), node by node by the reference: slow, and the oracle for what is
        built. Raises BadGraphInput (TW0906), UnboundParam (TW0907)."""
        return run(self, arrays, named)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the text and the parameters to a file of the format safetensors, for tw.graph.load. Raises BadGraphFile (TW0905),
        UnboundParam (TW0907)."""
        write_file(path, graph_text(self), self.params)

    def transform(self, *names: str) -> Graph:
        """The graph after these passes, which run in this order, and again until none of them changes anything; without names,
        after those that tw.build runs, with a node for each kernel. tw.graph.PASSES lists them. Raises UnknownPass (TW0914)."""
        made = transformed(self, passes_named(names)) if names else grouped(self)
        return self if made is self else Graph(made.name, made.inputs, made.constants, made.nodes, made.results)

    def built(self, target: Any, tuned: Any, options: BuildOptions, exact: bool) -> Model:
        """What tw.build(g) gives. Raises TargetTakesNoGraph (TW0908), UnboundParam (TW0907)."""
        return build_model(transformed(self, default_passes(options.fast_math, exact)), target, tuned, options, exact)

    def __str__(self) -> str:
        return graph_text(self)

    def __repr__(self) -> str:
        return f"Graph({self.name}: {len(self.nodes)} nodes, {len(self.constants)} params)"
