"""Virtual threads: one thread does the work of several, statement by statement.

    for v in thread("vthread", 2):                        A.shared: shared float32[8]
        A.shared: shared float32[8]                       A.shared[t] = A[t]           # nothing of v: once
        A.shared[t] = A[t]                        →       C.local: local float32[2, 4]
        C.local: local float32[4]                         for i in 4:
        for i in 4:                                           for v in unrolled(0, 2):
            C.local[i] = A.shared[v * 4 + i]                      C.local[v, i] = A.shared[v * 4 + i]

Loops that do not depend on v stay outside, so that what the threads fetch together is fetched, and waited for, once.
Buffers whose content depends on v gain a dimension. It stands before threads are mapped to hardware.
"""

from __future__ import annotations

from dataclasses import replace

from ...accesses import written_buffers
from ...buffer import Buffer
from ...expr import BufferLoad, IntImm, Node, Var
from ...ops import const, is_const
from ...stmt import Allocate, BufferStore, Evaluate, For, If, LetStmt, LoopKind, Seq, Stmt, While
from ...visit import Rewriter, children, loads, rebuild, rewrite, seq, statements, walk
from ..common.fresh_copy import fresh_copy
from .hardware import is_virtual

__all__ = ["inject_virtual_threads"]


def inject_virtual_threads(body: Stmt, known_only: bool = False) -> Stmt:
    """`body` without loops of virtual threads; known_only: those of extents that are not known stay."""
    return _Injector(known_only).visit(body)


class _Injector(Rewriter):
    def __init__(self, known_only: bool) -> None:
        self.known_only = known_only

    def For(self, node: For) -> Stmt:
        if node.kind is not LoopKind.THREAD or not is_virtual(node.thread):
            return self.generic(node)
        # an interleaved body is unrolled, which needs a number
        if self.known_only and not isinstance(node.extent, IntImm):
            return self.generic(node)
        if is_const(node.extent, 0):
            return Seq(())
        inner = self.visit(node.body)  # inner virtual threads first: what is left below are plain loops
        return _Threads(node, inner).spread(inner)


class _Threads:
    """One virtual thread axis over `body`."""

    def __init__(self, loop: For, body: Stmt) -> None:
        self.loop = loop
        self.touched: set[Var | Buffer] = {loop.var}
        self.expanded: dict[Buffer, Buffer] = {}
        # only what is allocated inside can be expanded
        own = {node.buffer for node in statements(body) if isinstance(node, Allocate)}
        while self._taint(body, own):
            pass

    def _taint(self, body: Stmt, own: set[Buffer]) -> bool:
        """One round of finding what depends on the axis; whether anything was found."""
        before = len(self.touched)
        stack: list[tuple[Node, bool]] = [(body, False)]
        while stack:
            node, under = stack.pop()
            if isinstance(node, LetStmt) and (under or self.depends(node.value)):
                self.touched.add(node.var)
            elif isinstance(node, For) and (under or self.depends(node.begin) or self.depends(node.extent)):
                under = True  # under a loop that depends on the axis everything does
                self.touched.add(node.var)
            elif isinstance(node, (If, While)):
                under = under or self.depends(node.condition)
            # storing what depends on the axis makes the buffer depend on it
            elif isinstance(node, BufferStore) and node.buffer in own and (under or self.depends(node)):
                self.touched.add(node.buffer)
            elif isinstance(node, Evaluate) and (under or self.depends(node)):
                self.touched.update(written_buffers(node) & own)
            stack.extend((child, under) for child in children(node) if isinstance(child, Stmt))
        return len(self.touched) > before

    def depends(self, node: Node) -> bool:
        """Return whether a statement or a value differs between the virtual threads. An update of outside memory counts: each
        of them does it."""
        for inner in walk(node):
            if isinstance(inner, Var) and inner in self.touched:
                return True
            if isinstance(inner, (BufferLoad, BufferStore)) and inner.buffer in self.touched:
                return True
        return False

    def _has_outside_update(self, node: BufferStore, inside: set[Buffer]) -> bool:
        # an update of memory outside is done by each virtual thread, alike or not
        return node.buffer not in inside and any(load.buffer is node.buffer for load in loads(node.value))

    def spread(self, stmt: Stmt, inside: frozenset[Buffer] = frozenset()) -> Stmt:
        """`stmt` done by all of the virtual threads."""
        if isinstance(stmt, Seq):
            return seq(*[self.spread(part, inside) for part in stmt.body])
        if isinstance(stmt, Allocate):
            return self._allocate(stmt, inside)
        if isinstance(stmt, For) and not self.depends(stmt.begin) and not self.depends(stmt.extent):
            return rebuild(stmt, [stmt.begin, stmt.extent, self.spread(stmt.body, inside)])
        if isinstance(stmt, If) and not self.depends(stmt.condition):
            otherwise = None if stmt.else_body is None else self.spread(stmt.else_body, inside)
            return If(stmt.condition, self.spread(stmt.then_body, inside), otherwise)
        if isinstance(stmt, LetStmt) and not self.depends(stmt.value) and not self.depends(stmt.body):
            return LetStmt(stmt.var, stmt.value, self.spread(stmt.body, inside))
        if self.depends(stmt) or (isinstance(stmt, BufferStore) and self._has_outside_update(stmt, set(inside))):
            var = Var(self.loop.var.name, self.loop.var.dtype)
            return For(var, const(0, var.dtype), self.loop.extent, LoopKind.UNROLLED, self._copy(stmt, var))
        return stmt

    def _allocate(self, stmt: Allocate, inside: frozenset[Buffer]) -> Stmt:
        buffer = stmt.buffer
        if buffer in self.touched:
            strides = buffer.strides
            if strides:  # the new dimension is the slowest
                strides = (strides[0] * buffer.shape[0], *strides)
            self.expanded[buffer] = replace(buffer, shape=(self.loop.extent, *buffer.shape), strides=strides)
        body = self.spread(stmt.body, inside | {buffer})
        return Allocate(self.expanded.get(buffer, buffer), body)

    def _copy(self, stmt: Stmt, var: Var) -> Stmt:
        """`stmt` for the virtual thread `var`."""

        def rule(node: Node) -> Node | None:
            if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in self.expanded:
                return replace(node, buffer=self.expanded[node.buffer], indices=(var, *node.indices))
            return None

        return fresh_copy(rewrite(stmt, rule), {self.loop.var: var})
