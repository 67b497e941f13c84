"""Shared memory in the order in which warpgroups and the copy engine know it: panels of 128 bytes a row, whose 16-byte parts are
exchanged by row, so that neither rows nor columns meet one bank twice. Where all of a row is 64 or 32 bytes, so are a panel's rows.

    B: swizzled float16[64, 128]                     B: shared float16[2, 64, 64], aligned to 1024 bytes
    B[k, j] = ...                             →      B[j // 64, k, (j % 64 // 8 ^ k % 8) * 8 + j % 8] = ...
    tw_wgmma_..(&B[16, 64])                          tw_wgmma_..(&B[1, 16, 0], .., 8192)

A pointer is to where a tile begins before parts are exchanged: the hardware exchanges them itself. The bytes from one panel to the
next follow the arguments of a warpgroup's instruction, for each matrix that it points to.
"""

from __future__ import annotations

from dataclasses import replace

from ...arith.analyzer import Analyzer
from ...buffer import Buffer
from ...copies import BULK_OUT
from ...dtype import INT32
from ...expr import BufferLoad, Call, Expr, IntImm, Node, Range, StringImm
from ...fragments import WARPGROUP_CALLS
from ...ops import bitwise, const, floordiv, floormod, integer_value, is_const
from ...pointers import pointed_buffer, pointer
from ...stmt import Allocate, BufferStore, Evaluate, For, Function, Stmt
from ...visit import Rewriter, rewrite, seq, statements, walk
from .barriers import is_barrier
from .errors import FragmentMisused

__all__ = ["PANEL_BYTES", "SCOPE", "fence_stores", "place_panels", "row_bytes"]

SCOPE = "swizzled"
PANEL_BYTES, PART_BYTES, ROWS = 128, 16, 8
"""Of a row of a panel, of what is exchanged, and after how many rows the exchange begins anew."""
NARROW = (64, 32)
"""Bytes of whole rows that are panels of their own."""
FENCE = "tw_proxy_fence"
SUMS_STORE, EXCHANGED = "tw_wgmma_store", 2
"""The device function that stores sums, and what tells it that parts of rows are exchanged where it stores."""


def row_bytes(buffer: Buffer) -> int:
    """Bytes of a row of a panel of swizzled memory."""
    columns = buffer.shape[-1] if buffer.shape else None
    whole = integer_value(columns, 0) * buffer.dtype.bytes
    # narrow rows are panels of their own: they have fewer parts to exchange
    return whole if whole in NARROW else PANEL_BYTES


def place_panels(body: Stmt, analyzer: Analyzer) -> Stmt:
    """`body` of a kernel with its swizzled memory as shared memory. Raises FragmentMisused (TW0840)."""
    if not any(isinstance(node, Allocate) and node.buffer.scope == SCOPE for node in statements(body)):
        return body
    return _Placer(analyzer).visit(body)


