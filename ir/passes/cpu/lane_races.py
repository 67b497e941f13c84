"""Vectorized loops whose iterations may depend on each other to serial loops.

    for j in vectorized(16): total[0] = total[0] + A[j]      →      for j in 16: total[0] = total[0] + A[j]

The schedule refuses what it can see, but fusing and attaching can leave a loop whose lanes meet in one element. A loop
stays vectorized only if every two accesses to a buffer, one of them a store, are proved to touch different elements in
different iterations. Memory that is allocated within the loop is each lane's own.

It stands before flatten, since one dimension is often enough for the proof, and its index is a simpler sum.
"""

from __future__ import annotations

from dataclasses import replace

from ...analysis.dependence import Iterations, accesses_of
from ...atomics import is_atomic
from ...expr import Node, Range
from ...stmt import For, Function, LoopKind
from ...visit import rewrite, walk

__all__ = ["lanes_are_independent", "serialize_racing_lanes"]


def serialize_racing_lanes(function: Function) -> Function:
    """`function`, in which every VECTORIZED loop that is left may run its iterations in any interleaving."""

    def rule(node: Node) -> Node | None:
        if isinstance(node, For) and node.kind is LoopKind.VECTORIZED and not lanes_are_independent(node):
            return replace(node, kind=LoopKind.SERIAL)
        return None

    return function.with_body(rewrite(function.body, rule))


def lanes_are_independent(loop: For) -> bool:
    """Whether no two different iterations of `loop` are seen to touch one element that one of them stores."""
    accesses = accesses_of(loop.body)
    if accesses.opaque or any(is_atomic(node) for node in walk(loop.body)):
        return False
    own = {loop.var: Range(loop.begin, loop.extent), **accesses.bound}
    return accesses.meeting(Iterations(loop.var, own, constant=accesses.constant)) is None
