"""rolling_buffer: what the last iteration computed is used again, and only the rest computed."""

from __future__ import annotations

from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .overlap import set_overlap
from .trials import once

__all__ = ["rolling_buffer"]


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.attached_stage()
    return None if stage is None else (f"rolling_buffer of {stage.name}", stage.rolling_buffer)


@primitive(StagePrimitives, "storage", tries=once(lambda stage: stage.rolling_buffer()), draw=_draw, weight=1, rare=True,
           foreign={})
def rolling_buffer(stage: Stage) -> None:
    """Use again what the last iteration of the loop that it is computed at computed, and compute the rest.

        for y in 6:                           B: float32[3, 8]
            B: float32[3, 8]                  for y in 6:
            for r in 3:                           for r in 3:
                for x in 8:             →             for x in 8:
                    B[r, x] = A[y + r, x]                 if y == 0 or r >= 2: B[(y + r) % 3, x] = A[y + r, x]
            ... B[r, x] ...                       ... B[(y + r) % 3, x] ...

    What is read must move by constant steps that are smaller than its extent, which is decided when the schedule is lowered.

    Raises BadOverlap (TW0252).
    """
    set_overlap(stage, "rolling")
