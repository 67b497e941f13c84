"""Stores that follow each other, rewritten together: what an unrolled loop has become."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...expr import Node
from ...stmt import BufferStore, Seq, Stmt
from ...visit import Rewriter, rebuild, seq

__all__ = ["StoreRuns"]


class StoreRuns(Rewriter):
    """Puts what `together` makes of them in place of the stores that follow each other without anything between."""

    def __init__(self, together: Callable[[list[BufferStore]], Sequence[Stmt]]) -> None:
        self.together = together

    def BufferStore(self, node: BufferStore) -> Stmt:
        return seq(*self.together([node]))

    def Seq(self, node: Seq) -> Stmt:
        rewritten: list[Node] = []
        run: list[BufferStore] = []
        for statement in node.body:
            if isinstance(statement, BufferStore):
                run.append(statement)
                continue
            rewritten += self.together(run)
            run = []
            rewritten.append(self.visit(statement))
        rewritten += self.together(run)
        return rebuild(node, rewritten)
