"""Loops that a script declares parallel or vectorized: what may go wrong with them is an error.

Iterations of a parallel loop must be proved not to meet, as those of a scheduled loop must: where the place of a store depends on
what is read, as in `out[order[i]] = a[i]`, nobody can. Updates by atomic_add may meet, where nothing else touches the buffer.
Vectorized loops whose lanes may meet run serially; a store whose place does not change with the loop at all is an error there too.
"""

from __future__ import annotations

from ...ir.analysis.dependence import Iterations, accesses_of
from ...ir.atomics import is_atomic, only_updated
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Node, ProducerLoad, Range, Var
from ...ir.stmt import Allocate, BufferStore, For, If, LetStmt, Stmt, While
from ...ir.visit import children, post_order

__all__ = ["meeting_buffer", "racing_buffer"]


def meeting_buffer(loop: For) -> tuple[Buffer, bool] | None:
    """A buffer of which iterations of `loop` may touch one element that one of them stores, and whether that depends on data; None
    where they are proved not to."""
    accesses = accesses_of(loop.body)
    for buffer in only_updated(loop.body):
        accesses.stored.pop(buffer, None)
        accesses.loaded.pop(buffer, None)
    own = {loop.var: Range(loop.begin, loop.extent), **accesses.bound}
    met = accesses.meeting(Iterations(loop.var, own, constant=accesses.constant))
    if met is None:
        return None
    buffer, first, second = met
    return buffer, any(
        isinstance(node, (BufferLoad, ProducerLoad)) for index in (*first, *second) for node in post_order(index)
    )


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
        elif isinstance(statement, (If, While)):
            guarded = guarded or _changes(statement.condition, changing)
        elif isinstance(statement, BufferStore):
            fixed = not any(_changes(index, changing) for index in statement.indices)
            if fixed and not guarded and not is_atomic(statement) and statement.buffer not in own:
                return statement.buffer
            continue
        stack.extend((child, guarded) for child in reversed(children(statement)) if isinstance(child, Stmt))
    return None


def _changes(value: Node, changing: set[Var]) -> bool:
    return any(
        node in changing if isinstance(node, Var) else isinstance(node, (BufferLoad, ProducerLoad))
        for node in post_order(value)
    )
