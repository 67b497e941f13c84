"""Rows of private memory as whole vectors, so that sums which end within a vector still live in registers.

    T: float32[7, 14]                                      T: float32[7, 16]
    for y in unrolled(7):                                  for y in unrolled(7):
        for x in vectorized(14):                               for x in vectorized(16):
            T[y, x] = T[y, x] + A[y, x] * w            →           T[y, x] = T[y, x] + (A[y, x] if x < 14 else 0) * w
    for y, x in 7, vectorized(14): C[y, x] = T[y, x]       for y, x in 7, vectorized(14): C[y, x] = T[y, x]

Without it every access of T would be masked, and LLVM keeps no masked memory in registers. What is read from elsewhere
stays masked, and so does what is stored there. Lanes beyond the row hold anything: nothing but those lanes reads them.

Machines that do not mask vectors at no cost get whole ones where nothing would be masked: where all that such a row is computed
from lies in memory of the function's own, whose rows then end with a whole vector too (a packed panel, an image with its border),
and can be computed on whatever it holds; what no loop writes of these holds zeros, for what is left there by others may be
denormal, and each operator on such a lane takes a hundred times as long. Where a loop outside decides how many lanes there are, all
are computed as soon as there is one, and what is made of such a row and stored elsewhere is computed whole as well, and only then
cut:

    if p * 16 + x < 323, for x in vectorized(16):      →      if p * 16 < 323:  for x in vectorized(16):  T[y, x] = ...
    for x in vectorized(14): C[x] = max(T[x], 0)       →      for x in vectorized(16): V[x] = max(T[x], 0)
                                                              for x in vectorized(14): C[x] = V[x]

It stands while indices are n-d, after loop_partition, whose remainders are such rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....base import dataclass, replace
from ...analysis.linear import is_index, linear, occurs
from ...arith.analyzer import Analyzer
from ...buffer import Buffer
from ...combine import FUSED
from ...contents import require_any
from ...expr import (
    LE,
    LT,
    Add,
    BufferLoad,
    Call,
    Cast,
    Expr,
    IfThenElse,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Node,
    Range,
    Sub,
    Var,
)
from ...ops import conjunction, conjuncts, const, is_const
from ...stmt import Allocate, Attr, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Stmt, While
from ...structural import Key, structural_key
from ...visit import SharingRewriter, post_order, rewrite, seq, substitute
from .vectorize import DEFAULT_VECTOR_BITS

__all__ = ["cut_short", "widen_rows"]


@require_any(Allocate)
def widen_rows(function: Function, vector_bits: int = DEFAULT_VECTOR_BITS, masks: bool = True) -> Function:
    """`function` with its private rows, and the loops that fill them, as long as vectors of `vector_bits` are. masks: whether the
    machine masks what they read at no cost."""
    rows = _Rows(vector_bits)
    rows.walk(function.body)
    wider = rows.wider()
    padded = {} if masks or not wider else rows.padded(function.body, wider)
    return function.with_body(_Widener(wider, padded, masks).visit(function.body)) if wider else function


def cut_short(loop: For) -> For:
    """A vectorized loop without the last lanes that an If around its body leaves out; any other as it is."""
    active = _Active.of(loop)
    return loop if active is None or is_const(loop.extent, active.extent) else active.loop(loop)


@dataclass(frozen=True, slots=True)
class _Active:
    """The lanes in which a vectorized loop from 0 does anything: those below `extent` for which `guards` hold, which is what
    an If around its body says. guards_key: what two loops of the same guards share; body: what stands under the If."""

    extent: int
    guards: tuple[Expr, ...]
    guards_key: Key
    body: Stmt

    @staticmethod
    def of(loop: For) -> _Active | None:
        if loop.kind is not LoopKind.VECTORIZED or not isinstance(loop.extent, IntImm) or not _is_zero(loop.begin):
            return None  # lanes that begin elsewhere are not the first ones of a row
        extent, body = loop.extent.value, loop.body
        guards: list[Expr] = []
        if isinstance(body, If) and body.else_body is None and not loop.pragmas:
            parts = conjuncts(body.condition)
            # a part without the lane concerns the whole loop, and one that reads memory may change
            if all(_mentions(part, loop.var) and not _reads(part) for part in parts):
                for part in parts:
                    bound = _constant_bound(part, loop.var)
                    if bound is None:
                        guards.append(part)
                    else:
                        extent = min(extent, bound)
                body = body.then_body
        named = [  # the loops' variables differ: each stands as -1 in the key
            structural_key(rewrite(guard, lambda node: const(-1, node.dtype) if node is loop.var else None))
            for guard in guards
        ]
        return _Active(extent, tuple(guards), frozenset(named), body)

    def loop(self, loop: For) -> For:
        """The loop with a constant bound of its lanes as its extent."""
        body = self.body if not self.guards else If(conjunction(*self.guards), self.body)
        return replace(loop, extent=const(self.extent, loop.extent.dtype), body=body)

    @property
    def key(self) -> Key:
        return self.extent, self.guards_key

    def any_lane(self, var: Var) -> Expr | None:
        """Return the condition under which the loop of this variable does anything, if that is what its first lane does; None if not."""
        first: dict[Var, Expr] = {var: const(0, var.dtype)}
        for guard in self.guards:
            # floats have NaN, so the first lane tells nothing of the others there
            if not isinstance(guard, (LT, LE)) or not is_index(guard.a) or not is_index(guard.b):
                return None
            apart = linear(guard.a).plus(linear(guard.b), -1)
            # a guard that grows easier with the lane does not hold for the first lane first
            if apart.coefficient(var) < 0 or occurs(var, apart):
                return None
        return conjunction(*(substitute(guard, first) for guard in self.guards))


def _mentions(expr: Expr, var: Var) -> bool:
    return any(node is var for node in post_order(expr))


def _reads(expr: Expr) -> bool:
    return any(isinstance(node, (BufferLoad, Let)) for node in post_order(expr))


def _constant_bound(condition: Expr, var: Var) -> int | None:
    """Return the number where a condition is `var < n`."""
    if isinstance(condition, (LT, LE)) and condition.a is var and isinstance(condition.b, IntImm):
        return max(condition.b.value + isinstance(condition, LE), 0)
    return None


@dataclass(slots=True)
class _Row:
    """Facts about an allocated buffer: the lanes of the vectorized loops over its last dimension, None before one is
    met; whether it is accessed in any other way."""

    active: _Active | None = None
    otherwise: bool = False


class _Rows:
    """The allocated buffers of a function whose rows are read and written by vectorized loops over the same lanes."""

    def __init__(self, vector_bits: int) -> None:
        self.vector_bits = vector_bits
        self.found: dict[Buffer, _Row] = {}
        self._lanes: dict[Var, _Active] = {}

    def walk(self, body: Stmt) -> None:
        for node in reversed(list(post_order(body))):  # loops and allocations are met before what they enclose
            if isinstance(node, Allocate):
                self._note_allocation(node.buffer)
            elif isinstance(node, For):
                active = _Active.of(node)
                if active is not None:
                    self._lanes[node.var] = active
            elif isinstance(node, (BufferLoad, BufferStore)):
                self._access(node)
            # an attribute may ask for a layout of its own
            elif isinstance(node, Attr) and isinstance(node.subject, Buffer) and node.subject in self.found:
                self.found[node.subject].otherwise = True

    def _note_allocation(self, buffer: Buffer) -> None:
        # a row of known memory, strides or symbolic length is not ours to lengthen
        if buffer.data is None and not buffer.strides and buffer.shape and buffer not in self.found:
            self.found[buffer] = _Row(otherwise=not isinstance(buffer.shape[-1], IntImm))

    def _access(self, node: BufferLoad | BufferStore) -> None:
        row = self.found.get(node.buffer)
        if row is None:
            return
        last = node.indices[-1]
        active = self._lanes.get(last) if isinstance(last, Var) else None
        others = any(
            isinstance(inner, Var) and inner in self._lanes
            for index in node.indices[:-1]
            for inner in post_order(index)
        )
        if (
            active is None
            or others
            or node.predicate is not None
            or row.active is not None  # rows of different lengths in one buffer have no common width
            and row.active.key != active.key
        ):
            row.otherwise = True
        row.active = active

    def wider(self) -> dict[Buffer, int]:
        """The last extent that each buffer gets whose rows end within a vector."""
        widened: dict[Buffer, int] = {}
        for buffer, row in self.found.items():
            if row.otherwise or row.active is None or not row.active.extent:
                continue
            extent, lanes = row.active.extent, max(self.vector_bits // max(buffer.dtype.bits, 8), 1)
            # a power of two of lanes is one vector without a mask
            ragged = (extent % lanes if extent > lanes else extent).bit_count() > 1
            wide = 1 << (extent - 1).bit_length() if extent < lanes else -(-extent // lanes) * lanes
            if ragged or row.active.guards:
                widened[buffer] = wide if ragged else extent
        return widened

    def padded(self, body: Stmt, wider: dict[Buffer, int]) -> dict[Buffer, int]:
        """The last extents that allocated buffers need, so that loops over rows of those in `wider` read them whole. Takes
        from `wider` those of which a loop reads anything else along its lanes, or does more than adding and multiplying."""
        needed: dict[Buffer, int] = {}
        analyzer = Analyzer()
        loops = [node for node in post_order(body) if isinstance(node, For)]
        for loop in loops:
            analyzer.bind(loop.var, Range(loop.begin, loop.extent))
        for loop in loops:
            active = _Active.of(loop)
            if active is None:
                continue
            into = {inner.buffer for inner in post_order(active.body) if isinstance(inner, BufferStore)} & wider.keys()
            if not into:
                continue
            # lanes beyond the row are read as well: they must be in the buffer
            analyzer.bind(loop.var, (0, max(wider[each] for each in into) - 1))
            whole = active.any_lane(loop.var) is not None
            reads = self._find_full_reads(loop.var, active.body, wider, analyzer) if whole else None
            # one loop that cannot be whole keeps its rows as they are everywhere
            for buffer in into if reads is None else ():
                del wider[buffer]
            for buffer, extent in (reads or {}).items():
                needed[buffer] = max(needed.get(buffer, 0), extent)
        return needed if wider else {}

    def _find_full_reads(
        self, var: Var, body: Stmt, wider: dict[Buffer, int], analyzer: Analyzer
    ) -> dict[Buffer, int] | None:
        """The buffers that a loop reads along its lanes, and how long their rows have to be for it; None where it reads what is not
        the function's own, or does with it what might fail."""
        found: dict[Buffer, int] = {}
        for node in post_order(body):
            if isinstance(node, BufferLoad) and _mentions(node, var):
                if (
                    node.buffer not in self.found
                    or any(_mentions(index, var) for index in node.indices[:-1])
                    or not isinstance(node.buffer.shape[-1], IntImm)
                ):
                    return None
                places = analyzer.interval(node.indices[-1])
                if (  # a lane before or behind the buffer must not be read
                    places.lo is None
                    or places.lo < 0
                    or places.hi is None
                    or node.buffer in wider
                    and node.indices[-1] is not var
                ):
                    return None
                found[node.buffer] = max(found.get(node.buffer, 0), places.hi + 1)
            elif (
                isinstance(node, Expr)
                and _mentions(node, var)
                # a division or a function may trap or be slow on what such lanes hold
                and not isinstance(node, (BufferLoad, *_CANNOT_FAIL))
                and not (isinstance(node, Call) and node.name in FUSED)
            ):
                return None
        return found


