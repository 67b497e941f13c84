"""bind: a loop runs on a thread axis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import user_source
from ...ir.expr import Expr, IntImm, IterVar
from ...ir.ops import is_const
from ..errors import BadThreadBinding, ThreadBoundTwice
from ..model.axes import declared_ranges, find_leaf, mixes_data_and_reduce, outline
from ..model.hybrid_loops import check_independent, share_nest
from .env_threads import refuse_ordered

if TYPE_CHECKING:
    from ..model.stage import Stage

__all__ = ["bind", "is_virtual"]


def is_virtual(thread: IterVar) -> bool:
    """Whether a thread axis is a virtual thread: interleaved work of one thread."""
    return thread.thread_tag.startswith(("vthread", "cthread"))


def bind(stage: Stage, axis: IterVar, thread: IterVar) -> None:
    """See Stage.bind."""
    find_leaf(stage, axis, "cannot bind")
    if not isinstance(thread, IterVar) or thread.kind != "thread":
        shown = thread.name if isinstance(thread, IterVar) else repr(thread)
        raise _bad(
            stage,
            axis,
            "",
            f"{shown} is no thread axis"[:200],
            'te.thread_axis("threadIdx.x"), blockIdx.y, vthread ...',
        )
    check_independent(stage, axis, f"cannot bind to {thread.thread_tag}")
    refuse_ordered(stage, [axis], f"cannot bind to {thread.thread_tag}")
    _check_ranges(stage, axis, thread)
    if axis.kind == "reduce":
        _check_reduction(stage, axis, thread)
    holder = next(
        (one for one in stage.leaf_iter_vars if one is not axis and _same(stage.attr(one).bind_thread, thread)
         and share_nest(stage, one, axis)), None
    )
    if holder is not None:
        raise ThreadBoundTwice(
            f"cannot bind '{axis.name}' of stage {stage.name} to {thread.thread_tag}",
            reason=f"{holder.name} is bound to {thread.thread_tag} already, and one thread has one index",
            declared=stage.op.source, called=user_source(), loops=outline(stage, [holder, axis]),
            fix=f"fuse both loops and bind the fused one, or bind {axis.name} to another thread axis",
        )
    stage.schedule.record("bind", stage, axis=axis, thread_axis=thread)
    stage.iter_attrs[axis] = replace(stage.attr(axis), kind="thread", bind_thread=thread)


def _same(bound: IterVar | None, thread: IterVar) -> bool:
    """Whether both are one index; several virtual threads of one name are not."""
    return bound is thread or (bound is not None and bound.thread_tag == thread.thread_tag and not is_virtual(thread))


def _check_ranges(stage: Stage, axis: IterVar, thread: IterVar) -> None:
    begin = 0 if thread.dom is None else thread.dom.begin
    if isinstance(begin, Expr) and not is_const(begin, 0):
        raise _bad(stage, axis, thread.thread_tag, f"the thread axis begins at {begin}, and threads are counted from 0",
                   f'te.thread_axis((0, n), "{thread.thread_tag}")')
    if thread.dom is not None and not isinstance(thread.dom.extent, IntImm):
        raise _bad(stage, axis, thread.thread_tag, f"the thread axis declares the symbolic extent {thread.dom.extent}",
                   f'te.thread_axis("{thread.thread_tag}"), which takes the extent of the loop')
    found = declared_ranges(stage).get(axis)
    if found is not None and not is_const(found.begin, 0):
        raise _bad(
            stage,
            axis,
            thread.thread_tag,
            f"{axis.name} begins at {found.begin}, and threads are counted from 0",
            f"declare the axis from 0, or split {axis.name} and bind a part",
        )


def _check_reduction(stage: Stage, axis: IterVar, thread: IterVar) -> None:
    tag = thread.thread_tag
    if mixes_data_and_reduce(stage, axis):
        raise _bad(stage, axis, tag, f"{axis.name} runs over data and reduce axes at once: threads would race on the "
                   f"elements of {stage.name}", "fuse data axes with data axes, and reduce axes with reduce axes")
    if not tag.startswith("threadIdx"):
        raise _bad(
            stage,
            axis,
            tag,
            f"{stage.name} is a reduction over {axis.name}: its parts are joined within a block, by threadIdx",
            f'bind it to te.thread_axis("threadIdx.x"), or s.rfactor({stage.name}, {axis.name}) first',
        )
    reduction = getattr(stage.op, "reduction", None)
    if reduction is not None and reduction.init:
        raise _bad(stage, axis, tag, f"{stage.name} reduces with init=, and a reduction across threads starts each of "
                   "them from the identity", "leave init= out and add it in a stage of its own")


def _bad(stage: Stage, axis: IterVar, tag: str, reason: str, fix: str) -> BadThreadBinding:
    to = f" to {tag}" if tag else ""
    return BadThreadBinding(
        f"cannot bind '{axis.name}' of stage {stage.name}{to}",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, [axis]),
        fix=fix,
    )
