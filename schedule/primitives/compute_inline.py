"""compute_inline: the value of a stage in the expressions that read it."""

from __future__ import annotations

from ...base.errors import user_source
from ...te.tensor_compute import intrinsic_call
from ..errors import CannotInline
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .trials import once

__all__ = ["compute_inline", "why_not_inline"]


def _draw(drawer: Drawer) -> Attempt | None:
    def fits(stage: Stage) -> bool:
        attached = any(other.attach_stage is stage for other in drawer.s.stages)
        return not stage.is_output and stage.op.num_outputs == 1 and not stage.op.reduce_axis and not attached

    stage = drawer.some_stage(fits)
    return None if stage is None else (f"inline {stage.name}", stage.compute_inline)


@primitive(
    StagePrimitives,
    "placement",
    tries=once(lambda stage: stage.compute_inline()),
    draw=_draw,
    weight=4,
    rare=True,
    foreign={},
)
def compute_inline(stage: Stage) -> None:
    """Put its expression wherever it is read.

        for i in 64:                       for i in 64:
            B[i] = A[i] + 1        →           C[i] = (A[i] + 1) * 2
        for i in 64:
            C[i] = B[i] * 2

    The stage computes one tensor, element by element, without a reduction, and is not an output.

    Raises CannotInline (TW0210).
    """
    why_not = why_not_inline(stage)
    if why_not is not None:
        raise CannotInline(
            f"cannot inline stage {stage.name}",
            reason=why_not[0],
            declared=stage.op.source,
            called=user_source(),
            fix=why_not[1],
        )
    stage.schedule.record("compute_inline", stage)
    stage.attach("inline")


def why_not_inline(stage: Stage) -> tuple[str, str] | None:
    """Return the reason for which the stage cannot be inlined, and the fix; None where it can."""
    name, op = stage.name, stage.op
    if op.is_given:
        return f"{name} is {op.noun}, there is no expression", f"read {name} as it is"
    if not op.values:
        return f"{name} is not an expression element by element", "compute it at root"
    if stage.is_output:
        return f"{name} is an output of the schedule: it has to be stored", "inline what it reads instead"
    call = intrinsic_call(op)
    if call is not None:
        return (
            f"{name} is computed by the tensor intrinsic {call.intrinsic.name}, whole parts at once",
            f"s[{name}].compute_at(s[consumer], axis) keeps it close to where it is read",
        )
    if op.reduction is not None:
        axes = ", ".join(axis.name for axis in op.reduce_axis)
        return (
            f"{name} is a reduction over {axes}: its value takes a loop, no expression holds it",
            f"s[{name}].compute_at(s[consumer], axis) keeps it close to where it is read",
        )
    if op.num_outputs > 1:
        return (
            f"{name} has {op.num_outputs} outputs, and only a stage with one is inlined",
            f"s[{name}].compute_at(s[consumer], axis), or declare its outputs as tensors of their own",
        )
    readers = stage.schedule.sort_stages(stage.readers)
    reader = next((other for other in readers if not other.written_op.takes_definitions), None)
    if reader is not None:
        return (
            f"{reader.name}, which reads it, is {reader.op.noun}: it reads memory, no expression",
            f"s[{name}].compute_at(s[{reader.name}], axis), or leave it at root",
        )
    caller = next(
        (other for other in readers if any(stage.schedule[operand] is stage for operand in other.written_op.operands)),
        None,
    )
    if caller is not None:
        return (
            f"{caller.name} calls a tensor intrinsic on {name}, which reads memory",
            f"s[{name}].compute_at(s[{caller.name}], axis) keeps it close to where it is read",
        )
    attached = next(iter(stage.schedule.find_computed(stage)), None)
    if attached is not None:
        return (
            f"stage {attached.name} is computed at a loop of {name}, which would vanish",
            f"s[{attached.name}].compute_root() first, or compute it at a stage that reads {name}",
        )
    return None
