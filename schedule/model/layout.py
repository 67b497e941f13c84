"""Shared parts of cache_write and rfactor: a stage's loops as new axes, and guards where relations reach beyond their parents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...base.errors import user_source
from ...ir import Expr, IntImm, IterVar, Range, Reduce, free_vars
from ...ir.accesses import reads_memory
from ...ir.ops import FALSE, conjunction, const, if_then_else, is_const, likely
from ...te.tensor import Tensor
from .checks import derived_roots, find_place, outline, require_list
from .relations import Relation, Split

if TYPE_CHECKING:
    from ...base.errors import ScheduleError
    from .schedule import Schedule
    from .stage import Stage

__all__ = [
    "add_root_axis",
    "check_outputs",
    "first_then",
    "guard_value",
    "move_attachments",
    "range_conditions",
    "refuse_dangling_predicate",
    "refuse_tied_reduction",
    "retire",
]


def add_root_axis(axis: IterVar, within: Range, name: str, kind: str) -> IterVar:
    """A new root axis that runs where a loop ran."""
    return IterVar(name, axis.dtype, within, "reduce" if kind == "reduce" else "data")


def range_conditions(
    relations: Iterable[Relation],
    ranges: Mapping[IterVar, Range],
    values: Mapping[IterVar, Expr],
) -> list[Expr]:
    """Conditions that axes lie in their ranges, for each relation whose children may reach beyond its parents."""
    conditions = list[Expr]()
    for relation in relations:
        # relations whose children have no values are outside of what is guarded
        if not all(child in values for child in relation.children):
            continue
        if relation.overshoots:
            for parent in relation.parents:
                begin, extent = ranges[parent].begin, ranges[parent].extent
                # both ends: such a relation may begin before its parent, too
                conditions += [values[parent] >= begin, values[parent] < begin + extent]
        elif isinstance(relation, Split):
            parent = ranges[relation.parent]
            parts = ranges[relation.outer].extent, ranges[relation.inner].extent
            if all(isinstance(factor, IntImm) for factor in (*parts, parent.extent)):
                outer, inner, whole = (int(factor) for factor in (*parts, parent.extent))
                if outer * inner == whole:  # an exact split has no rest
                    continue
            end = parent.extent if is_const(parent.begin, 0) else parent.begin + parent.extent
            conditions.append(values[relation.parent] < end)
    return conditions


def guard_value(value: Expr, conditions: Sequence[Expr]) -> Expr:
    """`value` where all conditions hold; elsewhere a reduction takes nothing up, begins at 0 where its begin is read from
    tensors, and another value is 0."""
    if not conditions:
        return value
    condition = likely(conjunction(*conditions))  # likely: the guard fails in the last iterations alone
    if isinstance(value, Reduce):
        # an init that reads would read outside as well
        begin = tuple(_where(condition, first) if reads_memory(first) else first for first in value.init)
        return replace(value, condition=first_then(condition, value.condition), init=begin)
    return _where(condition, value)


def _where(condition: Expr, value: Expr) -> Expr:
    return if_then_else(condition, value, const(0, value.dtype))


def first_then(guard: Expr, condition: Expr) -> Expr:
    """Both conditions. What the second reads is read only where the first holds: a conjunction may evaluate both."""
    if is_const(condition, 1):
        return guard
    if reads_memory(condition):  # the second condition reads what the first one makes safe
        return if_then_else(guard, condition, FALSE)
    return conjunction(guard, condition)


def check_outputs(
    schedule: Schedule,
    given: Tensor | Sequence[Tensor],
    error: type[ScheduleError],
    doing: str,
) -> tuple[Stage, list[Tensor]]:
    """The stage of the given tensors, which are outputs of one operation, and its outputs as they stand in `given`."""
    listed = require_list(given)
    tensors = [item for item in listed if isinstance(item, Tensor)]
    if not tensors or len(tensors) < len(listed):
        raise error(
            f"{doing} {given!r}"[:200],
            reason="expected a tensor, or a list of the outputs of one operation",
            called=user_source(),
            fix="pass what te.compute returned",
        )
    stages = [schedule[tensor] for tensor in tensors]
    names = ", ".join(tensor.name for tensor in tensors)
    other = next((stage for stage in stages if stage is not stages[0]), None)  # outputs of one operation have one stage
    if other is not None:
        raise error(
            f"{doing} {names}",
            reason=f"{stages[0].name} and {other.name} are two operations",
            called=user_source(),
            fix="call it for each operation by itself",
        )
    return stages[0], tensors


def refuse_dangling_predicate(stage: Stage, kept: Iterable[IterVar], error: type[ScheduleError], doing: str) -> None:
    """Raise `error` where the store predicate, or the diagonal that the stage is mirrored at, speaks of axes that are about to
    vanish."""
    keeps = set(kept)
    spoken = [
        (
            "store predicate",
            free_vars(stage.store_predicate) if stage.store_predicate is not None else [],
            "set the store predicate",
        ),
        ("diagonal", stage.mirrored or (), "mirror it"),
    ]
    for what, variables, fix in spoken:
        for var in variables:
            # thread axes are not declared by the stage
            if isinstance(var, IterVar) and var.kind != "thread" and var not in keeps:
                raise error(
                    f"{doing} {stage.name}",
                    reason=f"its {what} speaks of {var.name}, an axis that would vanish",
                    declared=stage.op.source,
                    called=user_source(),
                    loops=outline(stage),
                    fix=f"{fix} afterwards",
                )


def refuse_tied_reduction(stage: Stage, error: type[ScheduleError], doing: str, then: str) -> None:
    """Raise `error` where the loops over reduce axes take part in values of other loops, which are about to be made anew. `then`
    is the fix."""
    for relation in stage.relations:
        tied = next(
            (axis for axis in relation.parents if any(root.kind == "reduce" for root in derived_roots(stage, axis))),
            None,
        )
        if relation.uses and tied is not None:  # loops that others are aligned by would point at loops that are gone
            raise error(
                f"{doing} {stage.name}",
                declared=stage.op.source,
                called=user_source(),
                loops=outline(stage, relation.uses),
                reason=f"{relation.sentence(tied)} by {', '.join(axis.name for axis in relation.uses)}, a loop that is made anew",
                fix=then,
            )


def retire(schedule: Schedule, axes: Iterable[IterVar], sentence: str) -> None:
    """Remember what to say of axes that are gone: `sentence` after their names."""
    source = user_source()
    at = f" at {source}" if source is not None else ""
    for axis in axes:
        schedule.retired.append((axis, f"{axis.name} {sentence.format(at=at)}"))


def move_attachments(stage: Stage, kept: Sequence[IterVar], to: Stage, moved: Mapping[IterVar, IterVar]) -> None:
    """Stages and groups attached at loops of `stage` that are about to vanish go to the loops of `to` that stand for them."""
    for other in stage.schedule.find_placed(stage):
        placed = other.own_placement
        at = placed.loop
        if at is not None and find_place(kept, at) < 0:  # those that stay keep what is attached to them
            other.attach(placed.type, to, moved[at])