def _is_zero(value: Expr) -> bool:
    return isinstance(value, IntImm) and value.value == 0


_CANNOT_FAIL = (Add, Sub, Mul, Min, Max, Cast, Var)
"""What may be computed of anything."""


class _Widener(SharingRewriter):
    """Give buffers their new rows, and loops over them the new extents; any loop that an If cuts short, the shorter one. masks: as
    whole_vectors has it."""

    def __init__(self, wider: dict[Buffer, int], padded: dict[Buffer, int], masks: bool) -> None:
        super().__init__()
        self.wider, self.padded, self.masks = wider, padded, masks
        self.buffers: dict[Buffer, Buffer] = {}

    def Allocate(self, node: Allocate) -> Stmt:
        old = node.buffer
        wide = max(self.wider.get(old, 0), self.padded.get(old, 0))
        if not wide:
            return self.generic(node)
        last = old.shape[-1]
        assert isinstance(last, IntImm)
        written = max(last.value, self.wider.get(old, 0))
        new = self.buffers[old] = replace(old, shape=(*old.shape[:-1], const(max(wide, written), last.dtype)))
        body = self.visit(node.body)
        return Allocate(
            # what nobody writes there may be denormal, and slow every operation on it
            new,
            seq(_zeros(new, written, wide - written), body) if wide > written and old.dtype.is_float else body,
        )

    def For(self, node: For) -> Stmt:
        active = _Active.of(node)
        if active is None:
            return self.generic(node)
        extent = self._extent(node.var, active.body)
        made = self._widen(node, active) if extent is None and not self.masks and not active.guards else None
        if made is not None:
            return made
        if extent is None:
            short = active.loop(node)
            return replace(short, body=self.visit(short.body))
        body = self.visit(active.body)
        if self.masks:  # with masks at no cost only foreign memory is guarded
            body = _guard(body, node.var, extent, active, frozenset(self.buffers.values()))
        whole = replace(node, extent=const(extent, node.extent.dtype), body=body)
        condition = active.any_lane(node.var) if active.guards and not self.masks else None
        return whole if condition is None else If(condition, whole)

    def _extent(self, var: Var, body: Stmt) -> int | None:
        """The extent that a loop gets which does nothing but fill widened rows; None of another."""
        extents: set[int] = set()
        for node in post_order(body):
            if isinstance(node, BufferStore):
                if node.buffer not in self.wider or node.indices[-1] is not var:
                    return None
                extents.add(self.wider[node.buffer])
            # something with another effect must not run in more lanes
            elif isinstance(node, (For, While, Evaluate, Allocate, LetStmt, Let, Attr, If)):
                return None
        return extents.pop() if len(extents) == 1 else None

    def _widen(self, node: For, active: _Active) -> Stmt | None:
        """A loop that stores elsewhere what it makes of widened rows, as two: one that makes it, whole, and one that stores it."""
        lets: list[LetStmt] = []
        store = active.body
        while isinstance(store, LetStmt):
            lets.append(store)
            store = store.body
        # a plain copy has nothing to compute whole
        if not isinstance(store, BufferStore) or isinstance(store.value, BufferLoad) or store.predicate is not None:
            return None
        extent = self._extent_of_all(
            [*(let.value for let in lets), store.value], {node.var, *(let.var for let in lets)}, node.var
        )
        if (
            extent is None  # the rows would have to be of one width
            or extent == active.extent
            # an index that is named within the loop would be moved out of it
            or any(_mentions(index, let.var) for index in store.indices for let in lets)
        ):
            return None
        if store.buffer in self.wider:  # a row itself, of which something was named first
            into_row = store.indices[-1] is node.var and extent == self.wider[store.buffer]
            return (
                replace(node, extent=const(extent, node.extent.dtype), body=self.visit(active.body))
                if into_row
                else None
            )
        made = Buffer("whole", (const(extent, node.extent.dtype),), store.value.dtype, scope="local")
        body: Stmt = BufferStore(made, self.visit(store.value), (node.var,), line=store.line)
        for let in reversed(lets):
            body = replace(let, value=self.visit(let.value), body=body)
        lane = Var(node.var.name, node.var.dtype)  # the loop that stores is another loop: its variable must differ
        indices = tuple(
            rewrite(self.visit(index), lambda part: lane if part is node.var else None) for index in store.indices
        )
        into = self.buffers.get(store.buffer, store.buffer)
        stored = For(
            lane,
            node.begin,
            const(active.extent, node.extent.dtype),
            node.kind,
            replace(store, buffer=into, value=BufferLoad(made, (lane,)), indices=indices),
            "",
            node.pragmas,
            node.line,
        )
        return Allocate(made, seq(replace(node, extent=made.shape[0], body=body), stored))

    def _extent_of_all(self, values: Sequence[Expr], lanes: set[Var], var: Var) -> int | None:
        """The extent of the widened rows that values read along these lanes; None where they read anything else along them, or may
        fail. lanes: the loop's variable, and what was named in it."""
        wide: set[int] = set()
        for value in values:
            for inner in post_order(value):
                if isinstance(inner, BufferLoad) and any(_mentions(inner, lane) for lane in lanes):
                    if inner.buffer not in self.wider or inner.indices[-1] is not var:
                        return None
                    wide.add(self.wider[inner.buffer])
                elif (
                    not isinstance(inner, (BufferLoad, *_CANNOT_FAIL))
                    and any(_mentions(inner, lane) for lane in lanes)
                    and not (isinstance(inner, Call) and inner.name in FUSED)
                ):
                    return None
        return wide.pop() if len(wide) == 1 else None

    def BufferLoad(self, node: BufferLoad) -> Expr:
        new = self.generic(node)
        return replace(new, buffer=self.buffers[node.buffer]) if node.buffer in self.buffers else new

    def BufferStore(self, node: BufferStore) -> Stmt:
        new = self.generic(node)
        return replace(new, buffer=self.buffers[node.buffer]) if node.buffer in self.buffers else new


def _zeros(buffer: Buffer, begin: int, extent: int) -> Stmt:
    """Zeros in so many places of each row, from `begin`."""
    *outer, last = (Var(f"i{at}", size.dtype) for at, size in enumerate(buffer.shape))
    zero = const(0, last.dtype)
    loop: Stmt = For(
        last,
        zero,
        const(extent, last.dtype),
        LoopKind.VECTORIZED,
        BufferStore(buffer, const(0, buffer.dtype), (*outer, last + begin)),
    )
    for var, size in reversed(list(zip(outer, buffer.shape, strict=False))):
        loop = For(var, zero, size, LoopKind.SERIAL, loop)
    return loop


def _guard(body: Stmt, var: Var, extent: int, active: _Active, own: frozenset[Buffer]) -> Stmt:
    """The body of a loop of `extent`, reading what is not `own` only in active lanes."""
    guards = [*([LT(var, const(active.extent, var.dtype))] if active.extent < extent else []), *active.guards]
    if not guards:
        return body
    inside = conjunction(*guards)

    def rule(node: Node) -> Node | None:
        if isinstance(node, BufferLoad) and node.buffer not in own and _mentions(node, var):
            return IfThenElse(inside, node, const(0, node.dtype))
        return None

    return rewrite(body, rule)
