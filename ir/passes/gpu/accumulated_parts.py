"""Sums of chunks that products add to where they lie: weights of a chunk are taken from the largest score so far, its own or not.

    for c in 16 with accumulate_parts=1:                       for c in 16:
      peak = the largest score of the chunk                      peak = the largest score of the chunk
                                                                 reached = max(largest, peak)
      weight = exp2(score - peak)                                weight = exp2(score - reached)
      total = sum of weight                                      total = sum of weight
      part = 0                                             →     y = y * exp2(largest - reached)
      part += weight * v                                         y += weight * v
      y = y * exp2(largest - max(largest, peak))
          + part * exp2(peak - max(largest, peak))
      sums = sums * .. + total * ..                              sums = sums * exp2(largest - reached) + total
      largest = max(largest, peak)                               largest = reached

What is taken from the scores of a chunk may be any number, if the chunk is merged by the same. Where it is no less than the largest
one so far, the chunk's own sums keep theirs, and tensor cores add to those before. (Shah et al. 2024, FlashAttention-3, algorithm 1.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....base import dataclass, field, replace
from ...arith.analyzer import Analyzer
from ...buffer import Buffer
from ...expr import GE, LE, BufferLoad, Call, Expr, IfThenElse, IntImm, Max, Mul, Node, Select, StringImm, Var
from ...ops import const, is_const
from ...pointers import pointed_buffer, pointer
from ...stmt import Allocate, BufferStore, Evaluate, For, Function, LetStmt, Seq, Stmt
from ...structural import structural_key
from ...visit import children, rebuild, rewrite, rewrite_statements, seq, statements, substitute, walk

__all__ = ["ACCUMULATE", "accumulate_parts"]

ACCUMULATE = "accumulate_parts"
"""The pragma of a loop over the chunks of an online sum."""


@dataclass(frozen=True)
class _Store:
    """A store within a loop. loops: around it, in that loop, the outer ones first; value: with the values of variables."""

    stmt: BufferStore
    loops: tuple[For, ...]
    value: Expr

    def around(self, body: Stmt) -> Stmt:
        """Repeat a statement by the loops around the store."""
        for loop in reversed(self.loops):
            body = rebuild(loop, [loop.begin, loop.extent, body])
        return body


@dataclass(frozen=True)
class _Merge:
    """The maximum of a chunk, as it is merged. peak: the chunk's own; scale: what it is multiplied with, None for nothing."""

    store: _Store
    peak: BufferLoad
    scale: Expr | None
    reached: Buffer = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reached", replace(self.peak.buffer, name=f"{self.peak.buffer.name}.reached"))

    def read_peak(self, node: Node) -> BufferLoad | None:
        """Return the read of the chunk's maximum that a node is, as it is merged; None for any other node."""
        load = node
        if self.scale is not None:
            if not isinstance(node, Mul) or structural_key(node.b) != structural_key(self.scale):
                return None
            load = node.a
        return load if isinstance(load, BufferLoad) and load.buffer is self.peak.buffer else None


def accumulate_parts(function: Function) -> Function:
    """Return `function`, a kernel, with such loops, as far as products of a chunk are merged as they are above."""

    def rule(node: Stmt) -> Stmt | None:
        if not isinstance(node, For):
            return None
        asked = any(key == ACCUMULATE and not is_const(value, 0) for key, value in node.pragmas)
        return _accumulate(node) if asked else None

    return function.with_body(rewrite_statements(function.body, rule))


def _accumulate(loop: For) -> Stmt | None:
    merge = _find_merge(loop)
    if merge is None:
        return None
    failed: list[Node] = []

    def rule(node: Stmt) -> Stmt | None:
        if not isinstance(node, Allocate) or node.buffer is not merge.peak.buffer:
            return None
        items = node.body.body if isinstance(node.body, Seq) else (node.body,)
        last = max(at for at, item in enumerate(items) if _has_store(item, node.buffer))
        rest = _add_parts(_take_from_reached(seq(*items[last + 1 :]), merge))
        if rest is None or any(isinstance(each, BufferLoad) and each.buffer is node.buffer for each in walk(rest)):
            failed.append(node)
            return None
        return Allocate(node.buffer, seq(*items[: last + 1], Allocate(merge.reached, seq(_reach(merge), rest))))

    body = rewrite_statements(loop.body, rule)
    return None if failed else rebuild(loop, [loop.begin, loop.extent, body])


def _has_store(stmt: Stmt, buffer: Buffer) -> bool:
    return any(isinstance(each, BufferStore) and each.buffer is buffer for each in statements(stmt))


def _list_stores(stmt: Stmt, loops: tuple[For, ...] = (), values: dict[Var, Expr] | None = None) -> Iterator[_Store]:
    """The stores below a statement that stand under no condition, with the loops around each."""
    known = values or {}
    if isinstance(stmt, BufferStore):
        yield _Store(stmt, loops, substitute(stmt.value, known))
    elif isinstance(stmt, LetStmt):
        yield from _list_stores(stmt.body, loops, {**known, stmt.var: substitute(stmt.value, known)})
    elif isinstance(stmt, For | Seq | Allocate):
        inner = (*loops, stmt) if isinstance(stmt, For) else loops
        for child in children(stmt):
            if isinstance(child, Stmt):
                yield from _list_stores(child, inner, known)


def _find_merge(loop: For) -> _Merge | None:
    """Return how the maximum of a chunk is merged into memory from before the loop; None where there is no such statement."""
    own = {node.buffer for node in statements(loop) if isinstance(node, Allocate)}
    for store in _list_stores(loop.body):
        largest, value = BufferLoad(store.stmt.buffer, store.stmt.indices), store.value
        if store.stmt.buffer in own or not isinstance(value, Max) or structural_key(value.a) != structural_key(largest):
            continue
        peak, scale = (value.b.a, value.b.b) if isinstance(value.b, Mul) else (value.b, None)
        if isinstance(peak, BufferLoad) and peak.buffer in own and not (scale is not None and not is_const(scale)):
            return _Merge(store, peak, scale)
    return None