class _Placer(Rewriter):
    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.placed: dict[Buffer, Buffer] = {}

    def For(self, node: For) -> Stmt:
        self.analyzer.bind(node.var, Range(node.begin, node.extent))
        return self.generic(node)

    def Allocate(self, node: Allocate) -> Stmt:
        buffer = node.buffer
        if buffer.scope != SCOPE:
            return self.generic(node)
        *outer, rows, columns = (*([const(1)] * (2 - buffer.ndim)), *buffer.shape)
        own = row_bytes(buffer) // buffer.dtype.bytes
        if (
            not (isinstance(rows, IntImm) and isinstance(columns, IntImm))
            or rows.value % ROWS  # the pattern repeats after 8 rows
            or columns.value % own
            or (buffer.strides or buffer.ndim < 2)
        ):
            raise FragmentMisused(
                f"cannot lower: {buffer.name}, of shape [{', '.join(map(str, buffer.shape))}], lies in swizzled memory",
                reason=f"it consists of panels of {ROWS} rows by {own} elements of {buffer.dtype}, or has rows of "
                f"{' or '.join(map(str, NARROW))} bytes, without a storage_align",
                fix=f"split the loops that it is computed at by multiples of {ROWS} and {own}",
            )
        panels = const(columns.value // own)
        shape = (*outer, panels, rows, const(own))
        # the hardware takes the pattern from address bits, so panels are aligned to its period
        self.placed[buffer] = replace(buffer, shape=shape, scope="shared", alignment=ROWS * PANEL_BYTES)
        return Allocate(self.placed[buffer], self.visit(node.body))

    def _panel(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return the position of an element before parts are exchanged."""
        *outer, row, column = indices
        own = row_bytes(buffer) // buffer.dtype.bytes
        return *outer, self.analyzer.simplify(floordiv(column, own)), row, self.analyzer.simplify(floormod(column, own))

    def _element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        *outer, row, column = self._panel(buffer, indices)
        part, whole = PART_BYTES // buffer.dtype.bytes, row_bytes(buffer)
        number, place = floordiv(column, part), floormod(column, part)
        simple = self.analyzer.simplify
        # rows narrower than 128 bytes share one turn of the pattern
        turn = floormod(floordiv(row, PANEL_BYTES // whole), whole // PART_BYTES)
        return *outer, row, bitwise("bitwise_xor", simple(number), simple(turn)) * part + simple(place)

    def Call(self, node: Call) -> Expr:
        pointed = pointed_buffer(node)
        if pointed is not None and pointed[0] in self.placed:
            load, offset, mode = node.args
            assert isinstance(load, BufferLoad) and isinstance(mode, IntImm)
            indices = tuple(self.visit(index) for index in load.indices)
            return pointer(self.placed[load.buffer], self._panel(load.buffer, indices), offset, mode.value)
        done = self.generic(node)
        assert isinstance(done, Call)
        target = pointed_buffer(node.args[1]) if _is_store(node) else None
        if target is not None and target[0] in self.placed:  # rows are those of panels, and their parts exchanged
            name, to, sums, *_ = done.args
            row = self.placed[target[0]].shape[-1]
            return Call(done.name, (name, to, sums, row, const(EXCHANGED)), done.dtype)
        if not _is_product(node):
            return done
        sides = [
            self.placed[target[0]] for arg in node.args if (target := pointed_buffer(arg)) and target[0] in self.placed
        ]
        rows = [row_bytes(side) for side in sides]
        for side, row, turned in zip(sides, rows, node.args[1:], strict=False):
            # a transposed operand is read along columns, which narrow panels do not have
            if row < PANEL_BYTES and not is_const(turned, 0):
                raise FragmentMisused(
                    f"cannot lower: {side.name}, with rows of {row} bytes, is multiplied by columns",
                    reason="instructions read columns of terms from rows of 128 bytes alone",
                    fix=f"compute {side.name} at a loop split by more, or turn it: s.matricize(..., turned=...)",
                )
        narrow = [] if all(row == PANEL_BYTES for row in rows) else rows
        return Call(
            done.name, (*done.args, *(const(_panel_bytes(side)) for side in sides), *map(const, narrow)), done.dtype
        )

    def BufferLoad(self, node: BufferLoad) -> Expr:
        done = self.generic(node)
        if node.buffer not in self.placed:
            return done
        assert isinstance(done, BufferLoad)
        return BufferLoad(self.placed[node.buffer], self._element(node.buffer, done.indices), done.predicate)

    def BufferStore(self, node: BufferStore) -> Stmt:
        done = self.generic(node)
        if node.buffer not in self.placed:
            return done
        assert isinstance(done, BufferStore)
        return replace(done, buffer=self.placed[node.buffer], indices=self._element(node.buffer, done.indices))


def _name(node: Node) -> str:
    name = node.args[0] if isinstance(node, Call) and node.name == "call_extern" else None
    return name.value if isinstance(name, StringImm) else ""


def _is_product(node: Node) -> bool:
    return _name(node).startswith(WARPGROUP_CALLS) and not _is_store(node)


def _is_store(node: Node) -> bool:
    """Return whether a call stores sums."""
    return _name(node).startswith(SUMS_STORE)


def _panel_bytes(buffer: Buffer) -> int:
    rows = buffer.shape[-2]
    assert isinstance(rows, IntImm), "panels have known sizes"
    return rows.value * row_bytes(buffer)


def fence_stores(function: Function) -> Function:
    """Fence the threads' own stores: tensor cores and the copy engine see them behind a fence of each thread before the barrier."""
    read, stored = set[Buffer](), set[Buffer]()
    for node in walk(function.body):
        if isinstance(node, BufferStore):
            stored.add(node.buffer)
        elif isinstance(node, Call):
            pointed = {
                target[0] for arg in node.args if (target := pointed_buffer(arg)) and target[0].scope == "shared"
            }
            if _is_product(node) or _name(node).startswith(BULK_OUT):
                read |= pointed
            elif _is_store(node):
                stored |= pointed
    # only the threads' own stores need the fence: the copy engine writes by the same way
    if read.isdisjoint(stored):
        return function

    def rule(node: Stmt) -> Stmt | None:
        return seq(Evaluate(Call("call_extern", (StringImm(FENCE),), INT32)), node) if is_barrier(node) else None

    return function.with_body(rewrite(function.body, rule))
