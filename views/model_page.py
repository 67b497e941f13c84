"""The page about a model: what it takes and gives, its kernels in the order of a call with the time of each, and its graph."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from ..base.dataclass import dataclass
from ..codegen.export.files import write_text_file
from .page import page_style, template

__all__ = ["KernelRow", "ModelFacts", "Step", "write_model_page"]


@dataclass(frozen=True)
class KernelRow:
    """One kernel at its place: what it does, what it gives, the names that the user knows its nodes by, and its times and rates, of
    which 0 are not known."""

    operators: str
    shapes: str
    nodes: tuple[str, ...]
    seconds: float = 0.0
    gflops: float = 0.0
    gbytes: float = 0.0


@dataclass(frozen=True)
class Step:
    """A pass that changed the graph, and the lines that it took away and those that it put there."""

    name: str
    difference: str

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Each line with what it is: gone, new, or neither."""
        kinds = {"-": "gone", "+": "new"}
        return [(kinds.get(line[:1], ""), line) for line in self.difference.splitlines()[2:]]


@dataclass(frozen=True)
class ModelFacts:
    """Contents of the page. facts: by what they are called. text: of the graph. steps: how passes made it, where that is told."""

    name: str
    facts: Sequence[tuple[str, str]]
    rows: Sequence[KernelRow]
    text: str
    steps: Sequence[Step] = ()

    @property
    def seconds(self) -> float:
        """All kernels together."""
        return sum(row.seconds for row in self.rows)

    @property
    def slowest(self) -> float:
        """The longest time of a kernel."""
        return max((row.seconds for row in self.rows), default=0.0)


def write_model_page(model: ModelFacts, path: str | PathLike[str]) -> Path:
    """Write the page, HTML that needs nothing else; return its absolute path."""
    return write_text_file(
        path, template("model.html").render(model=model, style=page_style("colors.css", "model.css"))
    )
