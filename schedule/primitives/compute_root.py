"""compute_root: a stage is computed before all that read it."""

from __future__ import annotations

from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .trials import once

__all__ = ["compute_root"]


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: not stage.is_output)
    return None if stage is None else (f"root {stage.name}", stage.compute_root)


@primitive(
    StagePrimitives, "placement", tries=once(lambda stage: stage.compute_root()), draw=_draw, weight=1, foreign={}
)
def compute_root(stage: Stage) -> None:
    """Compute all of it before the stages that read it: where every stage is to begin with.

        for i in 64:                       for i in 64:
            B: float32[1]                      B[i] = A[i] + 1
            B[0] = A[i] + 1        →       for i in 64:
            C[i] = B[0] * 2                    C[i] = B[i] * 2

    Of a member of a group, that is the root of the group.
    """
    stage.schedule.record("compute_root", stage)
    stage.attach("root")
