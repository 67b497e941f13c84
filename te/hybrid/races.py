"""Loops that a script declares parallel or vectorized: what certainly goes wrong with them is an error.

The script's word is taken that iterations do not meet where that depends on what is read, as in `out[order[i]] = a[i]`.
A store whose place does not change with the loop at all is another matter: all iterations write the same element.
"""

from __future__ import annotations

from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Node, ProducerLoad, Var
from ...ir.stmt import Allocate, BufferStore, For, If, LetStmt, Stmt
from ...ir.visit import children, post_order

__all__ = ["racing_buffer"]


def racing_buffer(loop: For) -> Buffer | None:
    """A buffer of which all iterations of `loop` write the same element; None where none is known to be."""
    own = {node.buffer for node in post_order(loop.body) if isinstance(node, Allocate)}
    changing: set[Var] = {loop.var}
    stack: list[tuple[Stmt, bool]] = [(loop.body, False)]
    while stack:
        statement, guarded = stack.pop()
        if isinstance(statement, (LetStmt, For)):
            if _changes(statement.value if isinstance(statement, LetStmt) else statement.extent, changing):
                changing.add(statement.var)
        elif isinstance(statement, If):
            guarded = guarded or _changes(statement.condition, changing)
        elif isinstance(statement, BufferStore):
            if not guarded and statement.buffer not in own and not any(_changes(index, changing) for index in statement.indices):
                return statement.buffer
            continue
        stack.extend((child, guarded) for child in reversed(children(statement)) if isinstance(child, Stmt))
    return None


def _changes(value: Node, changing: set[Var]) -> bool:
    return any(node in changing if isinstance(node, Var) else isinstance(node, (BufferLoad, ProducerLoad))
               for node in post_order(value))
