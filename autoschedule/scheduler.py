"""Schedules by rules, for any composition of operators."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..codegen.machine import machine_of
from ..codegen.target import Target
from ..schedule import Schedule, create_schedule
from ..te import Tensor
from ..te.operation import Operation
from .cpu.rules import rule_in_order
from .groups import APART, Group, Piece, cut

__all__ = ["schedule"]


def schedule(
    outputs: Operation | Tensor | Sequence[Operation | Tensor], target: str | Target = "llvm", *, exact: bool = False,
) -> Schedule:
    """The schedule that the rules choose for `outputs` and what they are computed from (see driver.schedule). exact: sums keep
    their declared order, so that every bit is that of the program without a schedule.

    Raises NothingToSchedule (TW02), and a CodegenError (TW04) for an unknown target.
    """
    chosen = Target.parse(target)
    s = create_schedule(outputs)
    return _scheduled(s, chosen, exact) if chosen.backend.rules else s


def _scheduled(s: Schedule, target: Target, exact: bool) -> Schedule:
    """Cuts a schedule that nobody has touched, and applies to each piece its rule; where sums are to keep their order and the rule
    does not, another that does."""
    fusion = APART
    machine = machine_of(target)
    if target.backend.rules == "gpu":
        from .gpu.rules import RULES, rule_for, share_scan

        order = [stage.op for stage in s.stages]
        for op in order:
            if op.is_stepwise:
                share_scan(s, op, op.steps(order))
    else:
        from .cpu.rules import RULES, fusion_on, rule_for

        fusion = fusion_on(machine)
    tags: Collection[str] = RULES
    for piece in cut(s, tags, fusion):
        before = s.copy() if exact else None
        rule_for(piece.tag, piece.anchor)(_begin(s, piece, target))
        if before is not None and not s.is_exact:
            s = before
            _one_by_one(_begin(s, piece, target))
        for head in piece.heads:
            if s[head].attach_type == "root" and not s[head].is_scheduled() and head.values:
                rule_for("", head)(Group(s, head, head, (), target, machine))
    return s


def _one_by_one(group: Group) -> None:
    """Schedules the operations of a group each for itself, so that every sum takes up its terms as they were declared."""
    for op in (*group.parts, group.anchor):
        last = op is group.anchor
        own = replace(group, anchor=op, output=group.output if last else op, heads=group.heads if last else (), parts=())
        rule_in_order(op)(own)


def _begin(s: Schedule, piece: Piece, target: Target) -> Group:
    """The group of a piece: what lies within its tail is inlined."""
    for op in (*piece.inlined, *piece.between):
        s[op].compute_inline()
    return Group(s, piece.anchor, piece.output, piece.heads, target, machine_of(target), piece.parts)
