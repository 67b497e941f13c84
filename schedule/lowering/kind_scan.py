"""te.scan as a kind of operation: a loop over time, around the stages that compute a step.

    for t in 1..T:
        (what is computed from the states and the inputs, step by step)
        state[t] = update

Initial values, updates and the scan's outputs are one memory, which the state placeholders read. The initial stages stand
before the loop (inside the threads of env_threads), the stages of a step in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...ir.expr import IterVar
from ...ir.stmt import Stmt
from ...ir.visit import seq
from ...te.operation import Operation
from ...te.scan import ScanOp
from ...te.shape import zero_based
from ...te.tensor import Tensor
from .kind import OperationKind

if TYPE_CHECKING:
    from .dataflow import Computation
    from .nest import Nest

__all__ = ["SCAN"]


def _collect_reads(computation: Computation) -> None:
    """A step of every update, the initial steps of every state."""
    op = computation.op
    assert isinstance(op, ScanOp)
    for init, update, dims in zip(op.init, op.update, op.dims, strict=True):
        first = zero_based(init.shape[0])
        steps = IterVar(f"{init.name}.steps", first.begin.dtype, first)
        computation.free[steps] = first
        computation.reads.setdefault(init, []).append((steps, *dims[1:]))
        computation.reads.setdefault(update, []).append((op.scan_axis, *dims[1:]))


def _shared(op: Operation) -> Iterable[tuple[Tensor, Tensor]]:
    """(tensor, the output whose memory it is)."""
    assert isinstance(op, ScanOp)
    for at, output in enumerate(op.outputs):
        for tensor in (op.init[at], op.update[at], op.states[at]):
            yield tensor, output


def _nest(nest: Nest) -> Stmt:
    loops = nest.found.loops
    step = nest.wrap(len(loops), seq())
    body = nest.loops(loops, nest.guarded(step, nest.found.offsets), attach=True)
    return nest.wrap(-1, body)


SCAN = OperationKind("a scan: its steps are computed by stages of their own", is_computed=True, collect_reads=_collect_reads,
                     nest=_nest, whole=True, shared=_shared)
