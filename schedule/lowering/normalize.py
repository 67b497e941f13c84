"""normalize: the schedule as lowering takes it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..model.relations import Rebase
from ..primitives.inline import inject_inline

if TYPE_CHECKING:
    from ..model.schedule import Schedule
    from ..model.stage import Stage

__all__ = ["normalize"]


def normalize(schedule: Schedule) -> Schedule:
    """See Schedule.normalize."""
    made = schedule.copy()
    inject_inline(made)
    for stage in made.stages:
        if stage.attach_type != "inlined":
            _count_from_zero(stage)
    return made


def _count_from_zero(stage: Stage) -> None:
    """Root axes that are loops may begin anywhere (an attached stage computes a region): their loops count from 0, save
    those on threads, which do so anyway."""
    for root in stage.root_iter_vars:
        for place, axis in enumerate(stage.leaf_iter_vars):
            attr = stage.iter_attrs.get(axis)
            if axis is root and (attr is None or attr.bind_thread is None):
                rebased = replace(root, dom=None)
                stage.derive(Rebase(root, rebased), place, 1, (rebased,))
                if attr is not None:
                    stage.iter_attrs[rebased] = replace(attr, storage_align=None)
