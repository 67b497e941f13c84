"""te.scan as a kind of operation: a loop over time, around the stages that compute a step.

    for t in 1..T:
        (what is computed from the states and the inputs, step by step)
        state[t] = update

Initial values, updates and the scan's outputs are one memory, which the state placeholders read. The initial stages stand
before the loop (inside the threads of env_threads), the stages of a step in it. Of the memory, as many steps are kept as are read
(scan_window).
"""

from __future__ import annotations

from ...ir import IterVar, Stmt
from ...ir.visit import seq
from ...te.scan import ScanOp
from ...te.shape import zero_based
from .computation import Computation
from .kind import OperationKind
from .nest import Nest
from .scan import place_body
from .scan_steps import check_steps
from .scan_window import allocated_states

__all__ = ["KIND"]


def _collect_reads(computation: Computation) -> None:
    """A step of every update, the initial steps of every state."""
    op = computation.op
    assert isinstance(op, ScanOp)
    for init, update, dims in zip(op.init, op.update, op.dims, strict=True):
        first = zero_based(init.shape[0])
        steps = IterVar(f"{init.name}.steps", first.begin.dtype, first)
        computation.free[steps] = first  # the initial steps are another dimension than time
        computation.reads.setdefault(init, []).append((steps, *dims[1:]))
        computation.reads.setdefault(update, []).append((op.scan_axis, *dims[1:]))


def _nest(nest: Nest) -> Stmt:
    loops = nest.stage_bounds.loops
    step = nest.wrap(len(loops), seq())
    body = nest.loops(loops, nest.guard(step, nest.stage_bounds.offsets), attach=True)
    return nest.wrap(-1, body)


KIND = OperationKind(
    "scan", _collect_reads, _nest, whole=True, place=place_body, check=check_steps, allocated=allocated_states
)
