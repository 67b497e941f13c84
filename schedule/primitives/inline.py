"""compute_inline: the value of a stage in its consumers' expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import user_source
from ...ir.expr import Expr, IterVar
from ...te.operation import ComputeOp
from ...te.rewrite import inline
from ...te.tensor import Tensor
from ...te.tensor_compute import TensorComputeOp
from ..errors import CannotInline
from ..model.redirect import Redirection

if TYPE_CHECKING:
    from ..model.schedule import Schedule
    from ..model.stage import Stage

__all__ = ["compute_inline", "inject_inline", "why_not_inline"]


def why_not_inline(stage: Stage) -> tuple[str, str] | None:
    """Why the stage cannot be inlined, and what to do instead; None where it can."""
    name, op = stage.name, stage.op
    if op.is_given:
        return f"{name} is {op.noun}, there is no expression", f"read {name} as it is"
    if not isinstance(op, ComputeOp):
        return f"{name} is no expression element by element", "compute it at root"
    if stage.is_output:
        return f"{name} is an output of the schedule: it has to be stored", "inline what it reads instead"
    if isinstance(op, TensorComputeOp):
        return (f"{name} is computed by the tensor intrinsic {op.intrinsic.name}, whole parts at once",
                f"s[{name}].compute_at(s[consumer], axis) keeps it close to where it is read")
    if op.reduction is not None:
        axes = ", ".join(axis.name for axis in op.reduce_axis)
        return (f"{name} is a reduction over {axes}: its value takes a loop, no expression holds it",
                f"s[{name}].compute_at(s[consumer], axis) keeps it close to where it is read")
    if op.num_outputs > 1:
        return (f"{name} has {op.num_outputs} outputs, and only a stage with one is inlined",
                f"s[{name}].compute_at(s[consumer], axis), or declare its outputs as tensors of their own")
    reader = next((one for one in stage.schedule.stages if op.output(0) in one.op.input_tensors
                   and not one.op.takes_definitions), None)
    if reader is not None:
        return (f"{reader.name}, which reads it, is {reader.op.noun}: it reads memory, no expression",
                f"s[{name}].compute_at(s[{reader.name}], axis), or leave it at root")
    caller = next((one for one in stage.schedule.stages
                   if any(one_operand is op.output(0) for one_operand in one.op.operands)), None)
    if caller is not None:
        return (f"{caller.name} calls a tensor intrinsic on {name}, which reads memory",
                f"s[{name}].compute_at(s[{caller.name}], axis) keeps it close to where it is read")
    attached = next(
        (one for one in stage.schedule.stages if one.attach_type == "at" and one.attach_stage is stage), None
    )
    if attached is not None:
        return (f"stage {attached.name} is computed at a loop of {name}, which would vanish",
                f"s[{attached.name}].compute_root() first, or compute it at a stage that reads {name}")
    return None


def compute_inline(stage: Stage) -> None:
    """See Stage.compute_inline."""
    why_not = why_not_inline(stage)
    if why_not is not None:
        raise CannotInline(f"cannot inline stage {stage.name}", reason=why_not[0], declared=stage.op.source,
                           called=user_source(), fix=why_not[1])
    stage.schedule.record("compute_inline", stage)
    stage.attach("inline")


def inject_inline(schedule: Schedule) -> None:
    """Put the expressions of inlined stages in place of the reads of them. The schedule is changed: it is a copy."""
    for at in reversed(range(len(schedule.stages))):
        stage = schedule.stages[at]
        if stage.attach_type != "inline":
            continue
        op = stage.op
        assert isinstance(op, ComputeOp)
        stage.attach("inlined")
        tensor, axes, value = op.output(0), op.axis, op.body[0]
        redirection = Redirection(schedule)

        def rule(expr: Expr, tensor: Tensor = tensor, axes: tuple[IterVar, ...] = axes, value: Expr = value) -> Expr:
            return inline(expr, tensor, axes, value)

        for consumer in schedule.stages[at + 1 :]:
            redirection.follow(consumer)
            if consumer.op.takes_definitions and any(one is tensor for one in consumer.op.input_tensors):
                redirection.change(consumer, consumer.op.rewritten(rule))
