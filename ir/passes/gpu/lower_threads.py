"""Thread loops to serial loops, for targets without threads of that kind.

    for t in thread("threadIdx.x", 0, 64): S      →      for t in range(0, 64): S

Every loop kind means what a serial loop means, so nothing else is needed. Virtual threads are interleaved as they are on a
GPU (see gpu_vthread): what they share is computed once, and several chains of operations run side by side; those of unknown
number stay a loop. It stands before all that looks at loops, which then need to know three kinds only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...contents import require_any
from ...stmt import INDEPENDENT, For, Function, LoopKind
from ...visit import rewrite_statements
from .vthread import inject_virtual_threads

__all__ = ["lower_threads"]


@require_any(LoopKind.THREAD)
def lower_threads(function: Function) -> Function:
    """Every THREAD loop of `function` as a SERIAL one, virtual ones unrolled around the statements that depend on them."""

    def rule(node: Any) -> For | None:
        if isinstance(node, For) and node.kind is LoopKind.THREAD:
            kept = tuple(pair for pair in node.pragmas if pair[0] != INDEPENDENT)  # said for threads
            return replace(node, kind=LoopKind.SERIAL, thread="", pragmas=kept)
        return None

    # virtual threads of unknown number cannot be interleaved
    return function.with_body(rewrite_statements(inject_virtual_threads(function.body, known_only=True), rule))
