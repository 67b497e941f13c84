"""reorder: the listed loops change places among themselves."""

from __future__ import annotations

from ...base.errors import user_source
from ...ir.expr import IterVar
from ..errors import BadReorder
from ..model.checks import find_leaf, outline, refuse_ordered, refuse_swapped
from ..model.foreign import AXES
from ..model.hybrid_loops import check_reordered
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.scan_loops import check_steps_reordered
from ..model.stage import Stage
from .trials import neighbours

__all__ = ["reorder"]


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: len(stage.leaf_iter_vars) > 1)
    if stage is None:
        return None
    leaves = stage.leaf_iter_vars
    order = [leaves[at] for at in drawer.permutation(len(leaves))][: max(2, drawer.below(len(leaves) + 1))]
    return f"reorder({order}) of {stage.name}", lambda: stage.reorder(*order)


@primitive(
    StagePrimitives,
    "loops",
    tries=neighbours(lambda stage, outer, inner: stage.reorder(inner, outer)),
    draw=_draw,
    weight=7,
    foreign={"axes": AXES},
)
def reorder(stage: Stage, *axes: IterVar) -> None:
    """Permute the listed loops among the places that they hold; the others stay where they are.

        for i in 6:                  for k in 8:                          # reorder(k, i)
            for j in 4:      →           for j in 4:
                for k in 8: ...              for i in 6: ...

    axes: loops of the stage, each once, in the order that they are to have. Of a scan, loops over time change places where each
    step still follows those that it reads.

    Raises BadReorder (TW0207), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument (TW0222), ScanLoopsStay
    (TW0261), HybridLoopsApart (TW0281), HybridLoopCarries (TW0280).
    """
    places = [find_leaf(stage, axis, "cannot reorder") for axis in axes]
    for at, place in enumerate(places):
        if place in places[:at]:
            raise BadReorder(
                f"cannot reorder the loops of stage {stage.name}",
                reason=f"{axes[at].name} is listed twice",
                declared=stage.op.source,
                called=user_source(),
                loops=outline(stage, [axes[at]]),
                fix="list each loop once",
            )
    refuse_ordered(stage, [axis for axis in axes if axis.kind == "thread"], "cannot reorder")
    leaves = list(stage.leaf_iter_vars)
    for place, axis in zip(sorted(places), axes, strict=True):
        leaves[place] = axis
    refuse_swapped(stage, leaves, "cannot reorder")
    check_reordered(stage, leaves, axes)
    check_steps_reordered(stage, leaves)
    stage.schedule.record("reorder", stage, axes=axes)
    stage.schedule.keep(stage)
    stage.leaf_iter_vars = leaves
