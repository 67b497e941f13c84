"""Store past the caches, where the pragma nontemporal_store asks for them.

    for j in vectorized(n) with nontemporal_store=True:          head: int32 = min(unaligned_elements(&C[i * n], 64), n)
        C[i * n + j] = x                                   →     for j in vectorized(head): C[i * n + j] = x
                                                                 attr("nontemporal_store", C, 64)
                                                                 for c in (n - head) // 16:
                                                                     for j in vectorized(16):
                                                                         C[i * n + head + c * 16 + j] = x
                                                                 for j in vectorized((n - head) % 16): ...

A store of a whole cache line past the caches neither reads the line first nor drives out what will be read again. It takes
an aligned address, and where arguments begin is known when the kernel is called: so the iterations up to the first whole
line are peeled, and those after the last. A loop too short for that chooses between two copies of itself.

It concerns vectorized loops whose lanes store side by side to one tensor; others stay as they are. It stands after flatten
(one index an access) and before vectorize.
"""

from __future__ import annotations

from ...analysis.linear import is_index, linear, occurs
from ...buffer import Buffer
from ...contents import require_any
from ...dtype import INT32
from ...expr import EQ, Add, Call, Expr, FloorDiv, IntImm, Min, Mul, Sub, Var
from ...ops import cast, const, is_const
from ...pointers import READS, pointer
from ...stmt import Attr, BufferStore, For, Function, If, LetStmt, LoopKind, Stmt
from ...visit import Rewriter, rebuild, seq
from ..common.fresh_copy import fold, fresh_copy, substitute_expr
from .vectorize import Lanes, choose_lanes

__all__ = ["NONTEMPORAL", "UNALIGNED", "stream_stores"]

NONTEMPORAL = "nontemporal_store"
"""The pragma, and the attribute of statements whose stores of vectors are aligned and go past the caches."""
UNALIGNED = "unaligned_elements"
"""The intrinsic: unaligned_elements(a pointer, bytes), how many elements lie before the next multiple of so many bytes."""
LINE_BYTES = 64
LONG_CHUNKS = 8
"""From so many of the widest vectors on, those are taken: the loop then costs less, and computations overlap."""
SHORT_CHUNKS = 4
"""Loops of no more vectors than this are not peeled."""


@require_any(NONTEMPORAL)
def stream_stores(function: Function, vector_bits: int) -> Function:
    """`function` with the loops that store past the caches cut where lines begin."""
    return function.with_body(_Streams(vector_bits).visit(function.body))


class _Streams(Rewriter):
    def __init__(self, vector_bits: int) -> None:
        self.vector_bits = vector_bits
        self.wanted = False

    def For(self, node: For) -> Stmt:
        before = self.wanted
        for key, value in node.pragmas:
            if key == NONTEMPORAL:
                self.wanted = not is_const(value, 0)
        wanted, body = self.wanted, self.visit(node.body)
        self.wanted = before  # the pragma holds for loops inside, not for those after it
        loop: For = rebuild(node, [node.begin, node.extent, body])
        # a store of single elements would only be slower past the caches
        if not wanted or node.kind is not LoopKind.VECTORIZED or not isinstance(body, BufferStore):
            return loop
        return _stream(loop, body, choose_lanes(body, self.vector_bits))


def _stream(loop: For, store: BufferStore, widths: Lanes) -> Stmt:
    lanes = widths.chunk
    index, extent = store.indices[0], loop.extent
    # masked or scattered lanes do not fill whole lines
    if lanes == 1 or store.predicate is not None or not _counts(index, loop.var):
        return loop
    first = substitute_expr(index, {loop.var: loop.begin})
    start = pointer(store.buffer, [first], const(0), READS)
    before = Call(UNALIGNED, (start, const(LINE_BYTES)), INT32)
    if not isinstance(extent, IntImm) or extent.value > SHORT_CHUNKS * lanes:
        long = isinstance(extent, IntImm) and extent.value >= LONG_CHUNKS * widths.whole
        return _peel(loop, store, widths.whole if long else lanes, before)
    if extent.value == 0 or extent.value % lanes:  # a rest would need a masked store of a part of a line
        return loop
    # short loops are not peeled: a copy for aligned calls costs less than three loops
    return If(EQ(before, const(0)), _mark(store.buffer, loop), _piece(loop, loop.begin, extent))


def _counts(index: Expr, var: Var) -> bool:
    """Return whether the index goes up by one with the variable."""
    form = linear(index)
    return is_index(index) and form.coefficient(var) == 1 and not occurs(var, form)


def _peel(loop: For, store: BufferStore, lanes: int, before: Expr) -> Stmt:
    kind = loop.var.dtype
    head, width = Var("head", kind), const(lanes, kind)
    rest = Sub(loop.extent, head)
    count = FloorDiv(rest, width)
    chunk = Var(f"{loop.var.name}_chunk", kind)
    main_begin = fold(Add, loop.begin, head)
    main = For(
        chunk,
        const(0, kind),
        count,
        LoopKind.SERIAL,
        line=loop.line,
        body=_piece(loop, Add(main_begin, Mul(chunk, width)), width),
    )
    done = Mul(count, width)
    pieces = seq(
        _piece(loop, loop.begin, head),
        _mark(store.buffer, main),
        _piece(loop, Add(main_begin, done), Sub(rest, done)),
    )
    # a loop may be shorter than what lies before its first whole line
    return LetStmt(head, Min(cast(before, kind), loop.extent), pieces)


def _mark(buffer: Buffer, body: Stmt) -> Stmt:
    return Attr(NONTEMPORAL, buffer, const(LINE_BYTES), body)


def _piece(loop: For, begin: Expr, extent: Expr) -> Stmt:
    """The iterations from `begin` on."""
    var = Var(loop.var.name, loop.var.dtype)
    return For(var, begin, extent, LoopKind.VECTORIZED, fresh_copy(loop.body, {loop.var: var}), line=loop.line)
