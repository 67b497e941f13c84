"""Vectorized loops to vectors.

    for j in vectorized(0, 16): C[i * 16 + j] = A[j] * 2.0f
    →    C[Ramp(i * 16, 1, 16)] = A[Ramp(0, 1, 16)] * Broadcast(2.0f, 16)

A loop longer than the machine's vectors becomes a loop over chunks; what is left over becomes narrower vectors or one
masked one. Conditions on the lane become masks of loads and stores (see vector_stmts), so that nothing is read or
written which the serial loop would not touch. A loop in which nothing can be done in lanes runs serially.

It stands after flatten (one index an access) and loop_partition (few guards are left), and before unroll, since chunks
are unrolled loops. Lanes do not depend on each other: serialize_racing_lanes has seen to it while indices were n-d.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....base.dataclass import dataclass
from ...contents import require_any
from ...dtype import DType
from ...expr import Add, BufferLoad, Call, Cast, CompareOp, Expr, FloorMod, IntImm, Let, Mul, Node, Sub, Var
from ...ops import const, floordiv, maximum
from ...stmt import BufferStore, For, Function, If, LoopKind, Stmt
from ...visit import Rewriter, children, free_vars, post_order, rebuild, seq, walk
from ..common.fresh_copy import fold, fresh_copy
from .vector_exprs import NotVectorizable, fits_rows
from .vector_stmts import LaneStmts

__all__ = ["DEFAULT_VECTOR_BITS", "MAX_LANES", "Lanes", "choose_lanes", "vectorize"]

DEFAULT_VECTOR_BITS = 512
MAX_LANES = 64
MAX_REGISTERS = 4
"""How many machine registers the widest value of a loop body may take: wider ones only spill."""
MAX_UNROLLED_CHUNKS = 8


@require_any(LoopKind.VECTORIZED)
def vectorize(function: Function, vector_bits: int = DEFAULT_VECTOR_BITS, masks: bool | None = None) -> Function:
    """`function` without VECTORIZED loops. vector_bits: the width of the machine's vectors. masks: whether it masks them at
    no cost; by default those of 512 bits."""
    return function.with_body(
        _Vectorizer(vector_bits, vector_bits >= 512 if masks is None else masks).visit(function.body)
    )


@dataclass(frozen=True, slots=True)
class Lanes:
    """Division of a loop into chunks of `chunk` lanes; a loop of at most `whole` lanes may be one vector."""

    chunk: int
    whole: int


def choose_lanes(body: Stmt, vector_bits: int) -> Lanes:
    """Choose by the data types in `body`: the narrowest fills a register, if the widest then takes no more than MAX_REGISTERS.
    Where data are compared, no vector is longer than that: conditions of several registers are packed into one mask, and
    taken apart again."""
    widths = list(_data_widths(body)) or [32]  # a body without data has indices of 32 bits
    whole = max(1, min(MAX_LANES, MAX_REGISTERS * vector_bits // max(widths)))
    chunk = max(1, min(whole, vector_bits // min(widths)))
    return Lanes(chunk, chunk if _compares_data(body) else whole)


def _compares_data(body: Stmt) -> bool:
    """Return whether it decides by what it has loaded."""
    return any(
        isinstance(node, CompareOp)
        and any(isinstance(part, (BufferLoad, Let)) for part in post_order(node))
        or isinstance(node, Call)
        and node.dtype.kind == "bool"
        and node.name != "likely"
        for node in post_order(body)
    )


def _data_widths(body: Stmt) -> Iterator[int]:
    """Bits of what is stored, loaded and converted; indices, loop bounds and bool do not count."""
    stack: list[Node] = [body]
    met: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in met:  # shared subexpressions are visited once, or a chain takes exponential time
            continue
        met.add(id(node))
        if isinstance(node, BufferStore):
            yield _bits(node.buffer.dtype)
            stack.append(node.value)
        elif isinstance(node, BufferLoad):
            yield _bits(node.dtype)
        elif isinstance(node, For):
            stack.append(node.body)
        else:
            if isinstance(node, Cast):
                yield _bits(node.dtype)
            stack.extend(children(node))


def _bits(dtype: DType) -> int:
    return max(8, dtype.element.bits)  # bools take a byte in memory


def _row_sizes(var: Var, body: Stmt) -> set[int]:
    """Sizes of the rows that neighbours along `var` are read and written in, where that is one loop over several axes."""
    indices = [index for node in walk(body) if isinstance(node, (BufferLoad, BufferStore)) for index in node.indices]
    return {
        node.b.value
        for node in post_order(*indices)
        if isinstance(node, FloorMod) and isinstance(node.b, IntImm) and var in free_vars(node.a)
    }


class _Vectorizer(Rewriter):
    def __init__(self, vector_bits: int, masks: bool) -> None:
        self.vector_bits, self.masks = vector_bits, masks

    def For(self, node: For) -> Stmt:
        body = self.visit(node.body)  # the innermost vectorized loop first: the ones around it then run serially
        if node.kind is not LoopKind.VECTORIZED:
            return rebuild(node, [node.begin, node.extent, body])
        if isinstance(node.extent, IntImm) and node.extent.value <= 0:  # an empty loop has no vector either
            return seq()
        lanes = choose_lanes(body, self.vector_bits)
        if any(
            not fits_rows(size, lanes.whole) and fits_rows(size, lanes.chunk) for size in _row_sizes(node.var, body)
        ):
            lanes = Lanes(lanes.chunk, lanes.chunk)  # these lie within a row, most of them, where longer ones do not
        pieces = _Pieces(node, body)
        try:
            if isinstance(node.extent, IntImm):
                pieces.constant(node.extent.value, lanes, masked=self.masks)
            else:
                pieces.symbolic(node.extent, lanes)
        except NotVectorizable:  # vectors stand in what the lanes own
            pieces.stores = 0
        if pieces.stores == 0:  # nothing ran in lanes: the serial loop is shorter
            return For(node.var, node.begin, node.extent, LoopKind.SERIAL, body, "", node.pragmas, node.line)
        return seq(*pieces.found)


class _Pieces:
    """The statements that one vectorized loop becomes, in order."""

    def __init__(self, loop: For, body: Stmt) -> None:
        self.loop, self.body = loop, body
        self.found: list[Stmt] = []
        self.stores = 0
        """How many stores were done in lanes."""

    def constant(self, extent: int, lanes: Lanes, masked: bool) -> None:
        """Chunks and the rest of a constant extent. `masked`: the machine masks every vector at no cost."""
        if extent <= lanes.whole and extent & (extent - 1) == 0:  # a power of two of lanes is one vector without a mask
            self.vector(_number(0, self.loop), extent)
            return
        few_wide = extent % lanes.whole == 0 and extent // lanes.whole <= MAX_UNROLLED_CHUNKS
        chunk = lanes.whole if few_wide else lanes.chunk  # LLVM splits wide vectors, and keeps the program short
        count, rest = divmod(extent, chunk)
        self.chunks(const(count, self.loop.var.dtype), chunk)
        done = extent - rest
        if masked and rest.bit_count() > 2:  # two narrower vectors cost no more than a mask
            width = 1 << rest.bit_length()
            self.vector(_number(done, self.loop), min(width, lanes.chunk), active=_number(rest, self.loop))
            return
        for bit in reversed(range(rest.bit_length())):  # the rest by powers of two, the widest first
            if rest >> bit & 1:
                self.vector(_number(done, self.loop), 1 << bit)
                done += 1 << bit

    def symbolic(self, extent: Expr, lanes: Lanes) -> None:
        """Chunks and a masked rest of an extent that the call decides."""
        if lanes.chunk == 1:  # one lane is a serial loop
            return
        width = _number(lanes.chunk, self.loop)
        count = maximum(floordiv(extent, width), _number(0, self.loop))  # a symbolic extent may be negative
        self.chunks(count, lanes.chunk)
        done = fold(Mul, count, width)
        self.vector(done, lanes.chunk, active=fold(Sub, extent, done))

    def chunks(self, count: Expr, lanes: int) -> None:
        """A loop over `count` chunks of `lanes` lanes, from the loop's beginning."""
        if isinstance(count, IntImm) and count.value <= 1:
            if count.value:
                self.vector(_number(0, self.loop), lanes)  # one chunk needs no loop around it
            return
        chunk = Var(f"{self.loop.var.name}_chunk", self.loop.var.dtype)
        before, self.found = self.found, []
        self.vector(fold(Mul, chunk, _number(lanes, self.loop)), lanes)
        body = seq(*self.found)
        # few chunks are written out, so that their loads overlap
        short = isinstance(count, IntImm) and count.value <= MAX_UNROLLED_CHUNKS
        kind = LoopKind.UNROLLED if short else LoopKind.SERIAL
        self.found = [*before, For(chunk, _number(0, self.loop), count, kind, body, line=self.loop.line)]

    def vector(self, start: Expr, lanes: int, active: Expr | None = None) -> None:
        """The iterations from `start` (counted from the loop's begin) on, as `lanes` lanes, `active` of them."""
        first = fold(Add, self.loop.begin, start)
        if lanes == 1:
            body = self.body if active is None else If(_number(0, self.loop) < active, self.body)
            self.found.append(fresh_copy(body, {self.loop.var: first}))  # an If, since one lane cannot be masked
            return
        worker = LaneStmts(self.loop.var, lanes)
        self.found.append(worker.run(self.body, first, active))
        self.stores += worker.stores


def _number(value: int, loop: For) -> Expr:
    return const(value, loop.var.dtype)
