"""set_store_predicate: under which condition results are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base.errors import user_source
from ...ir import Expr, IterVar, free_vars
from ...ir.ops import conjunction, const, likely
from ..errors import BadStorePredicate
from ..model.checks import find_place, outline
from ..model.hybrid_loops import refuse_hybrid
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage

__all__ = ["set_store_predicate"]


def _tries(stage: Stage) -> Iterator[Try]:
    for axis in stage.op.axis[:1]:
        yield f"a condition on {axis.name}", lambda one, axis=axis: one.set_store_predicate(axis >= 0)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: True)
    if stage is None:
        return None
    predicate: Any = True
    if stage.op.axis:
        axis = drawer.pick(stage.op.axis)
        assert axis.dom is not None
        end = axis.dom.begin + axis.dom.extent
        predicate = drawer.pick(
            [axis >= 0, axis < end, conjunction(axis >= 0, axis < end), likely(axis < end), ~(axis < 0)]
        )
    return f"set_store_predicate({stage.name}, {predicate})", lambda: stage.set_store_predicate(predicate)


@primitive(StagePrimitives, "storage", tries=_tries, draw=_draw, weight=2)
def set_store_predicate(stage: Stage, predicate: Any) -> None:
    """Store results only where the condition holds.

        for i in 64:                       for i in 64:                   # set_store_predicate(i < n)
            C[i] = A[i]            →           if i < n: C[i] = A[i]

    predicate: a bool, or an expression of dtype bool over axes of the stage and thread axes that its loops run on.

    Raises BadStorePredicate (TW0218), NotOfHybridStages (TW0282).
    """
    headline = f"cannot set the store predicate of stage {stage.name}"
    refuse_hybrid(
        stage,
        "cannot set the store predicate of",
        "it stores in many places, each under its own condition",
        "write the condition as an `if` in the script",
    )
    condition = const(predicate) if isinstance(predicate, bool) else predicate
    if not isinstance(condition, Expr) or condition.dtype != "bool":
        shown = condition.dtype if isinstance(condition, Expr) else type(predicate).__name__
        raise BadStorePredicate(
            headline,
            reason=f"`{predicate}` is not a condition, but {shown}"[:200],
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage),
            fix="compare: axis.equal(0), axis < 8",
        )
    if stage.op.is_stepwise:
        raise BadStorePredicate(
            headline,
            reason=f"{stage.name} is a scan: its updates store",
            declared=stage.op.source,
            called=user_source(),
            fix="set it on the updates",
        )
    if stage.op.is_given:
        raise BadStorePredicate(
            headline,
            reason=f"{stage.name} is {stage.op.noun}, nothing is stored",
            declared=stage.op.source,
            called=user_source(),
            fix="guard what is computed from it",
        )
    for var in free_vars(condition):
        if isinstance(var, IterVar) and var.kind != "thread" and find_place(stage.all_iter_vars, var) < 0:
            raise BadStorePredicate(
                headline,
                reason=f"`{condition}` uses {var.name}, which is not an axis of {stage.name}",
                declared=stage.op.source,
                called=user_source(),
                loops=outline(stage),
                fix=f"use axes of {stage.name}, or the thread axes that its loops run on",
            )
    stage.schedule.record("set_store_predicate", stage, predicate=condition)
    stage.store_predicate = condition
