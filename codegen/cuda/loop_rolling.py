"""Loops that the compiler is told not to unroll whole, though their extents are known.

    for i in 256:                              # starts: local int32[256]
        starts[digit[i]] += 1                  # data say which element

A thread's own memory is in registers where every loop over it is unrolled, so NVRTC unrolls such loops whatever their length. An
array of which data choose the element lies in memory all the same, and unrolling made it take seconds for nothing. What a pipeline
begins before its loop runs once, and is text to compile as often as it is written out.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir import Allocate, Buffer, BufferLoad, BufferStore, Expr, For, IntImm, LetStmt, LoopKind, Stmt, Var
from ...ir.copies import is_commit, is_wait
from ...ir.visit import statements, walk

__all__ = ["beginnings", "rolled_loops"]

_FEW = 8
"""Iterations up to which a loop may be unrolled."""


def rolled_loops(body: Stmt) -> frozenset[For]:
    """The loops that step through a thread's arrays of which data choose elements, and through no other ones."""
    own = {node.buffer for node in statements(body) if isinstance(node, Allocate) and node.buffer.scope == "local"}
    if not own:
        return frozenset()
    loaded: set[Var] = set()
    for node in statements(body):
        if isinstance(node, LetStmt) and _depends_on_data(node.value, loaded):
            loaded.add(node.var)
    in_memory = {buffer for buffer, index in _accesses(body) if buffer in own and _depends_on_data(index, loaded)}
    loops = [node for node in statements(body) if isinstance(node, For)] if in_memory else []
    return frozenset(loop for loop in loops if _is_rolled(loop, own, in_memory))


def beginnings(body: Stmt) -> frozenset[For]:
    """The loops that begin asynchronous copies and wait for none."""
    if not any(is_commit(node) for node in statements(body)):
        return frozenset()
    loops = [node for node in statements(body) if isinstance(node, For) and node.kind is LoopKind.SERIAL]
    inner = {loop: list(statements(loop.body)) for loop in loops}
    return frozenset(
        loop for loop, within in inner.items() if any(map(is_commit, within)) and not any(map(is_wait, within))
    )


def _is_rolled(loop: For, own: set[Buffer], in_memory: set[Buffer]) -> bool:
    if loop.kind is not LoopKind.SERIAL or not isinstance(loop.extent, IntImm) or loop.extent.value <= _FEW:
        return False
    used = {
        (buffer, any(node is loop.var for node in walk(index)))
        for buffer, index in _accesses(loop.body)
        if buffer in own
    }
    return any(buffer in in_memory for buffer, _ in used) and not any(
        steps and buffer not in in_memory for buffer, steps in used
    )


def _accesses(body: Stmt) -> Iterator[tuple[Buffer, Expr]]:
    for node in walk(body):
        if isinstance(node, (BufferLoad, BufferStore)):
            yield from ((node.buffer, index) for index in node.indices)


def _depends_on_data(index: Expr, loaded: set[Var]) -> bool:
    return any(isinstance(node, BufferLoad) or isinstance(node, Var) and node in loaded for node in walk(index))
