"""Memory accesses of programs: by their reads and stores, and by the pointers that they give to outside code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .buffer import Buffer
from .dtype import HANDLE
from .expr import BufferLoad, Call, Expr, IntImm, Node, ProducerLoad, Var
from .ops import const
from .pointers import READS, WRITES, pointed_buffer
from .stmt import Allocate, Assert, BufferStore, Evaluate, Stmt
from .visit import post_order, rewrite

__all__ = ["only_checks", "reading_only", "reads_memory", "written_buffers"]


def reads_memory(value: object) -> bool:
    """Return whether a value is an expression that depends on the contents of tensors or buffers."""
    if not isinstance(value, Expr) or isinstance(value, (IntImm, Var)):
        return False
    return any(isinstance(node, (ProducerLoad, BufferLoad)) for node in post_order(value))


def only_checks(stmt: Stmt) -> bool:
    """Return whether a statement asserts something about scalars and loops, and does nothing else."""
    nodes = list(post_order(stmt))
    return any(isinstance(node, Assert) for node in nodes) and not any(
        isinstance(node, (Allocate, BufferLoad, BufferStore, Call, Evaluate)) for node in nodes
    )


def reading_only(body: Any, buffers: Sequence[Buffer]) -> Any:
    """`body` whose packed arrays of `buffers` are only read."""

    def rule(node: Node) -> Node | None:
        if isinstance(node, Call) and node.name == "packed_array":
            start = node.args[0]
            pointed = pointed_buffer(start)
            if pointed is not None and pointed[0] in buffers and isinstance(start, Call):
                return Call(
                    node.name, (Call(start.name, (*start.args[:2], const(READS)), HANDLE), *node.args[1:]), HANDLE
                )
        return None

    return rewrite(body, rule)


def written_buffers(body: Node) -> set[Buffer]:
    """The buffers that are stored to, or that outside code may write through a pointer."""
    written: set[Buffer] = set()
    for node in post_order(body):
        if isinstance(node, BufferStore):
            written.add(node.buffer)
        else:
            pointed = pointed_buffer(node)
            if pointed is not None and pointed[1] & WRITES:
                written.add(pointed[0])
    return written
