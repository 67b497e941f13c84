"""Buffers of scripts begin as zeros, as they do where the script runs as Python: here that is arranged.

Where a script writes all of a buffer before it reads any of it, the zeros are left out. That is seen where each
dimension is indexed by a loop over all of it:

    for i in range(n):            # c of shape (n, m)
        for j in range(m):
            c[i, j] = 0.0         # all of row i; no zeros needed
        for k in range(l):
            ... c[i, ...] ...     # reads within row i, later

Memory that the threads of a block share begins undefined: threads would have to meet after it was cleared.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from enum import Enum

from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Expr, IntImm, Node, Var
from ...ir.ops import const, index_ceildiv, is_const, likely
from ...ir.stmt import Allocate, BufferStore, For, If, LoopKind, Seq, Stmt, While
from ...ir.visit import children, post_order, rewrite, seq, walk
from ..shape import axis_dtype, same_extent
from .forms import is_fact

__all__ = ["has_threads", "needs_zeros", "insert_zeros"]

_THREADS = 256


class _Use(Enum):
    NONE = "not touched"
    WRITES = "written whole before anything is read"
    OTHER = "anything else"


def insert_zeros(body: Stmt, outputs: Sequence[Buffer], on_threads: bool, written: Container[Buffer] = ()) -> Stmt:
    """`body` with zeros stored in the buffers that need them: outputs at its begin, others where they are allocated.

    on_threads: whether its loops run on threads, which then clear the outputs in a launch of their own. written: what is known to need
    none."""

    if is_fact(body):
        assert isinstance(body, If)
        own = has_threads(body.then_body)
        return If(
            body.condition,
            insert_zeros(body.then_body, outputs, own, written),
            None if body.else_body is None else insert_zeros(body.else_body, outputs, on_threads and not own, written),
        )
    outermost = _find_loopless(body)

    def rule(node: Node) -> Node | None:
        if not isinstance(node, Allocate) or not node.buffer.shape or node.buffer.scope not in ("global", "local"):
            return None
        by_threads = on_threads and node.buffer in outermost and node.buffer.scope == "global"
        needed = node.buffer not in written and _touches(node.body, node.buffer) and needs_zeros(node.body, node.buffer)
        return Allocate(node.buffer, seq(_zeros(node.buffer, by_threads), node.body)) if needed else None

    cleared = [buffer for buffer in outputs if buffer not in written and needs_zeros(body, buffer)]
    filled = [_zeros(buffer, on_threads) for buffer in cleared]
    return seq(*filled, rewrite(body, rule))


def has_threads(body: Stmt) -> bool:
    """Return whether loops of a script run on the threads of a GPU."""
    return any(isinstance(node, For) and node.kind is LoopKind.THREAD for node in walk(body))


def _find_loopless(body: Stmt) -> set[Buffer]:
    """The memory that is allocated for the whole script."""
    found: set[Buffer] = set()
    stack = [body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, Allocate):
            found.add(stmt.buffer)
        stack += [] if isinstance(stmt, For) else [child for child in children(stmt) if isinstance(child, Stmt)]
    return found


def needs_zeros(body: Stmt, buffer: Buffer) -> bool:
    """Return whether `body` may leave an element of `buffer` unwritten, or read one before it is written."""
    return _use(body, buffer, {}) is not _Use.WRITES


def _zeros(buffer: Buffer, on_threads: bool) -> Stmt:
    extents = buffer.shape
    zero = const(0, buffer.dtype)
    if on_threads and extents:
        total = extents[0]
        for extent in extents[1:]:
            total = total * extent
        return _zeros_by_threads(buffer, total, zero)
    variables = [Var(f"z{at}", axis_dtype(extent)) for at, extent in enumerate(extents)]
    body: Stmt = BufferStore(buffer, zero, tuple(variables))
    for var, extent in reversed(list(zip(variables, extents, strict=True))):
        body = For(var, const(0, var.dtype), extent.astype(var.dtype), LoopKind.SERIAL, body)
    return body


def _zeros_by_threads(buffer: Buffer, total: Expr, zero: Expr) -> Stmt:
    dtype = axis_dtype(total)
    block, thread = Var("z.block", dtype), Var("z.thread", dtype)
    place: Expr = block * _THREADS + thread
    rest, indices = place, list[Expr]()
    for extent in reversed(buffer.shape[1:]):
        indices.insert(0, rest % extent)
        rest = rest // extent
    body: Stmt = If(likely(place < total), BufferStore(buffer, zero, (rest, *indices)))
    body = For(thread, const(0, dtype), const(_THREADS, dtype), LoopKind.THREAD, body, "threadIdx.x")
    return For(
        block, const(0, dtype), index_ceildiv(total.astype(dtype), _THREADS), LoopKind.THREAD, body, "blockIdx.x"
    )


# How a statement uses a buffer


def _use(statement: Stmt, buffer: Buffer, fixed: Mapping[int, Expr]) -> _Use:
    """Return the first use by `statement` of the part of `buffer` where the dimensions in `fixed` have these indices."""
    if not _touches(statement, buffer):
        return _Use.NONE
    if isinstance(statement, Seq):
        for part in statement.body:
            use = _use(part, buffer, fixed)
            if use is not _Use.NONE:
                return use
        return _Use.NONE
    if isinstance(statement, BufferStore):
        return _use_by_store(statement, buffer, fixed)
    if isinstance(statement, For):
        return _use_by_loop(statement, buffer, fixed)
    if isinstance(statement, While):
        return _Use.OTHER  # it may not run
    if isinstance(statement, If):
        branches = [statement.then_body, statement.else_body]
        whole = all(part is not None and _use(part, buffer, fixed) is _Use.WRITES for part in branches)
        return _Use.WRITES if whole and not _touches(statement.condition, buffer) else _Use.OTHER
    below = [child for child in children(statement) if isinstance(child, Stmt)]
    if len(below) != 1 or any(_touches(child, buffer) for child in children(statement) if not isinstance(child, Stmt)):
        return _Use.OTHER
    return _use(below[0], buffer, fixed)


def _touches(node: Node, buffer: Buffer) -> bool:
    return any(isinstance(inner, (BufferLoad, BufferStore)) and inner.buffer is buffer for inner in post_order(node))


def _use_by_store(store: BufferStore, buffer: Buffer, fixed: Mapping[int, Expr]) -> _Use:
    reads = any(_touches(child, buffer) for child in (store.value, *store.indices))
    whole = all(at in fixed or is_const(extent, 1) for at, extent in enumerate(buffer.shape))
    return _Use.WRITES if whole and not reads else _Use.OTHER


def _use_by_loop(loop: For, buffer: Buffer, fixed: Mapping[int, Expr]) -> _Use:
    accesses = [
        node for node in post_order(loop.body) if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer
    ]
    for at, extent in enumerate(buffer.shape):
        if (
            at not in fixed
            and all(access.indices[at] is loop.var for access in accesses)
            and same_extent(extent.astype(loop.var.dtype), loop.extent)
        ):
            return _use(loop.body, buffer, {**fixed, at: loop.var})
    runs = isinstance(loop.extent, IntImm) and loop.extent.value > 0
    return _use(loop.body, buffer, fixed) if runs else _Use.OTHER
