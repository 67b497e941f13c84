"""reorder: the listed loops change places among themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import user_source
from ...ir.expr import IterVar
from ..errors import BadReorder
from ..model.axes import find_leaf, outline, refuse_swapped
from ..model.hybrid_loops import check_reordered
from .env_threads import refuse_ordered

if TYPE_CHECKING:
    from ..model.stage import Stage

__all__ = ["reorder"]


def reorder(stage: Stage, axes: tuple[IterVar, ...]) -> None:
    """See Stage.reorder."""
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
    refuse_ordered(stage, axes, "cannot reorder")
    leaves = list(stage.leaf_iter_vars)
    for place, axis in zip(sorted(places), axes, strict=True):
        leaves[place] = axis
    refuse_swapped(stage, leaves, "cannot reorder")
    check_reordered(stage, leaves, axes)
    stage.schedule.record("reorder", stage, axes=axes)
    stage.leaf_iter_vars = leaves
