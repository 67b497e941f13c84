"""The loops of scans: env_threads, and what may not be done to time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import user_source
from ...ir.expr import IntImm, IterVar
from ..errors import BadEnvThreads, ScanLoopsStay
from ..model.attributes import IterAttr
from ..model.axes import outline

if TYPE_CHECKING:
    from ..model.stage import Stage

__all__ = ["env_threads", "refuse_ordered"]


def env_threads(stage: Stage, threads: Any) -> None:
    """See Stage.env_threads."""
    given = list(threads) if isinstance(threads, (list, tuple)) else [threads]
    wanted = 's[scan].env_threads([te.thread_axis((0, 256), "threadIdx.x")])'

    def bad(reason: str, fix: str = wanted) -> BadEnvThreads:
        return BadEnvThreads(f"cannot put threads around stage {stage.name}", reason=reason[:300], declared=stage.op.source,
                             called=user_source(), loops=outline(stage), fix=fix)

    if not stage.op.is_stepwise:
        raise bad(f"{stage.name} is no scan", "bind its loops: s[...].bind(axis, thread)")
    if any(axis.kind == "thread" for axis in stage.leaf_iter_vars):
        raise bad("it has its threads already", "name all threads in one call")
    for at, thread in enumerate(given):
        if not isinstance(thread, IterVar) or thread.kind != "thread":
            raise bad(f"{thread!r} is no thread axis")
        if thread.dom is None or not isinstance(thread.dom.extent, IntImm):
            raise bad(f"{thread.thread_tag} has no extent: no loop of {stage.name} gives it one")
        if any(thread.thread_tag == other.thread_tag for other in given[:at]):
            raise bad(f"{thread.thread_tag} is given twice")
    stage.schedule.record("env_threads", stage, threads=tuple(given))
    stage.all_iter_vars += given
    stage.leaf_iter_vars[:0] = given
    for thread in given:
        stage.iter_attrs[thread] = IterAttr(kind="thread", bind_thread=thread)


def refuse_ordered(stage: Stage, axes: Sequence[IterVar], doing: str) -> None:
    """Raise ScanLoopsStay where one of `axes` is a scan's time, or a thread around it."""
    found = next((axis for axis in axes if axis.kind == "ordered" or (axis.kind == "thread" and stage.op.is_stepwise)),
                 None)
    if found is not None:
        why = "each step is computed from earlier ones" if found.kind == "ordered" else "it stands around all steps"
        raise ScanLoopsStay(
            f"{doing} '{found.name}' of stage {stage.name}", reason=f"{found.name} is a loop of a scan: {why}",
            declared=stage.op.source, called=user_source(), loops=outline(stage, [found]),
            fix="schedule the loops of the updates: s[update].op.axis[1:]")
