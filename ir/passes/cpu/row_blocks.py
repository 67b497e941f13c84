"""Blocks of rows: neighbouring iterations of a loop around loops in one pass of those, which reads once what all of them read.

    for i in n:                                     for i in n // 4:
        for k in i:                                     for k in 4 * i:
            for j in m:                                     for j in m:
                c[i, j] += a[i, k] * b[k, j]     →              c[4 * i, j] += a[4 * i, k] * b[k, j]
        for j in m:                                             ...
            c[i, j] = c[i, j] / d[i]                            c[4 * i + 3, j] += a[4 * i + 3, k] * b[k, j]
                                                        for r in 4: k from 4 * i to 4 * i + r, and the division
                                                    for i in the last n % 4: ...

So a matrix passes through the caches once for four rows (S. Carr, K. Kennedy, "Improving the Ratio of Memory Operations to
Floating-Point Operations in Loops", TOPLAS 1994). Loops whose bounds depend on the row run together as far as all rows run: what
comes before, and what follows, is done row by row. Variables are counted from where an index that rows share begins, as b[k, j]
is one element for all of them in b[i + k, j] for k in n - i.

It is done where no row of a block touches what another one does out of its turn. No bit changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ....base import dataclass, replace
from ...analysis.dependence import Accesses, Indices, Iterations, Meets, accesses_of
from ...analysis.linear import expression, is_index, linear
from ...arith.linear import LinearForm, single
from ...buffer import Buffer
from ...expr import LT, Add, BufferLoad, Expr, FloorDiv, IntImm, Mul, Node, Range, Sub, Var
from ...ops import conjunction, const
from ...stmt import Allocate, Assert, BufferStore, For, If, LetStmt, LoopKind, Seq, Stmt, While
from ...structural import Key, equal, structural_key
from ...visit import rewrite, seq, substitute, walk
from ..common.fresh_copy import fold, fresh_copy

__all__ = ["ROWS", "block_rows"]

ROWS = 4
"""Rows of a block: as many accumulators beside as many factors leave registers on every machine."""
LEAST_SHARED = 3
"""More than one load in so many is saved: a product saves three in eight. Where a stencil's rows share less, as three in ten, many rows
at once take 1.1 to 1.3 times as long as one."""


def block_rows(outer: For, around: Mapping[Var, Range]) -> Stmt | None:
    """The loop over blocks of rows, and the rows that are left; None where a loop stays as it is. around: the ranges of the loops
    around it."""
    kind = outer.var.dtype
    block, size = Var(outer.var.name, kind), const(ROWS, kind)
    first = fold(Add, fold(Mul, block, size), outer.begin)
    turn = Var("row", kind)
    steps = [fold(Add, first, step) for step in (*(const(at, kind) for at in range(ROWS)), turn)]
    rows = [_split_iteration(fresh_copy(outer.body, {outer.var: step})) for step in steps]
    if None in rows or any(isinstance(node, Assert | While) for node in walk(outer.body)):
        return None
    count = fold(FloorDiv, outer.extent, size)
    shared = {**around, block: Range(const(0, kind), count)}
    joined = _join([row for row in rows if row is not None], steps, turn, block, shared)
    if joined is None:
        return None
    whole, guards = joined
    if guards:
        again = Var(turn.name, kind)
        whole = If(
            conjunction(*guards),
            whole,
            _repeat_rows(again, fresh_copy(outer.body, {outer.var: fold(Add, first, again)})),
        )
    rest, done = Var(outer.var.name, kind), fold(Mul, count, size)
    left = replace(
        outer,
        var=rest,
        begin=fold(Add, outer.begin, done),
        extent=fold(Sub, outer.extent, done),
        body=fresh_copy(outer.body, {outer.var: rest}),
    )
    return seq(
        replace(outer, var=block, begin=const(0, kind), extent=count, body=whole),
        None if isinstance(left.extent, IntImm) and not left.extent.value else left,
    )


@dataclass(frozen=True)
class _Row:
    """An iteration of the loop around: memory of its own, what stands before the loop that rows share, that loop, what follows."""

    memory: tuple[Buffer, ...]
    before: tuple[Stmt, ...]
    loop: For
    after: tuple[Stmt, ...]


def _split_iteration(body: Stmt) -> _Row | None:
    """The parts of an iteration; None of one without loops in a loop."""
    memory = list[Buffer]()
    while isinstance(body, Allocate):
        memory.append(body.buffer)
        body = body.body
    statements = body.body if isinstance(body, Seq) else (body,)
    for at, loop in enumerate(statements):
        if isinstance(loop, For) and loop.kind is LoopKind.SERIAL and _has_loop(loop.body):
            return _Row(tuple(memory), statements[:at], loop, statements[at + 1 :])
    return None


def _has_loop(stmt: Stmt) -> bool:
    return any(isinstance(node, For) for node in walk(stmt))


def _repeat_rows(var: Var, body: Stmt) -> For:
    """The rows of a block, one after the other."""
    return For(var, const(0, var.dtype), const(ROWS, var.dtype), LoopKind.SERIAL, body)


def _join(
    rows: Sequence[_Row], steps: Sequence[Expr], turn: Var, block: Var, shared: Mapping[Var, Range]
) -> tuple[Stmt, list[Expr]] | None:
    """The rows of a block as one statement, and conditions under which it is; None where there is none. rows: the last one is that of
    the number `turn`, the others of numbers in their order."""
    *loops, any_loop = _count_alike([row.loop for row in rows], steps, block)
    span = _find_span(loops)
    if span is None:
        return None
    *heads, any_head = [
        seq(*row.before, *_part(loop, loop.begin, span.low)) for row, loop in zip(rows, (*loops, any_loop), strict=True)
    ]
    *tails, any_tail = [
        seq(*_part(loop, span.high, _end(loop)), *row.after) for row, loop in zip(rows, (*loops, any_loop), strict=True)
    ]
    jammed = [replace(loop, begin=span.low, extent=_normalize_index(fold(Sub, span.high, span.low))) for loop in loops]
    spans, edges = [span], [seq()] * ROWS
    inner = [loop.body for loop in loops if isinstance(loop.body, For)]
    if inner and not _are_same(inner):  # the loops inside begin or end with the row
        within = _count_alike(inner, steps[:-1], block)
        inside = _find_span(within)
        if (
            inside is None
            or any(_has_loop(each.body) for each in within)
            or not _are_independent(jammed, within, shared)
        ):
            return None
        spans.append(inside)
        edges = [_edges(loop, each, inside) for loop, each in zip(jammed, within, strict=True)]
        length = _normalize_index(fold(Sub, inside.high, inside.low))
        jammed = [
            replace(loop, body=replace(each, begin=inside.low, extent=length))
            for loop, each in zip(jammed, within, strict=True)
        ]
    common = _jam(jammed)
    if common is None or not _shares_loads(common):
        return None
    own = {buffer for row in rows[:-1] for buffer in row.memory}
    middles = [seq(edge, loop) for edge, loop in zip(edges, jammed, strict=True)]
    if not _Order((heads, middles, tails)).is_kept(own, shared, plain=len(spans) == 1):
        return None
    if not own:  # no row has anything that others have not: one loop does what each of them does alone
        heads, tails = ([_repeat_rows(turn, each)] if _acts(each) else [] for each in (any_head, any_tail))
    whole = seq(*heads, *edges, common, *tails)
    for buffer in own:
        whole = Allocate(buffer, whole)
    return whole, [LT(each.low, each.high) for each in spans if not each.is_sure]


def _acts(stmt: Stmt) -> bool:
    return not isinstance(stmt, Seq) or bool(stmt.body)


# Bounds


@dataclass(frozen=True)
class _Span:
    """The iterations that the loops of all rows have. is_sure: there are some whatever variables are."""

    low: Expr
    high: Expr
    is_sure: bool


def _count_alike(loops: Sequence[For], steps: Sequence[Expr], block: Var) -> list[For]:
    """The loops, counted so that elements that rows have in common have one index."""
    factors = {
        linear(index).coefficient(block) // ROWS
        for node in walk(loops[0].body)
        if isinstance(node, BufferLoad | BufferStore)
        for index in node.indices
        if is_index(index) and linear(index).coefficient(loops[0].var) == 1
    }
    factor = factors.pop() if len(factors) == 1 else 0
    counted = list[For]()
    for loop, step in zip(loops, steps, strict=True):
        ahead = LinearForm({}).plus(linear(step), factor)
        var = Var(loop.var.name, loop.var.dtype)
        place = expression(single(var).plus(ahead, -1), var.dtype)
        body = rewrite(fresh_copy(loop.body, {loop.var: place}), _normalize_access)
        begin = expression(linear(loop.begin).plus(ahead), var.dtype)
        counted.append(replace(loop, var=var, begin=begin, extent=_normalize_index(loop.extent), body=body))
    return counted


def _normalize_index(index: Expr) -> Expr:
    return expression(linear(index), index.dtype) if is_index(index) else index


def _normalize_access(node: Node) -> Node | None:
    """An access or a loop with sums of indices in one form, so that equal ones look equal."""
    if isinstance(node, BufferLoad | BufferStore):
        return replace(node, indices=tuple(map(_normalize_index, node.indices)))
    if isinstance(node, For):
        return replace(node, begin=_normalize_index(node.begin), extent=_normalize_index(node.extent))
    return None


def _end(loop: For) -> Expr:
    return _normalize_index(fold(Add, loop.begin, loop.extent))


def _find_span(loops: Sequence[For]) -> _Span | None:
    """The iterations that all of them have; None where bounds do not lie numbers apart."""
    begins, ends = [loop.begin for loop in loops], [_end(loop) for loop in loops]
    bounds = list[Expr]()
    for edges, sign in ((begins, 1), (ends, -1)):
        apart = [linear(edge).plus(linear(edges[0]), -1) for edge in edges]
        if any(form.coeffs for form in apart):
            return None
        bounds.append(max(zip(apart, edges, strict=True), key=lambda pair: sign * pair[0].const)[1])
    low, high = bounds
    length = linear(high).plus(linear(low), -1)
    return _Span(low, high, not length.coeffs and length.const > 0)


def _part(loop: For, begin: Expr, end: Expr) -> list[Stmt]:
    """The iterations of a loop between two bounds, which are at most a few, or as many as there are behind."""
    extent = _normalize_index(fold(Sub, end, begin))
    if isinstance(extent, IntImm) and extent.value <= 0:
        return []
    return [fresh_copy(replace(loop, begin=begin, extent=extent, pragmas=()), {})]


def _edges(loop: For, inner: For, span: _Span) -> Stmt:
    """The loop with what a row has before and behind the iterations of all rows in the loop inside."""
    copies = list[Stmt]()
    for begin, end in ((inner.begin, span.low), (span.high, _end(inner))):
        extent = linear(end).plus(linear(begin), -1).const
        copies += [
            fresh_copy(inner.body, {inner.var: _normalize_index(fold(Add, begin, const(at, inner.var.dtype)))})
            for at in range(extent)
        ]
    return fresh_copy(replace(loop, body=rewrite(seq(*copies), _normalize_access), pragmas=()), {}) if copies else seq()


# Jam


def _are_same(loops: Sequence[For]) -> bool:
    """Return whether loops have the same bounds."""
    head = loops[0]
    return all(
        loop.kind is LoopKind.SERIAL
        and loop.pragmas == head.pragmas
        and equal(loop.begin, head.begin)
        and equal(loop.extent, head.extent)
        for loop in loops
    )


def _jam(statements: Sequence[Stmt]) -> Stmt | None:
    """One statement that does what all do, iteration by iteration; None where their loops differ."""
    head = statements[0]
    loops = [each for each in statements if isinstance(each, For)]
    if isinstance(head, For) and len(loops) == len(statements) and _are_same(loops):
        bodies = [loop.body if loop is head else substitute(loop.body, {loop.var: head.var}) for loop in loops]
        body = _jam(bodies)
        return None if body is None else replace(head, body=body)
    blocks = [each for each in statements if isinstance(each, Seq)]
    if len(blocks) == len(statements) and len({len(each.body) for each in blocks}) == 1:
        columns = [_jam(column) for column in zip(*(each.body for each in blocks), strict=True)]
        return None if None in columns else seq(*columns)
    allocations = [each for each in statements if isinstance(each, Allocate)]
    if len(allocations) == len(statements):
        body = _jam([each.body for each in allocations])
        if body is None:
            return None
        for each in allocations:
            body = Allocate(each.buffer, body)
        return body
    return None if any(map(_has_loop, statements)) else seq(*statements)


def _shares_loads(common: Stmt) -> bool:
    """Return whether some innermost loop reads for several rows enough of what one of them reads along it."""
    for loop in walk(common):
        if isinstance(loop, For) and not _has_loop(loop.body):
            rows = [
                {_place(node) for node in walk(each.value) if isinstance(node, BufferLoad) and _varies(node, loop.var)}
                for each in walk(loop.body)
                if isinstance(each, BufferStore | LetStmt)
            ]
            loads = sum(map(len, rows))
            if (loads - len({place for row in rows for place in row})) * LEAST_SHARED > loads:
                return True
    return False


def _varies(load: BufferLoad, var: Var) -> bool:
    return any(node is var for index in load.indices for node in walk(index))


def _place(node: BufferLoad) -> tuple[Buffer, tuple[Key, ...]]:
    return node.buffer, tuple(map(structural_key, node.indices))


# Order


def _are_independent(loops: Sequence[For], within: Sequence[For], shared: Mapping[Var, Range]) -> bool:
    """Return whether iterations of the loops inside never meet, whichever iterations of those around them they are of."""
    for loop, inner in zip(loops, within, strict=True):
        accesses = accesses_of(inner.body)
        own = {**{each.var: Range(each.begin, each.extent) for each in (loop, inner)}, **accesses.bound}
        iterations = Iterations(inner.var, own, shared=dict(shared), constant=accesses.constant)
        if accesses.meeting(iterations) is not None:
            return False
    return True


@dataclass(frozen=True)
class _Order:
    """The parts of each row: heads, middles, tails. All rows do the first ones before any does the next ones."""

    parts: Sequence[Sequence[Stmt]]

    def is_kept(self, own: set[Buffer], shared: Mapping[Var, Range], plain: bool) -> bool:
        """Return whether rows never meet where the later one comes first now. own: their memory. plain: middles are jammed as they
        are, so that they may meet at one place of their loops."""
        found = [[accesses_of(part) for part in parts] for parts in self.parts]
        if any(each.opaque for parts in found for each in parts):
            return False
        for first in range(ROWS):
            for second in range(first + 1, ROWS):
                for behind, before in ((1, 0), (2, 0), (2, 1), (1, 1)):
                    a, b = found[behind][first], found[before][second]
                    alike = plain and behind == before
                    loops = self._loops(first, second) if alike else {}
                    if any(not _is_in_turn(x, y, loops) for x, y in _meeting_pairs(a, b, own, shared)):
                        return False
        return True

    def _loops(self, first: int, second: int) -> dict[Var, Var]:
        """The loops of the middle of one row by those of another one's."""
        loops = [[node.var for node in walk(self.parts[1][row]) if isinstance(node, For)] for row in (first, second)]
        return dict(zip(*loops, strict=True)) if len(loops[0]) == 2 else {}


