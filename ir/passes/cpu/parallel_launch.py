"""Parallel loops launched once, outside of the loops around them, where the pragma parallel_launch_point says so.

    for k in 100 with parallel_launch_point=1:         for i in parallel(64):
        for i in parallel(64):                 →        for k in 100:
            C[i] = C[i] + A[k, i]                              C[i] = C[i] + A[k, i]

Each thread then runs its share of the parallel loop in every iteration of the loops around it, without meeting the others
in between. That holds where different iterations of the parallel loop touch different elements of what is stored, in
whichever iterations of the other loops; otherwise, and where the parallel loop asks for it (parallel_barrier_when_finish),
the loop is launched again each time. The loops between the two must hold nothing else.

It stands before guards and lanes are taken apart, while indices are sums of loop variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...analysis.linear import linear, terms
from ...buffer import Buffer
from ...expr import BufferLoad, Call, Expr, IntImm, Var
from ...intrinsics import is_pure
from ...ops import is_const
from ...stmt import Allocate, BufferStore, For, Function, LetStmt, LoopKind, Stmt
from ...structural import Key, structural_key
from ...visit import free_vars, rewrite, walk

__all__ = ["launch_once"]

LAUNCH_POINT, BARRIER = "parallel_launch_point", "parallel_barrier_when_finish"


def launch_once(function: Function) -> Function:
    """`function` with parallel loops outside of the loops that are their launch points."""

    def rule(node: Any) -> Stmt | None:
        return _launched(node) if isinstance(node, For) and _has(node, LAUNCH_POINT) else None

    return function.with_body(rewrite(function.body, rule))


def _has(loop: For, key: str) -> bool:
    return any(one == key and not is_const(value, 0) for one, value in loop.pragmas)


def _launched(loop: For) -> Stmt | None:
    """The parallel loop within `loop`, around it; None where that would not be the same."""
    if loop.kind is not LoopKind.SERIAL:
        return None
    around = [loop]
    inner = loop.body
    while isinstance(inner, For) and inner.kind is LoopKind.SERIAL:
        around.append(inner)
        inner = inner.body
    if not isinstance(inner, For) or inner.kind is not LoopKind.PARALLEL or _has(inner, BARRIER):
        return None
    variables = {one.var for one in around}
    if variables & {*free_vars(inner.begin), *free_vars(inner.extent)} or not _apart(inner, around):
        return None
    body = inner.body
    for one in reversed(around):
        pragmas = tuple(pair for pair in one.pragmas if pair[0] != LAUNCH_POINT)
        body = replace(one, body=body, pragmas=pragmas)
    return replace(inner, body=body)


def _apart(parallel: For, around: list[For]) -> bool:
    """Whether different iterations of the parallel loop never touch one element that either stores, whatever the loops
    around it are at."""
    digits = _Digits(parallel.var)
    for loop in (*around, parallel):
        digits.enter(loop)
    own: set[Buffer] = set()
    for node in walk(parallel.body):
        if isinstance(node, For):
            digits.enter(node)
        elif isinstance(node, Allocate):
            own.add(node.buffer)
        elif isinstance(node, LetStmt) or (isinstance(node, Call) and not is_pure(node.name)):
            return False  # what it stands for, or does, is not looked at
    accesses = [node for node in walk(parallel.body) if isinstance(node, (BufferLoad, BufferStore)) and node.buffer not in own]
    for stored in {node.buffer for node in accesses if isinstance(node, BufferStore)}:
        told = [set(digits.told(node.indices)) for node in accesses if node.buffer is stored]
        if not set.intersection(*told):
            return False
    return True


class _Digits:
    """Which dimensions of an access tell the iteration of the parallel loop.

    An index does whose terms are digits: each step larger than all that the smaller terms can add up to, one of them of
    the parallel loop. Two accesses of one element whose digits are alike are then of one iteration.
    """

    def __init__(self, parallel: Var) -> None:
        self.parallel = parallel
        self.spans: dict[Var, int | None] = {}
        """By how much each loop variable goes beyond 0; None for a symbolic extent."""
        self.odd: set[Var] = set()

    def enter(self, loop: For) -> None:
        """Note a loop."""
        if is_const(loop.begin, 0):
            self.spans[loop.var] = loop.extent.value - 1 if isinstance(loop.extent, IntImm) else None
        else:
            self.odd.add(loop.var)

    def told(self, indices: tuple[Expr, ...]) -> Iterator[Key]:
        """A key for each dimension that tells the iteration: what its index is made of."""
        for at, index in enumerate(indices):
            form = linear(index)
            shape = self._shape(sorted(terms(form), key=lambda term: abs(term[1])))
            if shape is not None and any(part[1] == "parallel" for part in shape):
                yield at, form.const, shape

    def _shape(self, terms: list[tuple[Expr, int]]) -> tuple[tuple[int, Key], ...] | None:
        reach: int | None = 0
        shape: list[tuple[int, Key]] = []
        for atom, factor in terms:
            if isinstance(atom, Var) and atom in self.spans:
                if reach is None or abs(factor) <= reach:
                    return None
                span = self.spans[atom]
                reach = None if span is None else reach + abs(factor) * span
                shape.append((factor, "parallel" if atom is self.parallel else span))
            elif any(isinstance(node, BufferLoad) or node in self.spans or node in self.odd for node in walk(atom)):
                return None
            else:
                shape.append((factor, structural_key(atom)))
        return tuple(shape)
