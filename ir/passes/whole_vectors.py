"""Rows of private memory as whole vectors, so that sums which end within a vector still live in registers.

    T: float32[7, 14]                                      T: float32[7, 16]
    for y in unrolled(7):                                  for y in unrolled(7):
        for x in vectorized(14):                               for x in vectorized(16):
            T[y, x] = T[y, x] + A[y, x] * w            →           T[y, x] = T[y, x] + (A[y, x] if x < 14 else 0) * w
    for y, x in 7, vectorized(14): C[y, x] = T[y, x]       for y, x in 7, vectorized(14): C[y, x] = T[y, x]

Without it every access of T would be masked, and LLVM keeps no masked memory in registers. What is read from elsewhere
stays masked, and so does what is stored there. Lanes beyond the row hold anything: nothing but those lanes reads them.

It stands while indices are n-d, after loop_partition, whose remainders are such rows, and is for machines that mask
every vector at no cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..buffer import Buffer
from ..expr import LT, BufferLoad, Expr, IfThenElse, IntImm, Let, Node, Var
from ..ops import const
from ..stmt import Allocate, Attr, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Stmt
from ..visit import Rewriter, free_vars, rewrite, walk
from .vectorize import DEFAULT_VECTOR_BITS

__all__ = ["whole_vectors"]


def whole_vectors(function: Function, vector_bits: int = DEFAULT_VECTOR_BITS) -> Function:
    """`function` with its private rows, and the loops that fill them, as long as vectors of `vector_bits` are."""
    rows = _Rows(vector_bits)
    rows.walk(function.body)
    wider = rows.wider()
    return function.with_body(_Widener(wider).visit(function.body)) if wider else function


@dataclass(slots=True)
class _Row:
    """What is known of an allocated buffer: the extent of the vectorized loops over its last dimension, 0 before one is
    met; whether it is accessed in any other way."""

    extent: int = 0
    otherwise: bool = False


class _Rows:
    """The allocated buffers of a function whose rows are read and written by vectorized loops from their beginning."""

    def __init__(self, vector_bits: int) -> None:
        self.vector_bits = vector_bits
        self.found: dict[Buffer, _Row] = {}
        self._lanes: dict[Var, int] = {}

    def walk(self, body: Stmt) -> None:
        for node in walk(body):  # loops and allocations are met before what they enclose
            if isinstance(node, Allocate):
                self._allocated(node.buffer)
            elif isinstance(node, For):
                if node.kind is LoopKind.VECTORIZED and isinstance(node.extent, IntImm) and _is_zero(node.begin):
                    self._lanes[node.var] = node.extent.value
            elif isinstance(node, (BufferLoad, BufferStore)):
                self._access(node)
            elif isinstance(node, Attr) and isinstance(node.subject, Buffer) and node.subject in self.found:
                self.found[node.subject].otherwise = True

    def _allocated(self, buffer: Buffer) -> None:
        if buffer.data is None and not buffer.strides and buffer.shape and buffer not in self.found:
            self.found[buffer] = _Row(otherwise=not isinstance(buffer.shape[-1], IntImm))

    def _access(self, node: BufferLoad | BufferStore) -> None:
        row = self.found.get(node.buffer)
        if row is None:
            return
        last = node.indices[-1]
        extent = self._lanes.get(last, 0) if isinstance(last, Var) else 0
        others = any(isinstance(inner, Var) and inner in self._lanes for index in node.indices[:-1] for inner in walk(index))
        if not extent or others or node.predicate is not None or row.extent not in (0, extent):
            row.otherwise = True
        row.extent = extent

    def wider(self) -> dict[Buffer, int]:
        """The last extent that each buffer gets whose rows end within a vector."""
        found: dict[Buffer, int] = {}
        for buffer, row in self.found.items():
            lanes = max(self.vector_bits // max(buffer.dtype.bits, 8), 1)
            extent = row.extent
            wide = 1 << (extent - 1).bit_length() if extent < lanes else -(-extent // lanes) * lanes
            if not row.otherwise and extent and (extent % lanes if extent > lanes else extent).bit_count() > 2:
                found[buffer] = wide
        return found


def _is_zero(value: Expr) -> bool:
    return isinstance(value, IntImm) and value.value == 0


class _Widener(Rewriter):
    def __init__(self, wider: dict[Buffer, int]) -> None:
        self.wider = wider
        self.buffers: dict[Buffer, Buffer] = {}

    def Allocate(self, node: Allocate) -> Stmt:
        old = node.buffer
        if old not in self.wider:
            return self.generic(node)
        last = old.shape[-1]
        self.buffers[old] = replace(old, shape=(*old.shape[:-1], const(max(self.wider[old], _value(last)), last.dtype)))
        return Allocate(self.buffers[old], self.visit(node.body))

    def For(self, node: For) -> Stmt:
        loop = self.generic(node)
        extent = self._extent(node)
        if extent is None:
            return loop
        return replace(loop, extent=const(extent, node.extent.dtype), body=_guarded(loop.body, node.var, node.extent, self._new))

    @property
    def _new(self) -> frozenset[Buffer]:
        return frozenset(self.buffers.values())

    def _extent(self, loop: For) -> int | None:
        """The extent of a loop that does nothing but fill widened rows; None of another."""
        if loop.kind is not LoopKind.VECTORIZED:
            return None
        extents: set[int] = set()
        for node in walk(loop.body):
            if isinstance(node, BufferStore):
                if node.buffer not in self.wider or node.indices[-1] is not loop.var:
                    return None
                extents.add(self.wider[node.buffer])
            elif isinstance(node, (For, Evaluate, Allocate, LetStmt, Let, Attr, If)):
                return None
        return extents.pop() if len(extents) == 1 else None

    def BufferLoad(self, node: BufferLoad) -> Expr:
        new = self.generic(node)
        return replace(new, buffer=self.buffers[node.buffer]) if node.buffer in self.buffers else new

    def BufferStore(self, node: BufferStore) -> Stmt:
        new = self.generic(node)
        return replace(new, buffer=self.buffers[node.buffer]) if node.buffer in self.buffers else new


def _value(extent: Expr) -> int:
    assert isinstance(extent, IntImm)
    return extent.value


def _guarded(body: Stmt, var: Var, extent: Expr, own: frozenset[Buffer]) -> Stmt:
    """`body` reading what is not `own` only for iterations below `extent`."""

    def rule(node: Node) -> Node | None:
        if isinstance(node, BufferLoad) and node.buffer not in own and var in free_vars(node):
            return IfThenElse(LT(var, extent), node, const(0, node.dtype))
        return None

    return rewrite(body, rule)
