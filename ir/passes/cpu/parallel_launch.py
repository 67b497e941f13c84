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

from dataclasses import replace
from typing import Any

from ...analysis.dependence import Iterations, accesses_of
from ...contents import require_any
from ...expr import Call, Range
from ...intrinsics import is_pure
from ...ops import is_const
from ...stmt import For, Function, LoopKind, Stmt
from ...visit import free_vars, rewrite_statements, walk

__all__ = ["launch_once"]

LAUNCH_POINT, BARRIER = "parallel_launch_point", "parallel_barrier_when_finish"


@require_any(LAUNCH_POINT)
def launch_once(function: Function) -> Function:
    """`function` with parallel loops outside of the loops that are their launch points."""

    def rule(node: Any) -> Stmt | None:
        return _launch(node) if isinstance(node, For) and _has(node, LAUNCH_POINT) else None

    return function.with_body(rewrite_statements(function.body, rule))


def _has(loop: For, key: str) -> bool:
    return any(name == key and not is_const(value, 0) for name, value in loop.pragmas)


def _launch(loop: For) -> Stmt | None:
    """The parallel loop within `loop`, around it; None where that would not be the same."""
    if loop.kind is not LoopKind.SERIAL:
        return None
    around = [loop]
    inner = loop.body
    # statements between the loops would run once for each thread
    while isinstance(inner, For) and inner.kind is LoopKind.SERIAL:
        around.append(inner)
        inner = inner.body
    if not isinstance(inner, For) or inner.kind is not LoopKind.PARALLEL or _has(inner, BARRIER):
        return None
    variables = {outer.var for outer in around}
    # bounds that change with the outer loops cannot stand outside of them
    if variables & {*free_vars(inner.begin), *free_vars(inner.extent)} or not _are_disjoint(inner, around):
        return None
    body = inner.body
    for outer in reversed(around):
        # the pragma is done: a second run must not find it
        pragmas = tuple(pair for pair in outer.pragmas if pair[0] != LAUNCH_POINT)
        body = replace(outer, body=body, pragmas=pragmas)
    return replace(inner, body=body)


def _are_disjoint(parallel: For, around: list[For]) -> bool:
    """Return whether different iterations of the parallel loop never touch one element that either stores, whatever the loops
    around it are at."""
    accesses = accesses_of(parallel.body)
    if accesses.opaque or any(isinstance(node, Call) and not is_pure(node.name) for node in walk(parallel.body)):
        return False  # what is done is not looked at
    own = {loop.var: Range(loop.begin, loop.extent) for loop in (*around, parallel)} | accesses.bound
    return accesses.meeting(Iterations(parallel.var, own, constant=accesses.constant)) is None
