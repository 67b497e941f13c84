"""env_threads: threads around all steps of a scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...base.errors import TilewrightError, user_source
from ...ir.expr import IntImm, IterVar
from ...te.axis import thread_axis
from ..errors import BadEnvThreads
from ..model.attributes import IterAttr
from ..model.checks import outline, require_list
from ..model.foreign import THREADS
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage

__all__ = ["env_threads"]


def _tries(stage: Stage) -> Iterator[Try]:
    if stage.op.is_stepwise:
        yield "threadIdx.x", lambda one: one.env_threads([thread_axis((0, 32), "threadIdx.x")])


def _draw(drawer: Drawer) -> Attempt | None:
    """Threads around all steps of a recurrence, after the loops of most of its stages are bound to them."""
    scan = next((stage for stage in drawer.s.stages if stage.op.is_stepwise), None)
    drawer.about(scan)
    if scan is None:
        return None
    count = drawer.pick([1, 2, 4, 8])
    thread = thread_axis((0, count), "threadIdx.x")
    threads = [thread_axis((0, 1), "blockIdx.x"), thread] if drawer.chance(0.5) else [thread]
    for tensor in scan.op.input_tensors:
        stage = drawer.s[tensor]
        axes = [axis for axis in drawer.data(stage) if axis is not stage.op.axis[0]]
        if axes and drawer.chance(0.9):
            try:
                stage.bind(stage.split(axes[-1], factor=count)[1], thread)
            except TilewrightError:
                return None
    return f"env_threads({count}) of {scan.name}", lambda: scan.env_threads(threads)


@primitive(StagePrimitives, "hardware", tries=_tries, draw=_draw, weight=2, rare=True, foreign={"threads": THREADS})
def env_threads(stage: Stage, threads: Sequence[IterVar] | IterVar) -> None:
    """Put thread axes around a scan's loop over time, so that all steps run in one kernel.

        for t in 100:                      threadIdx.x in 256:            # s[scan].env_threads([threadIdx.x])
            for i in 256: ...      →           for t in 100:
                                                   ...                    # loops bound to threadIdx.x share the work

    threads: thread axes whose extents are declared, te.thread_axis((0, 256), "threadIdx.x"), or one of them; each tag once.
    Loops of the scan's updates that are bound to the same tags share the work among these threads.

    Raises BadEnvThreads (TW0260).
    """
    given = require_list(threads)
    wanted = 's[scan].env_threads([te.thread_axis((0, 256), "threadIdx.x")])'

    def bad(reason: str, fix: str = wanted) -> BadEnvThreads:
        return BadEnvThreads(
            f"cannot put threads around stage {stage.name}",
            reason=reason[:300],
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage),
            fix=fix,
        )

    if not stage.op.is_stepwise:
        raise bad(f"{stage.name} is not a scan", "bind its loops: s[...].bind(axis, thread)")
    if any(axis.kind == "thread" for axis in stage.leaf_iter_vars):
        raise bad("it has its threads already", "name all threads in one call")
    for at, thread in enumerate(given):
        if not isinstance(thread, IterVar) or thread.kind != "thread":
            raise bad(f"{thread!r} is not a thread axis")
        if thread.dom is None or not isinstance(thread.dom.extent, IntImm):
            raise bad(f"{thread.thread_tag} has no extent: no loop of {stage.name} gives it one")
        if any(thread.thread_tag == other.thread_tag for other in given[:at]):
            raise bad(f"{thread.thread_tag} is given twice")
    stage.schedule.record("env_threads", stage, threads=tuple(given))
    stage.all_iter_vars += given
    stage.leaf_iter_vars[:0] = given
    for thread in given:
        stage.iter_var_attrs[thread] = IterAttr(kind="thread", bind_thread=thread)
