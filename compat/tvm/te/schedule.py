"""tvm.te.schedule."""

from __future__ import annotations

from ....driver.lower import lower
from ....ir.arith import Analyzer
from ....ir.expr import IterVar, Range
from ....ir.stmt import Stmt
from ....schedule import AutoInlineBroadcast, AutoInlineElemWise, AutoInlineInjective, Schedule, create_schedule
from ....schedule.lowering.bounds import infer_bounds
from ....schedule.lowering.dataflow import analyse
from ....schedule.model.relations import Fuse, Rebase, Singleton, Split
from ....schedule.model.stage import Stage
from ..nodes import theirs

__all__ = ["AutoInlineBroadcast", "AutoInlineElemWise", "AutoInlineInjective", "Fuse", "InferBound", "Rebase", "Schedule",
           "ScheduleOps", "Singleton", "Split", "Stage", "create_schedule"]


def ScheduleOps(schedule: Schedule, dom_map: object = None, debug_keep_trivial_loop: bool = False) -> Stmt:
    """The loops of a schedule, before any pass. dom_map: what InferBound found, which is found again."""
    del dom_map, debug_keep_trivial_loop
    given = [stage.op for stage in schedule.stages if stage.op.is_passed]
    return theirs(lower(schedule, [tensor for op in (*given, *schedule.outputs) for tensor in op.outputs]).body)


def InferBound(schedule: Schedule) -> dict[IterVar, Range]:
    """The range of every iteration variable of the schedule's stages."""
    stages = infer_bounds(analyse(schedule), Analyzer()).of.values()
    return {axis: within for stage in stages for axis, within in stage.ranges.items()}