def _meeting_pairs(
    a: Accesses, b: Accesses, own: set[Buffer], shared: Mapping[Var, Range]
) -> Iterator[tuple[Indices, Indices]]:
    """The accesses of two statements, one of them a store, that may be of one element."""
    turn = Var("turn", next(iter(shared)).dtype)  # rows are numbers: nothing else is compared
    bound: dict[Var, Range | None] = {turn: Range(const(0, turn.dtype), const(2, turn.dtype)), **a.bound, **b.bound}
    iterations = Iterations(turn, bound, shared=dict(shared), constant=a.constant & b.constant)
    for buffer in {*a.stored, *b.stored} - own - a.private - b.private:
        stored, other = a.stored.get(buffer, ()), b.stored.get(buffer, ())
        pairs = [(x, y) for x in stored for y in (*other, *b.loaded.get(buffer, ()))]
        pairs += [(x, y) for x in a.loaded.get(buffer, ()) for y in other]
        yield from ((x, y) for x, y in pairs if iterations.between(x, y).meets is not Meets.NEVER)


def _is_in_turn(first: Indices, second: Indices, loops: Mapping[Var, Var]) -> bool:
    """Return whether two accesses are of one element in the same iteration of all loops alone."""
    if not loops or not all(equal(substitute(a, dict(loops)), b) for a, b in zip(first, second, strict=True)):
        return False
    pinned = {var for index in second if is_index(index) for var in loops.values() if _pins(index, var, loops)}
    return pinned == {*loops.values()}


def _pins(index: Expr, var: Var, loops: Mapping[Var, Var]) -> bool:
    """Return whether an index tells the value of one loop's variable, and no other loop's."""
    form = linear(index)
    return form.coefficient(var) != 0 and not any(
        other is not var and any(node is other for node in walk(index)) for other in loops.values()
    )
