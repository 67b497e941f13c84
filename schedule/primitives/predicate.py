"""predicate: the condition of the terms of a sum as the condition under which a term is added.

    for i:  for k:                                        for i:  for k:                     # predicate(C)
      C[i] += A[i, k] * B[k] if k > i else 0       →        if k > i:  C[i] += A[i, k] * B[k]

Iterations in which nothing is added are left out of the loops, so that a sum over a triangle takes the time of a triangle.
Adding 0 to a sum that began at 0 changes no bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...base.arguments import is_a
from ...base.errors import user_source
from ...ir.analysis.conditional_values import value_or_zero
from ...ir.combine import is_sum
from ...ir.expr import And, Mul, Reduce
from ...ir.ops import is_const
from ...te.tensor import Tensor
from ..errors import BadTerms
from ..model.checks import refusal
from ..model.foreign import FLAG, TENSORS
from ..model.layout import check_outputs
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage

__all__ = ["conditional_sum", "predicate"]


def _tries(stage: Stage) -> Iterator[Try]:
    if conditional_sum(stage) is not None and not stage.is_scheduled():
        yield "", lambda one: one.schedule.predicate(one.op.output(0))


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: stage.is_untouched() and conditional_sum(stage) is not None)
    return None if stage is None else (f"predicate({stage.name})", lambda: drawer.s.predicate(stage.op.output(0)))


def conditional_sum(stage: Stage) -> Reduce | None:
    """The sum that a stage is with the condition of its terms as its own; None where its terms have none that leaves 0, or it begins with
    a value."""
    op = stage.op.as_compute
    reduction = op.reduction if op is not None and op.num_outputs == 1 and not op.calls_intrinsic else None
    if reduction is None or not is_sum(reduction) or reduction.init:
        return None
    split = value_or_zero(reduction.sources[0])
    if split is None:
        return None
    condition, value = split
    if not is_const(reduction.condition, 1):
        condition = And(reduction.condition, condition)
    return replace(reduction, sources=(value,), condition=condition, fused=())


@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=2,
    rare=True,
    foreign={"tensor": TENSORS, "fused": FLAG},
)
def predicate(schedule: Schedule, tensor: Tensor, fused: bool = False) -> None:
    """Let the condition of the terms of a sum decide what is added, in place of zeros.

        for i:  for k:                                        for i:  for k:                     # predicate(C)
          C[i] += A[i, k] * B[k] if k > i else 0       →        if k > i:  C[i] += A[i, k] * B[k]

    tensor: a te.sum of te.if_then_else(condition, value, 0), or a select, without init=, of loops that are not scheduled yet.
    Loops over what the condition bounds run over the iterations in which something is added. No bit of any result changes, unless
    products are `fused`: taken up by the sum with one rounding, as those of a te.sum without a condition are.

    Raises BadTerms (TW0266), UnknownStage (TW0201), WrongArgument (TW0222).
    """
    stage, _ = check_outputs(schedule, tensor, BadTerms, "cannot predicate")
    if not is_a(fused, bool):
        raise BadTerms(
            f"cannot predicate {stage.name}",
            reason=f"fused is {fused!r}"[:200],
            declared=stage.op.source,
            called=user_source(),
            fix=f"s.predicate({stage.name}, fused=True)",
        )
    reduction = _check(stage)
    with schedule.compound("predicate", tensor=tensor, fused=fused):
        op = stage.op.as_compute
        assert op is not None
        value = reduction.sources[0]
        if fused and isinstance(value, Mul) and value.dtype.is_float and value.dtype.bits >= 32:
            reduction = replace(reduction, fused=(True,))
            schedule.losses.append(f"products that {stage.name} adds up are rounded once with the sum")
        schedule.rewrite({stage: replace(op, tag="", algorithm="", body=(reduction,))})


def _check(stage: Stage) -> Reduce:
    reduction = conditional_sum(stage)
    reason = None
    if reduction is None:
        reason = f"{stage.name} is not a te.sum of te.if_then_else(condition, value, 0) without init="
    elif not stage.is_untouched() or stage.attach_type in ("inline", "inlined"):
        reason = "its loops are scheduled already"
    if reduction is None or reason is not None:
        fix = (
            "te.sum(te.if_then_else(k > i, A[i, k], 0.0), axis=k), before its loops are scheduled; "
            f"s.distribute({stage.name}) sums terms apart"
        )
        raise refusal(
            BadTerms, stage, f"cannot predicate {stage.name}", stage.leaf_iter_vars, reason or "it is not a sum", fix
        )
    return reduction
