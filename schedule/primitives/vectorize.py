"""vectorize: the iterations of a loop run in vector lanes."""

from __future__ import annotations

from ...ir.expr import IterVar
from ..errors import VectorizeReduction
from ..model.checks import find_leaf, refuse_ordered
from ..model.foreign import AXIS
from ..model.hybrid_loops import check_independent, warn_of_waiting_lanes
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from ..model.term_order import race_error
from .trials import each_loop

__all__ = ["vectorize"]


def _draw(drawer: Drawer) -> Attempt | None:
    def short(stage: Stage) -> list[IterVar]:
        return [axis for axis in drawer.data(stage) if (drawer.extent(stage, axis) or 99) <= 65]

    stage = drawer.some_stage(short)
    if stage is None:
        return None
    axes = short(stage)
    # the last loop is what people vectorize; the others find strided accesses
    axis = axes[-1] if drawer.chance(0.7) else drawer.pick(axes)
    return f"vectorize({axis.name}) of {stage.name}", lambda: stage.vectorize(axis)


@primitive(
    StagePrimitives,
    "kinds",
    tries=each_loop(lambda stage, axis: stage.vectorize(axis)),
    draw=_draw,
    weight=7,
    foreign={"axis": AXIS},
)
def vectorize(stage: Stage, axis: IterVar) -> None:
    """Run the iterations in vector lanes. Like parallel, unroll and bind it replaces the kind given before.

        for i in 8:                  →      C[0:8] = A[0:8] + B[0:8]
            C[i] = A[i] + B[i]

    axis: a loop of the stage, over data alone, of any constant extent: one that is longer than the machine's vectors is
    cut into several, and an odd one is masked. That the extent is constant is looked at when the schedule is lowered. Lanes
    that leave a loop of a script early wait for the last of them, which is warned of.

    Raises VectorizeReduction (TW0203), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument (TW0222), ScanLoopsStay
    (TW0261), HybridLoopCarries (TW0280).
    """
    find_leaf(stage, axis, "cannot vectorize")
    refuse_ordered(stage, [axis], "cannot vectorize")
    check_independent(stage, axis, "cannot vectorize")
    # all lanes would add to one element at once
    if axis.kind == "reduce":
        raise race_error(
            VectorizeReduction, stage, axis, "cannot vectorize", "", "vector lanes", "vectorize a data axis"
        )
    warn_of_waiting_lanes(stage, axis)
    stage.schedule.record("vectorize", stage, axis=axis)
    stage.annotate(axis, kind="vectorized", bind_thread=None)
