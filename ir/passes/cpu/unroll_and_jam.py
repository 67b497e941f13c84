"""Unroll and jam: neighbouring iterations of a loop in one pass of the loop in it, which stores once what each of them would store.

    for k in n:                                         for k in n // 4:
        for j in m:                                         for j in m:                                    # independent
            a[i, j] = a[i, j] - b[k] * c[k, j]    →             a[i, j] = a[i, j] - b[4 * k] * c[4 * k, j] - ... - b[4 * k + 3] * ...
                                                        for k in the last n % 4: ...

So an element is loaded and stored once for four updates, each in its turn: no bit changes (D. Callahan, S. Carr, K. Kennedy, "Improving
Register Allocation for Subscripted Variables", PLDI 1990). It is done where a schedule asks for it by the pragma, no iteration of
the loop inside would take from one that now comes later, and those of the jammed loop meet nowhere.

Of a loop around loops, whose iterations are rows, blocks of rows are made first (`row_blocks.py`).

It stands before scalar promotion, which tells the loops that are left of such things.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...analysis.dependence import Indices, Iterations, Meets, Unknown, accesses_of, solve
from ...analysis.linear import is_index
from ...arith.analyzer import Analyzer
from ...arith.interval import Interval
from ...arith.linear import LinearForm
from ...buffer import Buffer
from ...contents import require_any
from ...expr import Add, BufferLoad, Call, FloorDiv, IntImm, Mul, Node, Range, Sub, Var
from ...ops import TRUE, const
from ...stmt import INDEPENDENT, BufferStore, For, Function, If, LetStmt, LoopKind, Seq, Stmt
from ...structural import Key, structural_key
from ...visit import Rewriter, free_vars, rewrite, seq, substitute, walk
from ..common.fresh_copy import fold, fresh_copy
from .row_blocks import block_rows

__all__ = ["JAM", "unroll_and_jam"]

JAM = "unroll_and_jam"
"""The pragma of a loop whose neighbouring iterations share a pass of the loop in it."""
COPIES = 4
"""Iterations that share a pass: as many numbers stay in registers beside what is stored."""


@require_any(JAM)
def unroll_and_jam(function: Function) -> Function:
    """`function` with such loops jammed."""
    return function.with_body(_Jammer().visit(function.body))


class _Jammer(Rewriter):
    """Rewriter that jams marked loops.

    around: the ranges of the loops around, outer ones first.
    """

    def __init__(self) -> None:
        self.around: dict[Var, Range] = {}

    def For(self, node: For) -> Stmt:
        if any(key == JAM for key, _ in node.pragmas):
            plain = replace(node, pragmas=tuple(pair for pair in node.pragmas if pair[0] != JAM))
            jammed = self._jam(plain) if node.kind is LoopKind.SERIAL else None
            if jammed is None and node.kind in (LoopKind.SERIAL, LoopKind.PARALLEL):
                jammed = block_rows(plain, self.around)
                return self.visit(plain if jammed is None else jammed)
            return plain if jammed is None else jammed
        self.around[node.var] = Range(node.begin, node.extent)
        rewritten = self.generic(node)
        del self.around[node.var]
        return rewritten

    def _jam(self, outer: For) -> Stmt | None:
        """The loops made of two; None where they stay as they are."""
        inner = outer.body
        if not isinstance(inner, For) or inner.kind is not LoopKind.SERIAL or inner.pragmas:
            return None
        stores = _plain_stores(inner.body)
        if stores is None or any(outer.var in free_vars(each) for each in (inner.begin, inner.extent)):
            return None
        if not self._may_interleave(outer, inner):
            return None
        last = const(COPIES - 1, outer.var.dtype)
        ranges = {
            **self.around,
            outer.var: Range(outer.begin, fold(Sub, outer.extent, last)),
            inner.var: Range(inner.begin, inner.extent),
        }
        merged = _merge(stores, outer.var, ranges)
        if merged is None:
            return None
        body = seq(*merged)
        shared = {var: within for var, within in ranges.items() if var is not inner.var}
        accesses = accesses_of(body)
        iterations = Iterations(inner.var, {inner.var: ranges[inner.var]}, shared=shared, constant=accesses.constant)
        if accesses.meeting(iterations) is not None:
            return None
        return _emit(outer, replace(inner, body=body))

    def _may_interleave(self, outer: For, inner: For) -> bool:
        """Return whether no step of the loop inside touches what one of the next few iterations outside does in an earlier step."""
        accesses = accesses_of(inner.body)
        ranges = {loop.var: Range(loop.begin, loop.extent) for loop in (outer, inner)}
        own = {**ranges, **accesses.bound}
        steps = Iterations(None, own, shared=self.around, constant=accesses.constant)
        anywhere = Iterations(outer.var, own, shared=self.around, constant=accesses.constant)
        for buffer, stored in accesses.stored.items():
            touched = [*stored, *accesses.loaded.get(buffer, ())]
            for at, first in enumerate(stored):
                for second in touched[at:]:
                    given = steps.equations(first, second)
                    if (
                        given is not None
                        and any(_may_reverse(*given, outer.var, inner.var, sign) for sign in (1, -1))
                        and anywhere.between(first, second).meets is not Meets.NEVER
                    ):
                        return False
        return True


def _may_reverse(
    equations: Sequence[LinearForm], bounds: Mapping[Unknown, Interval], outer: Var, inner: Var, sign: int
) -> bool:
    """Return whether two accesses may meet that go on by a few iterations outside, and back inside."""
    on, back = (
        (Interval(1, COPIES - 1), Interval(None, -1)) if sign > 0 else (Interval(1 - COPIES, -1), Interval(1, None))
    )
    return solve(equations, {**bounds, ("apart", outer): on, ("apart", inner): back}) is not None


def _plain_stores(body: Stmt) -> list[BufferStore] | None:
    """The stores that a body is; None where it is anything else."""
    stores, stack = list[BufferStore](), [body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, Seq):
            stack += reversed(stmt.body)
        elif isinstance(stmt, LetStmt) and isinstance(stmt.body, BufferStore):
            stack.append(substitute(stmt.body, {stmt.var: stmt.value}))
        elif isinstance(stmt, BufferStore) and stmt.predicate is None:
            stores.append(stmt)
        else:
            return None
    return None if any(isinstance(node, Call) for store in stores for node in walk(store)) else stores


def _merge(stores: Sequence[BufferStore], var: Var, ranges: dict[Var, Range]) -> list[BufferStore] | None:
    """The stores of several iterations of the loop over `var`, of each element the last one with all the others in it; None where two
    may be of one element that are not known to be."""
    pending: dict[tuple[Buffer, tuple[Key, ...]], BufferStore] = {}
    analyzer = Analyzer()
    for each, within in ranges.items():
        analyzer.bind(each, within)

    def are_distinct(first: Indices, second: Indices) -> bool:
        return any(
            analyzer.can_prove(a < b) or analyzer.can_prove(a > b)
            for a, b in zip(first, second, strict=True)
            if is_index(a) and is_index(b)
        )

    def is_known(buffer: Buffer, indices: Indices) -> bool:
        """Return whether an element is that of a store before, or that of none."""
        place = _place(buffer, indices)
        return all(
            each == place or are_distinct(store.indices, indices)
            for each, store in pending.items()
            if each[0] is buffer
        )

    for at in range(COPIES):
        step = fold(Add, var, const(at, var.dtype))
        for store in stores:
            copy = fresh_copy(store, {var: step})
            assert isinstance(copy, BufferStore)
            loads = [node for node in walk(copy.value) if isinstance(node, BufferLoad)]
            if not all(is_known(each.buffer, each.indices) for each in (*loads, copy)):
                return None

            def rule(node: Node) -> Node | None:
                earlier = pending.get(_place(node.buffer, node.indices)) if isinstance(node, BufferLoad) else None
                return None if earlier is None else earlier.value

            place = _place(copy.buffer, copy.indices)
            pending[place] = replace(copy, value=rewrite(copy.value, rule))
    merged = list(pending.values())
    for at, store in enumerate(merged):  # none reads, behind a store, what was there before it
        stored = {_place(each.buffer, each.indices) for each in merged[:at]}
        if any(
            isinstance(node, BufferLoad) and _place(node.buffer, node.indices) in stored for node in walk(store.value)
        ):
            return None
    return merged if len(merged) < COPIES * len(stores) else None  # stored as often as before: nothing is gained


def _place(buffer: Buffer, indices: Indices) -> tuple[Buffer, tuple[Key, ...]]:
    return buffer, tuple(map(structural_key, indices))


def _emit(outer: For, inner: For) -> Stmt:
    """The jammed loop, with what its inner one reads throughout in registers, and the iterations that are left."""
    kind, step = outer.var.dtype, const(COPIES, outer.var.dtype)
    count = fold(FloorDiv, outer.extent, step)
    var, register = Var(outer.var.name, kind), dict[tuple[Buffer, tuple[Key, ...]], tuple[Var, BufferLoad]]()
    first = fold(Add, fold(Mul, var, step), outer.begin)

    def rule(node: Node) -> Node | None:
        if not isinstance(node, BufferLoad) or inner.var in free_vars(node):
            return None
        place = _place(node.buffer, node.indices)
        return register.setdefault(place, (Var(f"{node.buffer.name}.held", node.dtype), node))[0]

    body: Stmt = replace(inner, body=rewrite(inner.body, rule), pragmas=((INDEPENDENT, TRUE),))
    for held, load in register.values():
        body = LetStmt(held, load, body)
    if not isinstance(inner.extent, IntImm):
        body = If(inner.extent > const(0, inner.extent.dtype), body)
    done, rest = fold(Mul, count, step), Var(outer.var.name, kind)
    return seq(
        For(var, const(0, kind), count, LoopKind.SERIAL, fresh_copy(body, {outer.var: first}), line=outer.line),
        replace(
            outer,
            var=rest,
            begin=fold(Add, outer.begin, done),
            extent=fold(Sub, outer.extent, done),
            body=fresh_copy(outer.body, {outer.var: rest}),
        ),
    )
