"""What a schedule looks like, for tests: exactly (by identity), or up to the names of things."""

from __future__ import annotations

from typing import Any

from tilewright.schedule import Schedule, Stage
from tilewright.tools.fuzz.schedules import exact

__all__ = ["exact", "shape_of"]


def shape_of(schedule: Schedule) -> list[Any]:
    """The same for two schedules that do the same to like operations: names, places and texts only."""
    return [_stage(schedule, stage) for stage in schedule.stages]


def _stage(schedule: Schedule, stage: Stage) -> Any:
    axes = {axis: at for at, axis in enumerate(stage.all_iter_vars)}
    relations = [
        (
            type(one).__name__,
            [axes[axis] for axis in (*one.parents, *one.children)],
            str(getattr(one, "factor", "")),
            str(getattr(one, "nparts", "")),
        )
        for one in stage.relations
    ]
    attrs = sorted(
        (
            axes[axis],
            attr.kind,
            attr.bind_thread.thread_tag if attr.bind_thread is not None else "",
            [(key, str(value)) for key, value in attr.pragmas],
            attr.storage_align,
        )
        for axis, attr in stage.iter_var_attrs.items()
    )
    at = stage.attach_axis
    place = None
    if stage.attach_stage is not None and at is not None:
        onto = stage.attach_stage
        place = schedule.find_place(onto), [one is at for one in onto.leaf_iter_vars].index(True)
    return (
        stage.name,
        [axis.name for axis in stage.all_iter_vars],
        [axes[axis] for axis in stage.leaf_iter_vars],
        relations,
        attrs,
        stage.attach_type,
        place,
        stage.scope,
        str(stage.store_predicate),
        stage.is_output,
        [str(value) for value in getattr(stage.op, "body", ())],
    )
