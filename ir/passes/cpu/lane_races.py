"""Vectorized loops whose iterations may depend on each other to serial loops.

    for j in vectorized(16): total[0] = total[0] + A[j]      →      for j in 16: total[0] = total[0] + A[j]

The schedule refuses what it can see, but fusing and attaching can leave a loop whose lanes meet in one element. A loop
stays vectorized only if every two accesses to a buffer, one of them a store, are proved to touch different elements in
different iterations. Memory that is allocated within the loop is each lane's own, and lanes that an If around the body leaves out
meet nobody: of a tail of one lane the index is a constant, which all lanes seem to share.

It stands before flatten, since one dimension is often enough for the proof, and its index is a simpler sum.
"""

from __future__ import annotations

from dataclasses import replace

from ...analysis.dependence import Iterations, accesses_of
from ...atomics import is_atomic
from ...contents import require_any
from ...expr import Range, Var
from ...ops import is_const
from ...stmt import For, Function, LoopKind, Stmt
from ...visit import rewrite_statements, substitute, walk
from .full_vectors import cut_short

__all__ = ["lanes_are_independent", "serialize_racing_lanes"]


@require_any(LoopKind.VECTORIZED)
def serialize_racing_lanes(function: Function) -> Function:
    """`function`, in which every VECTORIZED loop that is left may run its iterations in any interleaving."""

    def rule(node: Stmt) -> Stmt | None:
        if not isinstance(node, For) or node.kind is not LoopKind.VECTORIZED:
            return None
        short = cut_short(node)
        if is_const(short.extent, 1):
            return substitute(short.body, {short.var: short.begin})  # one lane races with nobody, and needs no loop
        return short if lanes_are_independent(short) else replace(node, kind=LoopKind.SERIAL)

    return function.with_body(rewrite_statements(function.body, rule))


def lanes_are_independent(loop: For, around: dict[Var, Range] | None = None) -> bool:
    """Return whether no two different iterations of `loop` are seen to touch one element that one of them stores. around: ranges of
    variables from outside."""
    accesses = accesses_of(loop.body)
    # outside code may touch anything, and an atomic orders what it does
    if accesses.opaque or any(is_atomic(node) for node in walk(loop.body)):
        return False
    own = {loop.var: Range(loop.begin, loop.extent), **accesses.bound}
    return accesses.meeting(Iterations(loop.var, own, shared=around, constant=accesses.constant)) is None
