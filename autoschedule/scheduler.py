"""Schedules by rules, for any composition of operators."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..codegen.machine import machine_of
from ..codegen.target import Target
from ..schedule import Schedule, create_schedule
from ..te import Tensor
from ..te.operation import Operation
from .groups import APART, Group, Piece, cut

__all__ = ["schedule"]


def schedule(outputs: Operation | Tensor | Sequence[Operation | Tensor], target: str | Target = "llvm") -> Schedule:
    """The schedule that the rules choose for `outputs` and what they are computed from (see driver.schedule).

    Raises NothingToSchedule (TW02), and a CodegenError (TW04) for an unknown target.
    """
    chosen = Target.parse(target)
    s = create_schedule(outputs)
    if chosen.backend.rules:
        _schedule(s, chosen)
    return s


def _schedule(s: Schedule, target: Target) -> None:
    """Cuts a schedule that nobody has touched, and applies to each piece its rule."""
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
        group = _begin(s, piece, target)
        anchor = piece.anchor
        rule_for(piece.tag, anchor)(group)
        for head in piece.heads:
            if s[head].attach_type == "root" and not s[head].is_scheduled() and head.values:
                rule_for("", head)(Group(s, head, head, (), target, machine))


def _begin(s: Schedule, piece: Piece, target: Target) -> Group:
    """The group of a piece: what lies within its tail is inlined."""
    for op in (*piece.inlined, *piece.between):
        s[op].compute_inline()
    return Group(s, piece.anchor, piece.output, piece.heads, target, machine_of(target), piece.parts)
