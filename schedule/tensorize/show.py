"""Two loop nests side by side, for messages: what a stage computes under a tensorized loop, and what an intrinsic does.

    C under 'j.inner'                             dot
    for j in 8:                                   for i in 8:
      for r in 4:  # reduce                         for k in 4:  # reduce
        C[i, j] = sum(A[i, r] * B[j, r])              c[i] = sum(a[k] + b[i, k])
                      ^^^^^^^^^^^^^^^^^                          ^^^^^^^^^^^^^^
    gives C: float32[i, j.outer * 8 : + 8]        gives c: float32[0 : + 8]
    ...

The first node that differs is marked on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base import dataclass, field
from ...ir import Expr, Node, Var, rewrite, substitute
from ...ir.analysis.regions import Span
from ...ir.arith.analyzer import Analyzer
from ...ir.ops import is_const
from ...te.tensor import Tensor

__all__ = ["NestSide", "beside", "tensor_region"]

_WIDTH = 68
"""What a column is cut to."""


@dataclass(frozen=True, slots=True)
class NestSide:
    """A nest to be shown. loops: name, extent and whether it reduces, outermost first. target: what is assigned. reducer:
    by which the sources are reduced, "" for none. names: what variables are shown as. regions: of the tensors that it
    gives and reads."""

    title: str
    loops: Sequence[tuple[str, str, bool]]
    target: str
    reducer: str
    sources: Sequence[Expr]
    condition: Expr | None = None
    init: Sequence[Expr] = ()
    names: Mapping[Var, Expr] = field(default_factory=dict[Var, Expr])
    regions: Sequence[str] = ()

    def lines(self, marked: object) -> tuple[list[str], int, int, int]:
        """The lines of the nest, and where `marked` is: the line, its first column, and how many. It is a node of the
        values, the name of a loop, or None for the reducer."""
        lines: list[str] = []
        mark = (-1, 0, 0)
        for depth, (name, extent, reduces) in enumerate(self.loops):
            begin = f"{'  ' * depth}for {name} in "
            lines.append(f"{begin}{extent}:{'  # reduce' if reduces else ''}")
            if marked == name:
                mark = (depth, len(begin), len(extent))
        indent = "  " * len(self.loops)
        text = self._statement(None)
        if isinstance(marked, Expr):
            start, length = self._place(marked, text)
            mark = (len(lines), len(indent) + start, length)
        elif marked is None:
            start = len(f"{self.target} = ")
            mark = (len(lines), len(indent) + start, len(self.reducer) or len(text) - start)
        lines.append(indent + text)
        line, start, length = mark
        if line >= 0 and len(lines[line]) > _WIDTH:
            shift = max(0, min(start - 12, len(lines[line]) - _WIDTH))
            lines[line] = ("..." + lines[line][shift + 3 :]) if shift else lines[line]
            start -= shift
        return [shown if len(shown) <= _WIDTH else shown[: _WIDTH - 3] + "..." for shown in lines], line, start, length

    def _place(self, node: Node, text: str) -> tuple[int, int]:
        """Return the place of a node in the statement; all of its value where it is not shown by itself."""
        before, token, after = self._statement(node).partition(_TOKEN)
        if not token or not text.startswith(before):
            start = len(f"{self.target} = ")
            return start, len(text) - start
        if _TOKEN in after:  # it is shared: the first place is marked
            length = len(str(substitute(node, dict(self.names)) if isinstance(node, Expr) else node))
        else:
            length = len(text) - len(before) - len(after)
        return len(before), max(length, 1)

    def _statement(self, hidden: Node | None) -> str:
        values = ", ".join(self._text(value, hidden) for value in self.sources)
        if not self.reducer:
            return f"{self.target} = {values}"
        if self.condition is not None and not is_const(self.condition, 1):
            values += f", where={self._text(self.condition, hidden)}"
        if self.init:
            values += f", init={', '.join(self._text(value, hidden) for value in self.init)}"
        return f"{self.target} = {self.reducer}({values})"

    def _text(self, value: Expr, hidden: Node | None) -> str:
        if hidden is not None:
            value = rewrite(
                value, lambda node: Var(_TOKEN, node.dtype) if node is hidden and isinstance(node, Expr) else None
            )
        return str(substitute(value, dict(self.names)))


_TOKEN = "here_it_differs"


def beside(left: NestSide, right: NestSide, marked: tuple[object, object]) -> str:
    """Both nests as columns of text, with carets under what is marked."""
    columns: list[list[str]] = []
    for side, mark in zip((left, right), marked, strict=True):
        lines, at, start, length = side.lines(mark)
        if at >= 0:
            lines.insert(at + 1, (" " * start + "^" * length)[:_WIDTH])
        columns.append([side.title, *lines])
    bottom = max(map(len, columns))
    for column, side in zip(columns, (left, right), strict=True):
        column += [*[""] * (bottom - len(column)), *side.regions]
    height = max(map(len, columns))
    width = max(map(len, columns[0])) + 4
    mine, its = ([*column, *[""] * (height - len(column))] for column in columns)
    return "\n".join(f"{a:<{width}}{b}".rstrip() for a, b in zip(mine, its, strict=True))


def tensor_region(tensor: Tensor, spans: Sequence[Span | None], analyzer: Analyzer) -> str:
    """The part of a tensor that is touched, a span for each dimension."""
    shown: list[str] = []
    for span, whole in zip(spans, tensor.shape, strict=True):
        extent = None if span is None else analyzer.simplify(span.high - span.low + 1)
        if span is None or extent is None:
            shown.append(f"0 : + {whole}?")
        else:
            shown.append(str(span.low) if is_const(extent, 1) else f"{span.low} : + {extent}")
    return f"{tensor.name}: {tensor.dtype}[{', '.join(shown)}]"
