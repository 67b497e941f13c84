"""Nodes that read each buffer: by a load of an element, or by a pointer that outside code gets."""

from __future__ import annotations

from ..buffer import Buffer
from ..expr import BufferLoad, Node
from ..pointers import pointed_buffer
from ..stmt import Stmt
from ..visit import children, walk

__all__ = ["Reads", "collect_reads"]

Reads = dict[Buffer, list[tuple[Node, Node]]]
"""By buffer, the nodes that read it, each with the load, or the pointer, that it does so by."""


def collect_reads(body: Stmt) -> Reads:
    """Return what reads the buffers below a statement. Outside code that gets an address may read what is there."""
    reads: Reads = {}
    for node in walk(body):
        for child in children(node):
            pointed = pointed_buffer(child)
            if pointed is not None:
                reads.setdefault(pointed[0], []).append((node, child))
            elif isinstance(child, BufferLoad) and pointed_buffer(node) is None:
                reads.setdefault(child.buffer, []).append((node, child))
    return reads
