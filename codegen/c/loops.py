"""Loops of lanes as plain loops, which the C compiler is told that it may vectorize.

for j in vectorized(16): C[j] = A[j]      →      for j in 16: C[j] = A[j]      (pragma c_vectorize)
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import For, Function, IntImm, LoopKind, Node, rewrite

__all__ = ["VECTORIZE", "lanes_as_loops"]

VECTORIZE = "c_vectorize"
"""The pragma of a loop whose iterations do not depend on each other."""


def lanes_as_loops(function: Function) -> Function:
    """`function` without VECTORIZED loops; those that are left have independent iterations (see lane_races)."""

    def rule(node: Node) -> Node | None:
        if not isinstance(node, For) or node.kind is not LoopKind.VECTORIZED:
            return None
        # the pragma stays: to the emitter it says that iterations are independent
        return replace(node, kind=LoopKind.SERIAL, pragmas=(*node.pragmas, (VECTORIZE, IntImm(1))))

    return function.with_body(rewrite(function.body, rule))
