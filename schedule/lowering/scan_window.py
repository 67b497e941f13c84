"""The number of steps of a scan's states that are kept.

    sums: float32[1000, 8]                     sums: float32[2, 8]
    ... sums[0, i] = ...                       ... sums[0, i] = ...
    for t in 999:                              for t in 999:
        for i in 8:                     →          for i in 8:
            sums[t + 1, i] = sums[t, i] + ...          sums[(t + 1) % 2, i] = sums[t % 2, i] + ...
    ... sums[999, i] ...                       ... sums[1, i] ...

A step reads some steps before its own, and what stands after the loop over time reads some of the last steps. Memory around which
that many steps go holds all that is read. It is looked for in the loops, where every access stands, whoever made it; states that
are arguments, or in the memory of GPUs, whose threads share steps, are kept whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...ir import Allocate, Attr, Buffer, Expr, For, LoopKind, Node, Stmt
from ...ir.analysis.dependence import Accesses, accesses_of
from ...ir.analysis.regions import Span, SpanEvaluator, difference_bound
from ...ir.arith.analyzer import Analyzer
from ...ir.ops import cast, const, floormod, integer_value
from ...ir.pointers import pointed_buffer
from ...ir.visit import rewrite, seq, walk
from ..model.scan_loops import time_loops_in_order
from .computation import StageBounds
from .overlap import moved_accesses

__all__ = ["allocated_states"]


def allocated_states(bounds: StageBounds, buffers: Sequence[Buffer], body: Stmt, analyzer: Analyzer) -> Stmt:
    """The body that reads and writes the states of a scan, with their memory around it. buffers: those that are no arguments."""
    for buffer in reversed(buffers):
        steps = _window(bounds, buffer, body, analyzer)  # None: all steps are kept
        if steps is not None:
            body = _allocate_ring(buffer, steps, body, analyzer)
        else:
            body = Allocate(buffer, body)
    return body


def _allocate_ring(buffer: Buffer, steps: int, body: Stmt, analyzer: Analyzer) -> Stmt:
    """The body with a buffer whose steps go around in a ring of so many."""
    ring = replace(buffer, shape=(const(steps, buffer.shape[0].dtype), *buffer.shape[1:]))

    def at_place(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return floormod(indices[0], const(steps, indices[0].dtype)), *indices[1:]

    return Allocate(ring, moved_accesses(body, {buffer: (ring, at_place)}, analyzer))


def _window(bounds: StageBounds, buffer: Buffer, body: Stmt, analyzer: Analyzer) -> int | None:
    """Return the number of steps that suffice; None where that is all of them, or not known."""
    variables = {loop.var for loop in bounds.loops if loop.var is not None}
    loops = [node for node in walk(body) if isinstance(node, For) and node.var in variables]
    time = bounds.computation.op.axis[0]
    in_order = time_loops_in_order(bounds.computation.stage, time)
    # threads share steps at different times, and a pointer says nothing of its reads
    if not loops or not in_order or buffer.strides or any(_forbids(node, buffer) for node in walk(body)):
        return None
    steps, now, last = loops[-1], bounds.values[time], buffer.shape[0] - 1
    # outside the loop over steps, accesses are to the first or the last ones
    inside, others = accesses_of(steps.body), accesses_of(rewrite(body, lambda node: seq() if node is steps else None))
    needs: list[int | None] = []
    for span in _spans(inside, inside.loaded.get(buffer, ()), analyzer):
        needs.append(_difference(now, span and span.low, analyzer))
    for span in _spans(inside, inside.stored.get(buffer, ()), analyzer):
        # a step must be stored by its own iteration
        is_own = _difference(now, span and span.low, analyzer) == 0 == _difference(span and span.high, now, analyzer)
        needs.append(0 if is_own else None)
    for span in _spans(others, others.loaded.get(buffer, ()), analyzer):
        needs.append(_difference(last, span and span.low, analyzer))
    for span in _spans(others, others.stored.get(buffer, ()), analyzer):
        needs.append(_difference(span and span.high, const(0, last.dtype), analyzer))
    known = [need for need in needs if need is not None]
    kept = max(known, default=0) + 1
    whole = integer_value(buffer.shape[0])  # a ring as long as the state saves nothing
    return kept if len(known) == len(needs) and (whole is None or kept < whole) else None


def _spans(accesses: Accesses, indices: Iterable[Sequence[Expr]], analyzer: Analyzer) -> list[Span | None]:
    """The steps that accesses touch while the loops within run; None where that is not known."""
    spans: list[Span | None] = []
    for step, *_ in indices:
        span: Span | None = Span.point(step)
        for var, values in reversed(accesses.bound.items()):
            # ranges of inner loops are put in from the inside out
            if span is not None and any(node is var for end in (span.low, span.high) for node in walk(end)):
                evaluate = SpanEvaluator(
                    {var: None if values is None else Span.of(values.begin, values.extent)}, analyzer
                )
                low, high = evaluate(span.low), evaluate(span.high)
                span = None if low is None or high is None else Span(low.low, high.high, None)
        spans.append(span)
    return spans


def _difference(a: Expr | None, b: Expr | None, analyzer: Analyzer) -> int | None:
    """A constant that a - b never exceeds; None where none is known."""
    if a is None or b is None:
        return None
    return difference_bound(cast(a, "int64"), cast(b, "int64"), analyzer)


def _forbids(node: Node, buffer: Buffer) -> bool:
    """Return whether a node needs the memory of a buffer as it is: a pointer, something said of it, threads."""
    pointed = pointed_buffer(node)
    return (
        pointed is not None
        and pointed[0] is buffer
        or isinstance(node, Attr)
        and node.subject is buffer
        or isinstance(node, For)
        and node.kind is LoopKind.THREAD
    )
