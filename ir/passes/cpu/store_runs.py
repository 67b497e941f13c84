"""Consecutive stores, rewritten together: what an unrolled loop has become."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...expr import Node
from ...stmt import BufferStore, If, Seq, Stmt
from ...visit import Rewriter, rebuild, seq

__all__ = ["StoreRuns", "find_store"]


class StoreRuns(Rewriter):
    """Put what `together` makes of them in place of the stores that follow each other without anything between; guarded: those
    that each stand under guards of their own are among them."""

    def __init__(self, together: Callable[[list[Stmt]], Sequence[Stmt]], *, guarded: bool = False) -> None:
        self.together, self.guarded = together, guarded

    def BufferStore(self, node: BufferStore) -> Stmt:
        return seq(*self.together([node]))

    def If(self, node: If) -> Stmt:
        return seq(*self.together([node])) if self._belongs(node) else self.generic(node)

    def Seq(self, node: Seq) -> Stmt:
        rewritten: list[Node] = []
        run: list[Stmt] = []
        for statement in node.body:
            if self._belongs(statement):
                run.append(statement)
                continue
            # anything else between two stores ends the run: it may read or write memory
            rewritten += self.together(run)
            run = []
            rewritten.append(self.visit(statement))
        rewritten += self.together(run)
        return rebuild(node, rewritten)

    def _belongs(self, statement: Stmt) -> bool:
        return isinstance(statement, BufferStore) or self.guarded and find_store(statement) is not None


def find_store(statement: Stmt) -> BufferStore | None:
    """A store, or the one that alone stands under guards; None of any other statement."""
    while isinstance(statement, If) and statement.else_body is None:
        statement = statement.then_body
    return statement if isinstance(statement, BufferStore) else None
