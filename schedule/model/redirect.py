"""Operations rewritten under a schedule: a stage gets a new operation, and those that read it read the new one."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING

from ...ir.expr import Expr, IterVar, Var
from ...ir.visit import substitute
from ...te.operation import Operation
from ...te.tensor import Tensor
from .axes import place_of

if TYPE_CHECKING:
    from .relations import Relation
    from .schedule import Schedule
    from .stage import Stage

__all__ = ["Redirection", "rename_axes"]


class Redirection:
    """Tensors that were replaced by others, as it goes through the stages from producers to consumers."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.tensors: dict[Tensor, Tensor] = {}

    def change(self, stage: Stage, op: Operation) -> None:
        """Give `stage` the operation `op`, of like axes; its readers are to read that one's outputs."""
        old = stage.op
        self._note(stage, op)
        pairs = zip((*old.axis, *old.reduce_axis), (*op.axis, *op.reduce_axis), strict=True)
        rename_axes(stage, {before: after for before, after in pairs if before is not after})

    def replace_whole(self, stage: Stage, op: Operation) -> None:
        """Give `stage` an operation of other axes: its loops start anew; what is noted about axes that stay is kept."""
        self._note(stage, op)
        stage.all_iter_vars = [*op.axis, *op.reduce_axis]
        stage.leaf_iter_vars = list(stage.all_iter_vars)
        stage.relations = []
        stage.iter_var_attrs = {axis: attr for axis, attr in stage.iter_var_attrs.items() if place_of(op.axis, axis) >= 0}

    def _note(self, stage: Stage, op: Operation) -> None:
        replaced = dict(zip(stage.op.outputs, op.outputs, strict=True))
        # A stage may be rewritten twice: its readers still read what it computed first.
        self.tensors = {old: replaced.get(new, new) for old, new in self.tensors.items()} | replaced
        stage.op = op
        self.schedule.stage_map[op] = stage

    def follow(self, stage: Stage) -> None:
        """Let `stage` read the replacements of what it reads."""
        if self.tensors and any(tensor in self.tensors for tensor in stage.op.input_tensors):
            self.change(stage, stage.op.replace_inputs(self.tensors))

    def follow_all(self, first: int) -> None:
        """Let every stage from place `first` on read the replacements of what it reads."""
        for stage in self.schedule.stages[first:]:
            self.follow(stage)


def rename_axes(stage: Stage, renamed: dict[IterVar, IterVar]) -> None:
    """Root axes made anew, since their domain reads something that was replaced, take the old ones' places."""
    if not renamed:
        return
    stage.all_iter_vars = [renamed.get(axis, axis) for axis in stage.all_iter_vars]
    stage.leaf_iter_vars = [renamed.get(axis, axis) for axis in stage.leaf_iter_vars]
    stage.relations = [_renamed(relation, renamed) for relation in stage.relations]
    stage.iter_var_attrs = {renamed.get(axis, axis): attr for axis, attr in stage.iter_var_attrs.items()}
    if stage.store_predicate is not None:
        values: dict[Var, Expr] = {**renamed}
        stage.store_predicate = substitute(stage.store_predicate, values)
    for other in stage.schedule.placed_at(stage):
        placed = other.own_placement
        if placed.axis is not None and placed.axis in renamed:
            other.attach(placed.type, stage, renamed[placed.axis])
    for old in renamed:
        stage.schedule.retired[old] = (
            f"{old.name} was made anew when what its extent depends on was replaced: s[{stage.name}].op has the new one"
        )


def _renamed(relation: Relation, renamed: dict[IterVar, IterVar]) -> Relation:
    """The relation with the axes that it derives from replaced; root axes are nobody's children."""
    assert is_dataclass(relation)
    changed = {field.name: renamed[axis] for field in fields(relation)
               if isinstance(axis := getattr(relation, field.name), IterVar) and axis in renamed}
    return replace(relation, **changed) if changed else relation
