"""unroll: the iterations of a loop are written out."""

from __future__ import annotations

from math import prod

from ...ir.expr import IterVar
from ..model.checks import find_leaf, refuse_ordered
from ..model.foreign import AXIS
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .trials import each_loop

__all__ = ["unroll"]

_MOST_COPIES = 20
"""Of the body of a drawn loop: more seldom finds more, and takes LLVM seconds."""


def _draw(drawer: Drawer) -> Attempt | None:
    def short(stage: Stage) -> list[IterVar]:
        return [axis for axis in drawer.plain(stage) if (drawer.extent(stage, axis) or 99) <= 9]

    stage = drawer.some_stage(short)
    if stage is None:
        return None
    axis = drawer.pick(short(stage))
    copies = prod(
        drawer.extent(stage, leaf) or 8 for leaf in stage.leaf_iter_vars if stage.attr(leaf).kind == "unrolled"
    )
    if copies * (drawer.extent(stage, axis) or 8) > _MOST_COPIES and not drawer.chance(0.03):
        return None
    return f"unroll({axis.name}) of {stage.name}", lambda: stage.unroll(axis)


@primitive(
    StagePrimitives,
    "kinds",
    tries=each_loop(lambda stage, axis: stage.unroll(axis)),
    draw=_draw,
    weight=4,
    foreign={"axis": AXIS},
)
def unroll(stage: Stage, axis: IterVar) -> None:
    """Write the iterations out. Like parallel, vectorize and bind it replaces the kind given before.

        for i in 3:       →      C[0] = A[0]
            C[i] = A[i]          C[1] = A[1]
                                 C[2] = A[2]

    axis: a loop of the stage. That its extent is a constant is looked at when the schedule is lowered.

    Raises AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument (TW0222), ScanLoopsStay (TW0261).
    """
    find_leaf(stage, axis, "cannot unroll")
    if axis.kind == "thread":
        refuse_ordered(stage, [axis], "cannot unroll")
    stage.schedule.record("unroll", stage, axis=axis)
    stage.annotate(axis, kind="unrolled", bind_thread=None)
