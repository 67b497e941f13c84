"""Text of a schedule, for `print(s)`: the loops as they stand now.

The schedule is lowered with everything that it reads and computes as arguments. Where it does not hold together yet, the
loops of each stage are shown as far as they are known, then what is still open.
"""

from __future__ import annotations

from dataclasses import replace

from ...base.errors import LoweringError
from ...ir.expr import Var
from ...ir.passes.common.target_facts import resolve_facts
from ...te.tensor import Tensor
from ..model.checks import outline
from ..model.schedule import Schedule
from ..model.stage import Stage
from .dataflow import scan_states
from .lower import lower

__all__ = ["all_arguments", "schedule_text"]


def all_arguments(schedule: Schedule) -> list[Tensor | Var]:
    """Scalars that no shape tells, then what the schedule reads from outside, then its outputs."""
    states = scan_states(schedule)
    inputs = [
        tensor for stage in schedule.stages if stage.op.is_passed for tensor in stage.op.outputs if tensor not in states
    ]
    outputs = [tensor for stage in schedule.stages if stage.is_output for tensor in stage.op.outputs]
    # symbols of shapes need no argument of their own
    told = {extent for tensor in (*inputs, *outputs) for extent in tensor.shape if isinstance(extent, Var)}
    scalars = [symbol for symbol in schedule.symbols if symbol not in told]
    return list(dict.fromkeys([*scalars, *inputs, *outputs]))  # an output may be an input that nothing computes


def schedule_text(schedule: Schedule) -> str:
    """The program that the schedule stands for now, or its stages and what is open."""
    name = "_".join(stage.name for stage in schedule.stages if stage.is_output)
    try:
        function = lower(schedule, all_arguments(schedule), name)
    except LoweringError as problem:  # an unfinished schedule is shown as far as it goes
        return _show_unfinished(schedule, problem)
    shown = resolve_facts(function, {"interpreter": False}.get)  # what it computes, as loops, is the interpreter's
    return str(replace(shown, attrs={}))


def _show_unfinished(schedule: Schedule, problem: LoweringError) -> str:
    parts = [_stage_text(stage) for stage in schedule.stages if not stage.op.is_given]
    parts.append(f"open: {problem.headline}" + (f", because {problem.reason}" if problem.reason else ""))
    if problem.fix:
        parts.append(f"  fix: {problem.fix}")
    return "\n".join(parts)


def _stage_text(stage: Stage) -> str:
    where = ", inlined" if stage.attach_type in ("inline", "inlined") else ""
    if stage.attach_stage is not None and stage.attach_axis is not None:
        where = f", computed {stage.attach_type} {stage.attach_axis.name} of {stage.attach_stage.name}"
    loops = outline(stage) if stage.attach_type not in ("inline", "inlined") else ""
    lines = [f"stage {stage.name}{where}" + (":" if loops else "")]
    return "\n".join(lines + ["  " + line for line in loops.splitlines()])
