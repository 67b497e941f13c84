"""normalize: the schedule as lowering takes it."""

from __future__ import annotations

from dataclasses import replace

from ...ir.expr import Expr, IterVar
from ...te.rewrite import inline
from ...te.tensor import Tensor
from ..model.relations import Rebase
from ..model.schedule import Schedule
from ..model.stage import Stage

__all__ = ["normalize"]


def normalize(schedule: Schedule) -> Schedule:
    """See Schedule.normalize."""
    copy = schedule.copy()
    _inject_inline(copy)
    for stage in copy.stages:
        if stage.attach_type != "inlined":
            _count_from_zero(stage)
    return copy


def _inject_inline(schedule: Schedule) -> None:
    """Put the expressions of inlined stages in place of the reads of them. The schedule is changed: it is a copy."""
    for stage in reversed(schedule.stages):
        if stage.attach_type != "inline":
            continue
        op = stage.op
        stage.attach("inlined")
        tensor, axes, value = op.output(0), op.axis, op.values[0]

        def rule(expr: Expr, tensor: Tensor = tensor, axes: tuple[IterVar, ...] = axes, value: Expr = value) -> Expr:
            return inline(expr, tensor, axes, value)

        consumers = [consumer for consumer in schedule.sort_stages(stage.readers) if consumer.op.takes_definitions]
        schedule.rewrite({consumer: consumer.op.rewritten(rule) for consumer in consumers})


def _count_from_zero(stage: Stage) -> None:
    """Root axes that are loops may begin anywhere (an attached stage computes a region): their loops count from 0, save
    those on threads, which do so anyway."""
    for root in stage.root_iter_vars:
        for place, axis in enumerate(stage.leaf_iter_vars):
            attr = stage.iter_var_attrs.get(axis)
            if axis is root and (attr is None or attr.bind_thread is None):
                rebased = replace(root, dom=None)
                stage.derive(Rebase(root, rebased), place, 1, (rebased,))
                if attr is not None:
                    stage.iter_var_attrs[rebased] = replace(attr, storage_align=None)