def _reach(merge: _Merge) -> Stmt:
    """Take the larger one of the largest score so far and that of a chunk."""
    return merge.store.around(BufferStore(merge.reached, merge.store.value, merge.peak.indices))


def _take_from_reached(stmt: Stmt, merge: _Merge) -> Stmt:
    """Read what is reached in place of the chunk's maximum; of these two, what was before is never larger, and the chunk's own sums
    keep theirs."""
    bound: dict[Var, Expr] = {}

    def is_reached(value: Expr) -> bool:
        value = bound.get(value, value) if isinstance(value, Var) else value
        return isinstance(value, BufferLoad) and value.buffer is merge.reached

    def read(node: Node) -> Node | None:
        load = merge.read_peak(node)
        return None if load is None else BufferLoad(merge.reached, load.indices)

    stmt = rewrite(stmt, read)
    bound |= {node.var: node.value for node in statements(stmt) if isinstance(node, LetStmt)}

    def rule(node: Node) -> Node | None:
        if isinstance(node, Max) and is_reached(node.b) and isinstance(node.a, BufferLoad):
            return node.b if node.a.buffer is merge.store.stmt.buffer else None
        if isinstance(node, Select | IfThenElse) and isinstance(node.condition, LE | GE):
            same = node.condition.a is node.condition.b or structural_key(node.condition.a) == structural_key(
                node.condition.b
            )
            return node.true_value if same and is_reached(node.condition.a) else None  # a NaN is in the sums already
        if isinstance(node, Mul) and is_const(node.b, 1):
            return node.a
        return None

    return rewrite(stmt, rule)


def _add_parts(stmt: Stmt) -> Stmt | None:
    """Let products add to sums that are scaled before; None where parts of a chunk are merged otherwise."""
    failed: list[Node] = []

    def rule(node: Stmt) -> Stmt | None:
        if not isinstance(node, Allocate) or not _is_filled(node):
            return None
        part = _Part.of(node)
        if part is None:
            failed.append(node)
            return None
        return part.add()

    made: Stmt = rewrite_statements(stmt, rule)
    return None if failed else made


def _is_filled(node: Allocate) -> bool:
    """Return whether registers begin as zeros that products add to, and are merged then."""
    if not isinstance(node.body, Seq):
        return False
    items = node.body.body
    return any(_fills(item, node.buffer) for item in items) and any(
        isinstance(each.value, Call) and each.value.name == "fma" for each in _list_stores(items[-1])
    )


def _fills(item: Stmt, buffer: Buffer) -> bool:
    return (
        isinstance(item, Evaluate)
        and isinstance(item.value, Call)
        and isinstance(item.value.args[0], StringImm)
        and item.value.args[0].value.endswith("_fill")
        and any((pointed := pointed_buffer(each)) is not None and pointed[0] is buffer for each in item.value.args)
    )


def _is_plain_nest(stmt: Stmt) -> bool:
    """Return whether a statement does nothing but stores, in loops."""
    return all(isinstance(each, For | LetStmt | BufferStore) for each in statements(stmt))


@dataclass(frozen=True)
class _Part:
    """The sums of a chunk, in registers, and how they are merged. products: what computes them; merged: the store that does; scaled: the
    sums before, times what they are scaled by; base: the place among the merged ones where their first tile begins."""

    buffer: Buffer
    products: Sequence[Stmt]
    merged: _Store
    scaled: Expr
    base: Expr

    @staticmethod
    def of(node: Allocate) -> _Part | None:
        assert isinstance(node.body, Seq)
        *before, merge = node.body.body
        stores = list(_list_stores(merge))
        if len(stores) != 1 or not isinstance(stores[0].value, Call) or not _is_plain_nest(merge):
            return None
        (merged,) = stores
        taken, factor, part = stores[0].value.args
        own = BufferLoad(merged.stmt.buffer, merged.stmt.indices)
        if (
            structural_key(taken) != structural_key(own)
            or not isinstance(part, BufferLoad)
            or part.buffer is not node.buffer
        ):
            return None
        inner = {loop.var: const(0, loop.var.dtype) for loop in merged.loops}
        (*outer, tile, register), (*_, part_tile, part_register) = own.indices, part.indices
        base, analyzer = substitute(tile, inner), Analyzer()
        alike = analyzer.can_prove_equal(tile, base + part_tile) and analyzer.can_prove_equal(register, part_register)
        apart = any(isinstance(each, Var) and each in inner for index in outer for each in walk(index))
        if not alike or apart or not all(isinstance(extent, IntImm) for extent in node.buffer.shape):
            return None
        return _Part(
            node.buffer, [item for item in before if not _fills(item, node.buffer)], merged, Mul(taken, factor), base
        )

    def add(self) -> Stmt:
        """Scale the sums, then let the products add to them."""
        to = self.merged.stmt
        scale = self.merged.around(BufferStore(to.buffer, self.scaled, to.indices))

        def point(node: Node) -> Node | None:
            pointed = pointed_buffer(node)
            if pointed is None or pointed[0] is not self.buffer:
                return None
            assert isinstance(node, Call)
            load, offset, _ = node.args
            assert isinstance(load, BufferLoad)
            *_, tile, register = load.indices
            return pointer(to.buffer, (*to.indices[:-2], self.base + tile, register), offset, pointed[1])

        return seq(scale, *(rewrite(item, point) for item in self.products))
