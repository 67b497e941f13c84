"""set_scope, storage_align, set_store_predicate: where results are stored, how, and under what condition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import user_source
from ...ir.buffer import SCOPES
from ...ir.expr import Expr, IterVar
from ...ir.ops import const
from ...ir.visit import free_vars
from ..errors import BadStorageAlign, BadStorePredicate, UnknownScope
from ..model.axes import find_axis, outline, place_of
from ..model.hybrid_loops import refuse_hybrid

if TYPE_CHECKING:
    from ..model.stage import Stage

__all__ = ["check_scope", "set_scope", "set_store_predicate", "storage_align"]


def check_scope(scope: object, doing: str) -> str:
    """`scope`, if it is one ("" means the default of its place). Raises UnknownScope."""
    if not isinstance(scope, str) or scope not in ("", *SCOPES):
        raise UnknownScope(doing, reason=f"{scope!r} is no storage scope"[:200], called=user_source(),
                           allowed=", ".join(f'"{one}"' for one in SCOPES) + ', or "" for the default of its place',
                           fix='"local" for what one thread uses, "shared" for a block of threads, "global" for all')
    return scope


def set_scope(stage: Stage, scope: str) -> None:
    """See Stage.set_scope."""
    headline = f"cannot set the scope of stage {stage.name} to {scope!r}"
    check_scope(scope, headline)
    if scope not in ("", "global") and (stage.is_output or stage.op.is_given):
        is_output = stage.is_output
        what = "an output: the caller passes its memory" if is_output else stage.op.noun
        fix = (
            f's.cache_write({stage.name}, "{scope}")'
            if is_output
            else f's.cache_read({stage.name}, "{scope}", readers)'
        )
        raise UnknownScope(headline, reason=f"{stage.name} is {what}, which is global",
                           declared=stage.op.source, called=user_source(), fix=f"{fix} gives a copy there")
    stage.schedule.record("set_scope", stage, scope=scope)
    stage.scope = scope


def storage_align(stage: Stage, axis: IterVar, factor: int, offset: int) -> None:
    """See Stage.storage_align."""
    find_axis(stage, axis, "cannot align the stride of")
    headline = f"cannot align the stride of '{axis.name}' of stage {stage.name}"
    refuse_hybrid(stage, f"cannot align the stride of '{axis.name}' of", "its axes are loops, no dimensions",
                  f's.cache_read({stage.name}, "global", readers) gives a copy to align')

    def bad(reason: str, fix: str) -> BadStorageAlign:
        return BadStorageAlign(headline, reason=reason, declared=stage.op.source, called=user_source(),
                               loops=outline(stage, [axis]), fix=fix)

    dimensions = [one for dims in stage.op.dimensions for one in dims]
    if place_of(dimensions, axis) < 0:
        names = ", ".join(one.name for one in dimensions)
        raise bad(f"{axis.name} is no dimension of {stage.name}", f"use one of s[{stage.name}].op.axis: {names}")
    if stage.is_output:
        raise bad(f"{stage.name} is an output: the caller decides how its memory is laid out",
                  f's.cache_write({stage.name}, "global") gives an intermediate to align')
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
        raise bad(f"the factor is {factor!r}, no positive integer"[:200], f"storage_align({axis.name}, 32, 1)")
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise bad(f"the offset is {offset!r}, no integer"[:200], f"storage_align({axis.name}, {factor}, 0)")
    stage.schedule.record("storage_align", stage, axis=axis, factor=factor, offset=offset)
    stage.iter_attrs[axis] = replace(stage.attr(axis), storage_align=(factor, offset % factor))


def set_store_predicate(stage: Stage, predicate: Any) -> None:
    """See Stage.set_store_predicate."""
    headline = f"cannot set the store predicate of stage {stage.name}"
    refuse_hybrid(stage, "cannot set the store predicate of", "it stores in many places, each under its own condition",
                  "write the condition as an `if` in the script")
    condition = const(predicate) if isinstance(predicate, bool) else predicate
    if not isinstance(condition, Expr) or condition.dtype != "bool":
        shown = condition.dtype if isinstance(condition, Expr) else type(predicate).__name__
        raise BadStorePredicate(
            headline,
            reason=f"`{predicate}` is no condition, but {shown}"[:200],
            declared=stage.op.source, called=user_source(), loops=outline(stage),
            fix="compare: axis.equal(0), axis < 8",
        )
    if stage.op.is_stepwise:
        raise BadStorePredicate(headline, reason=f"{stage.name} is a scan: its updates store", declared=stage.op.source,
                                called=user_source(), fix="set it on the updates")
    if stage.op.is_given:
        raise BadStorePredicate(headline, reason=f"{stage.name} is {stage.op.noun}, nothing is stored",
                                declared=stage.op.source, called=user_source(), fix="guard what is computed from it")
    for var in free_vars(condition):
        if isinstance(var, IterVar) and var.kind != "thread" and place_of(stage.all_iter_vars, var) < 0:
            raise BadStorePredicate(headline, reason=f"`{condition}` uses {var.name}, which is no axis of {stage.name}",
                                    declared=stage.op.source, called=user_source(), loops=outline(stage),
                                    fix=f"use axes of {stage.name}, or the thread axes that its loops run on")
    stage.schedule.record("set_store_predicate", stage, predicate=condition)
    stage.store_predicate = condition
