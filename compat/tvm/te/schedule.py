"""tvm.te.schedule."""

from __future__ import annotations

from ....ir.arith import Analyzer
from ....ir.expr import IterVar, Range
from ....schedule import AutoInlineBroadcast, AutoInlineElemWise, AutoInlineInjective, Schedule, create_schedule
from ....schedule.bounds import infer_bounds
from ....schedule.dataflow import analyse
from ....schedule.relations import Fuse, Rebase, Singleton, Split
from ....schedule.stage import Stage

__all__ = ["AutoInlineBroadcast", "AutoInlineElemWise", "AutoInlineInjective", "Fuse", "InferBound", "Rebase", "Schedule",
           "Singleton", "Split", "Stage", "create_schedule"]


def InferBound(schedule: Schedule) -> dict[IterVar, Range]:
    """The range of every iteration variable of the schedule's stages."""
    stages = infer_bounds(analyse(schedule), Analyzer()).of.values()
    return {axis: within for stage in stages for axis, within in stage.ranges.items()}
