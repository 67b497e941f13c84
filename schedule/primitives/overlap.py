"""Storage that outlives an iteration of its loop, for double_buffer, pipeline and rolling_buffer: the loop that a stage is computed
at."""

from __future__ import annotations

from ...base.errors import user_source
from ..errors import BadOverlap
from ..model.checks import outline
from ..model.overlap import Overlap
from ..model.stage import Stage

__all__ = ["set_overlap"]


def set_overlap(stage: Stage, overlap: Overlap, **arguments: int | str | bool) -> None:
    """Note that the storage of a stage overlaps so. arguments: of the record. Raises BadOverlap (TW0252)."""
    reason = fix = ""
    if stage.op.is_given:
        reason, fix = (
            f"{stage.name} is {stage.op.noun}, and its memory is given",
            f's.cache_read({stage.name}, "local", readers) gives a copy to do it with',
        )
    elif stage.is_output:
        reason, fix = (
            f"{stage.name} is an output: the caller passes its memory",
            f's.cache_write({stage.name}, "local") gives a stage to do it with',
        )
    elif stage.attach_type in ("inline", "inlined"):
        reason, fix = f"{stage.name} is inlined, so it has no storage", f"s[{stage.name}].compute_at(s[consumer], axis)"
    elif stage.overlap is not None and stage.overlap.primitive != overlap.primitive:
        reason, fix = (
            f"{stage.overlap.primitive} was called on it: its storage is reused in that way already",
            "keep one of the two",
        )
    elif not overlap.turns and not stage.op.values:
        reason, fix = (
            f"{stage.name} is not an expression element by element",
            f's.cache_read({stage.name}, "local", readers)',
        )
    if reason:
        raise BadOverlap(
            f"cannot give stage {stage.name} a {overlap} buffer",
            reason=reason,
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage),
            fix=fix,
        )
    stage.schedule.record(overlap.primitive, stage, **arguments)
    stage.overlap = overlap
