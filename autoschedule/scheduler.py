"""topi.schedule: a schedule for any composition of operators."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from ..codegen.machine import machine_of
from ..codegen.target import Target
from ..schedule import Schedule, create_schedule
from ..te import Tensor
from ..te.operation import ComputeOp, Operation
from ..te.scan import ScanOp
from .groups import Group, Piece, cut, steps_of

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["schedule", "tuned_schedule"]


def schedule(
    outputs: Operation | Tensor | Sequence[Operation | Tensor], target: str | Target = "llvm",
    tuned: str | PathLike[str] | Database | None = None,
) -> Schedule:
    """The best schedule that we know for `outputs` and what they are computed from.

    outputs: a tensor or several (or their operations); tensors that are to be stored as well as read are among them.
    target: as tw.build takes it. tuned: a database of autotune's, whose result for these tensors is taken where it has one.
    What comes back is an ordinary schedule: `print(s)`, `s.as_python()`, and further primitives on what was left alone.
    For "interpret", which is slow and exact, operations stay as they were declared.
    Raises NothingToSchedule, a CodegenError for an unknown target, and RecordError for a database that cannot be read.
    """
    chosen = Target.parse(target)
    s = create_schedule(outputs)
    if tuned is not None:
        given = [outputs] if isinstance(outputs, (Operation, Tensor)) else list(outputs)
        inputs = [stage.op.output(0) for stage in s.stages if stage.op.is_passed]
        args = [*inputs, *(each if isinstance(each, Tensor) else each.output(0) for each in given)]
        best = tuned_schedule(args, chosen, tuned)
        if best is not None:
            return best
    if chosen.backend.rules:
        _schedule(s, chosen)
    return s


def tuned_schedule(args: Sequence[Tensor], target: Target, database: str | PathLike[str] | Database) -> Schedule | None:
    """The best schedule that a database has for the function of `args`, inputs then outputs; None where it has no result for it.
    Raises RecordError for a database that cannot be read."""
    from ..autotune.records import find_schedule  # what schedules by rules need not load what measures

    return find_schedule(args, target, database)


def _schedule(s: Schedule, target: Target) -> None:
    """Cuts a schedule that nobody has touched, and applies to each piece its rule."""
    if target.backend.rules == "gpu":
        from .gpu.rules import RULES, rule_for, share_scan

        order = [stage.op for stage in s.stages]
        for op in order:
            if isinstance(op, ScanOp):
                share_scan(s, op, tuple(steps_of(op, order)))
    else:
        from .cpu.rules import RULES, rule_for
    tags: Collection[str] = RULES
    machine = machine_of(target)
    for piece in cut(s, tags):
        group = _begin(s, piece, target)
        anchor = piece.anchor
        assert isinstance(anchor, ComputeOp)
        rule_for(piece.tag, anchor)(group)
        for head in piece.heads:
            if s[head].attach_type == "root" and not s[head].is_scheduled() and isinstance(head, ComputeOp):
                rule_for("", head)(Group(s, head, head, (), target, machine))


def _begin(s: Schedule, piece: Piece, target: Target) -> Group:
    """The group of a piece: what lies within its tail is inlined."""
    for op in (*piece.inlined, *piece.between):
        s[op].compute_inline()
    return Group(s, piece.anchor, piece.output, piece.heads, target, machine_of(target), piece.parts)
