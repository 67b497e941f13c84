"""double_buffer: what the next iteration needs is computed before this one uses its own.

    for k in 4:                           B: float32[2, 8]
        B: float32[8]                     for i in 8: B[0, i] = A[i]
        for i in 8:                 →     for k in 4:
            B[i] = A[k * 8 + i]               if k + 1 < 4:
        ... B[i] ...                              for i in 8: B[(k + 1) % 2, i] = A[(k + 1) * 8 + i]
                                              ... B[k % 2, i] ...

The loads of an iteration and the work on what was loaded before do not wait for each other, and on a GPU one barrier
separates the two instead of two. As TVM's InjectDoubleBuffer.
"""

from __future__ import annotations

from ..lowering.software_pipelining import Ahead
from ..model.methods import StagePrimitives
from ..model.overlap import Overlap
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .overlap import set_overlap
from .trials import once

__all__ = ["double_buffer"]


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.attached_stage()
    return None if stage is None else (f"double_buffer of {stage.name}", stage.double_buffer)


@primitive(
    StagePrimitives,
    "storage",
    tries=once(lambda stage: stage.double_buffer()),
    draw=_draw,
    weight=2,
    rare=True,
    foreign={},
    lowering=Ahead,
)
def double_buffer(stage: Stage) -> None:
    """Compute what an iteration of the loop that it is computed at needs one iteration ahead.

        for k in 4:                           B: float32[2, 8]
            B: float32[8]                     for i in 8: B[0, i] = A[i]
            for i in 8:                 →     for k in 4:
                B[i] = A[k * 8 + i]               if k + 1 < 4:
            ... B[i] ...                              for i in 8: B[(k + 1) % 2, i] = A[(k + 1) * 8 + i]
                                                  ... B[k % 2, i] ...

    Its storage is twice as large: two halves take turns. Whether the loop allows that (a serial one, in which what is read
    does not change) is decided when the schedule is lowered.

    Raises BadOverlap (TW0252).
    """
    set_overlap(stage, Overlap("double_buffer", "double", turns=2))
