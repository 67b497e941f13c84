"""Innermost loops in which one element of a buffer is stored to and others are read: LLVM compares addresses there, in which j < i shows
no more, where it does not give up.

Scalar promotion: an element that a loop stores to again and again lies in a register meanwhile.

    for j in i:                                        if i > 0:
        x[i] = x[i] - L[i, j] * x[j]       →               promoted = x[i]
                                                           for j in i:  promoted = promoted - L[i, j] * x[j]
                                                           x[i] = promoted

Independence: a loop whose iterations store to elements that no other one touches is told so.

    for j in n - i:                                            for j in n - i:    # independent
        a[i, i + j] = a[i, i + j] - a[i, k] * a[k, i + j]  →       ...                               k < i

Index set splitting: so is each part of a loop that stores once to the element that it reads throughout (R. Allen, K. Kennedy,
"Optimizing Compilers for Modern Architectures", section 5.6).

    for j in n:                                            for j in k: ...            # independent
        a[i, j] = min(a[i, j], a[i, k] + a[k, j])  →       a[i, k] = min(a[i, k], a[i, k] + a[k, k])
                                                           for j in k + 1 to n: ...   # independent

No bit changes.

It stands while indices are n-d, where one dimension is often enough for the proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...analysis.dependence import Accesses, Indices, Iterations, Meets, accesses_of
from ...analysis.linear import expression, is_index, linear, terms
from ...arith.analyzer import Analyzer
from ...arith.linear import LinearForm
from ...atomics import is_atomic
from ...buffer import Buffer
from ...expr import Add, BufferLoad, Call, Expr, IntImm, Let, Node, Range, Sub, Var
from ...ops import TRUE, const, integer_value, logical_and, maximum, minimum
from ...stmt import (
    INDEPENDENT,
    Allocate,
    Assert,
    BufferStore,
    Evaluate,
    For,
    Function,
    If,
    LetStmt,
    LoopKind,
    Seq,
    Stmt,
    While,
)
from ...structural import Key, equal, structural_key
from ...visit import Rewriter, free_vars, rewrite, seq, walk
from ..common.fresh_copy import fold, fresh_copy

__all__ = ["promote_scalars"]

SPLIT = 32
"""Iterations of a loop that is split: three loops take their time to begin, and their code its place."""

_STAYS = (Allocate, Assert, Evaluate, For, While)
"""Statements of which a loop that has one in it stays as it is: it is not the innermost one, or may be left on the way."""


def promote_scalars(function: Function) -> Function:
    """`function` with such elements in registers."""
    return function.with_body(_Promoter().visit(function.body))


class _Promoter(Rewriter):
    """Rewriter that keeps elements in registers.

    around: the ranges of the loops around, outer ones first.
    """

    def __init__(self) -> None:
        self.around: dict[Var, Range] = {}

    def For(self, node: For) -> Stmt:
        if any(key == INDEPENDENT for key, _ in node.pragmas):
            return node
        if node.kind is LoopKind.SERIAL and not any(isinstance(each, _STAYS) for each in walk(node.body)):
            return self._promote(node)
        self.around[node.var] = Range(node.begin, node.extent)
        rewritten = self.generic(node)
        del self.around[node.var]
        return rewritten

    def _promote(self, loop: For) -> Stmt:
        own = {loop.var, *(node.var for node in walk(loop.body) if isinstance(node, Let | LetStmt))}
        stores = [store for store in _certain_stores(loop.body) if _stays(store.indices, own)]
        if any(is_atomic(node) for node in walk(loop.body)):
            return loop
        accesses = accesses_of(loop.body)
        if not stores and all(len(accesses.loaded.get(buffer, ())) < 2 for buffer in accesses.stored):
            return loop
        ranges = {loop.var: Range(loop.begin, loop.extent), **accesses.bound}
        iterations = Iterations(loop.var, ranges, shared=self.around, constant=accesses.constant)
        if not stores:
            meeting = accesses.meeting(iterations)
            if meeting is None:
                return _mark_independent(loop)
            parts = self._split(loop, accesses, _meeting_point(loop.var, own, *meeting[1:]))
            return loop if parts is None else parts
        promoted: Stmt = loop
        for store in stores:
            touched = (*accesses.stored[store.buffer], *accesses.loaded.get(store.buffer, ()))
            others = [indices for indices in touched if not _is_same(indices, store.indices)]
            if others and all(iterations.between(store.indices, other).meets is Meets.NEVER for other in others):
                promoted = _carry(promoted, loop, store)
        return promoted

    def _split(self, loop: For, accesses: Accesses, point: Expr | None) -> Stmt | None:
        """The iterations before that of `point`, it and those behind; None where those of a part still meet."""
        begin, end, one = loop.begin, fold(Add, loop.begin, loop.extent), const(1, loop.var.dtype)
        if point is None or (integer_value(loop.extent) or SPLIT) < SPLIT:
            return None
        behind = fold(Add, point, one)
        for low, high in ((begin, point), (behind, end)):  # a part is empty where `point` lies outside
            ranges = {loop.var: Range(low, fold(Sub, high, low)), **accesses.bound}
            iterations = Iterations(loop.var, ranges, shared=self.around, constant=accesses.constant)
            if accesses.meeting(iterations) is not None:
                return None
        analyzer = Analyzer()
        for var, within in self.around.items():
            analyzer.bind(var, within)
        sure = analyzer.can_prove(begin <= point) and analyzer.can_prove(point < end)
        once = fresh_copy(loop.body, {loop.var: point})
        return seq(
            _mark_independent(_part(loop, begin, point if sure else minimum(point, end))),
            once if sure else If(logical_and(begin <= point, point < end), once),
            _mark_independent(_part(loop, behind if sure else maximum(behind, begin), end)),
        )


def _mark_independent(loop: For) -> For:
    return replace(loop, pragmas=(*loop.pragmas, (INDEPENDENT, TRUE)))


def _part(loop: For, begin: Expr, end: Expr) -> For:
    """The iterations of a loop from `begin` to `end`, as a loop beside it."""
    var = Var(loop.var.name, loop.var.dtype)
    extent = maximum(fold(Sub, end, begin), const(0, var.dtype))
    return replace(loop, var=var, begin=begin, extent=extent, body=fresh_copy(loop.body, {loop.var: var}))


def _meeting_point(var: Var, own: set[Var], stored: Indices, touched: Indices) -> Expr | None:
    """The one iteration in which a place that moves by an element each time is one that stays; None where that is not known."""
    for a, b in zip(stored, touched, strict=True):
        if not (is_index(a) and is_index(b) and a.dtype == b.dtype == var.dtype):
            continue
        moving, staying = sorted((linear(a), linear(b)), key=lambda form: -form.coefficient(var))
        place = staying.plus(moving.without(var), -1)
        if moving.coefficient(var) == 1 and not staying.coefficient(var) and _is_plain(place, own):
            return expression(place, var.dtype)
    return None


def _is_plain(form: LinearForm, own: set[Var]) -> bool:
    """Return whether numbers and variables from outside a loop tell a place."""
    return all(isinstance(atom, Var) and atom not in own for atom, _ in terms(form))


def _certain_stores(body: Stmt) -> Iterator[BufferStore]:
    """The stores that every iteration makes, one to each place."""
    stack, places = [body], set[tuple[Buffer, tuple[Key, ...]]]()
    while stack:
        node = stack.pop()
        if isinstance(node, BufferStore) and node.predicate is None:
            place = node.buffer, tuple(map(structural_key, node.indices))
            if place not in places:
                places.add(place)
                yield node
        elif isinstance(node, Seq):
            stack += node.body
        elif isinstance(node, LetStmt):
            stack.append(node.body)


def _stays(indices: Indices, bound: set[Var]) -> bool:
    """Return whether every iteration has the same one element in mind, which numbers and variables tell."""
    return all(
        index.dtype.lanes == 1
        and bound.isdisjoint(free_vars(index))
        and not any(isinstance(node, BufferLoad | Call) for node in walk(index))
        for index in indices
    )


def _is_same(first: Indices, second: Indices) -> bool:
    return all(map(equal, first, second))


def _carry(whole: Stmt, loop: For, store: BufferStore) -> Stmt:
    """The statement made of a loop, with the element of a store in a register."""
    buffer, indices = store.buffer, store.indices
    register = Buffer(f"{buffer.name}.promoted", (), buffer.dtype, scope="local")

    def rule(node: Node) -> Node | None:
        if isinstance(node, BufferLoad | BufferStore) and node.buffer is buffer and _is_same(node.indices, indices):
            return replace(node, buffer=register, indices=())
        return None

    body = seq(
        BufferStore(register, BufferLoad(buffer, indices), ()),
        rewrite(whole, rule),
        BufferStore(buffer, BufferLoad(register, ()), indices),
    )
    extent = loop.extent
    some = isinstance(extent, IntImm) and extent.value > 0
    return Allocate(register, body if some else If(extent > const(0, extent.dtype), body))
