"""What double_buffer and rolling_buffer share: storage that outlives an iteration of the loop that a stage is computed at."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import user_source
from ...ir.arith.analyzer import Analyzer
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Expr, Node
from ...ir.stmt import BufferStore, Stmt
from ...ir.visit import rewrite
from ..errors import BadOverlap
from ..lowering.errors import StorageNotShared
from ..model.axes import outline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..model.attributes import Overlap
    from ..model.stage import Stage

__all__ = ["moved_accesses", "not_at_a_loop", "set_overlap"]

_PRIMITIVES = {"double": "double_buffer", "rolling": "rolling_buffer"}


def set_overlap(stage: Stage, kind: Overlap) -> None:
    """See Stage.double_buffer and Stage.rolling_buffer."""
    reason = fix = ""
    if stage.op.is_given:
        reason, fix = (f"{stage.name} is {stage.op.noun}, and its memory is given",
                       f's.cache_read({stage.name}, "local", readers) gives a copy to do it with')
    elif stage.is_output:
        reason, fix = (f"{stage.name} is an output: the caller passes its memory",
                       f's.cache_write({stage.name}, "local") gives a stage to do it with')
    elif stage.attach_type in ("inline", "inlined"):
        reason, fix = f"{stage.name} is inlined, so it has no storage", f"s[{stage.name}].compute_at(s[consumer], axis)"
    elif stage.overlap not in ("", kind):
        reason, fix = (f"{_PRIMITIVES[stage.overlap]} was called on it: its storage is reused in that way already",
                       "keep one of the two")
    elif kind == "rolling" and not stage.op.values:
        reason, fix = f"{stage.name} is no expression element by element", f's.cache_read({stage.name}, "local", readers)'
    if reason:
        raise BadOverlap(f"cannot give stage {stage.name} a {_PRIMITIVES[kind].replace('_', ' ')}", reason=reason,
                         declared=stage.op.source, called=user_source(), loops=outline(stage), fix=fix)
    stage.schedule.record(_PRIMITIVES[kind], stage)
    stage.overlap = kind


def not_at_a_loop(stage: Stage, is_argument: bool) -> StorageNotShared:
    """The error for a stage whose storage no iterations share."""
    name = _PRIMITIVES[stage.overlap]
    return StorageNotShared(
        f"cannot lower: stage {stage.name} is to have a {name.replace('_', ' ')}", declared=stage.op.source, called=user_source(),
        reason="it is among the arguments, so all of it is kept" if is_argument else
        "it is computed at root, once, so there are no iterations to share its storage",
        fix="do not pass it" if is_argument else f"s[{stage.name}].compute_at(s[consumer], a serial loop)")


def moved_accesses(
    body: Stmt, places: Mapping[Buffer, tuple[Buffer, Callable[[tuple[Expr, ...]], tuple[Expr, ...]]]], analyzer: Analyzer,
) -> Stmt:
    """`body` with accesses of buffers moved to others, at the indices that are said there. Expressions that contain one
    are simplified."""

    def rule(node: Node) -> Node | None:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in places:
            buffer, at = places[node.buffer]
            return replace(node, buffer=buffer, indices=tuple(analyzer.simplify(index) for index in at(node.indices)))
        return None

    return rewrite(body, rule)

