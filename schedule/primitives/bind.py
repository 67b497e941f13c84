"""bind: a loop runs on a thread axis."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator

from ...base.errors import user_source
from ...ir.expr import Expr, IntImm, IterVar
from ...ir.ops import is_const
from ...ir.passes.gpu.hardware import is_virtual
from ...te.axis import thread_axis as make_thread_axis
from ..errors import BadThreadBinding, ThreadBoundTwice
from ..model.checks import declared_ranges, find_leaf, mixes_data_and_reduce, outline, refuse_ordered
from ..model.foreign import AXIS, THREAD
from ..model.hybrid_loops import check_independent, share_nest
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage
from ..model.term_order import refuse_split

__all__ = ["bind"]

_TAGS = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread", "vthread")
"""What the fuzzer draws."""


def _tries(stage: Stage) -> Iterator[Try]:
    for axis in stage.leaf_iter_vars:
        for tag in ("blockIdx.x", "threadIdx.x", "vthread"):
            yield f"{axis.name}, {tag}", lambda one, axis=axis, tag=tag: one.bind(axis, make_thread_axis(tag))


def _draw(drawer: Drawer) -> Attempt | None:
    def bindable(stage: Stage) -> list[IterVar]:
        return [
            axis
            for axis in drawer.plain(stage)
            if drawer.begins_at_zero(stage, axis) and (axis.kind != "reduce" or drawer.chance(0.15))
        ]

    stage = drawer.some_stage(bindable)
    axes = bindable(stage) if stage is not None else []
    if stage is None or not axes:
        return None
    axis = drawer.pick(axes)
    extent = drawer.extent(stage, axis)
    # one thread axis has one extent in a kernel, and one loop of a stage
    taken = {
        held.thread_tag: drawer.extent(other, leaf) if other is not stage else "here"
        for other in drawer.stages
        for leaf in other.leaf_iter_vars
        if (held := other.attr(leaf).bind_thread) is not None
    }
    fitting = [tag for tag in _TAGS if tag.startswith("vthread") or taken.get(tag, extent) == extent]
    tags = [tag for tag in fitting if tag.startswith("threadIdx")] if axis.kind == "reduce" else fitting
    if not tags or (extent is None and drawer.chance(0.7)):
        return None
    tag = drawer.pick(tags)
    # TVM's programs declare the extent at the thread axis
    declared = (0, extent) if extent is not None and drawer.chance(0.3) else None
    thread = make_thread_axis(declared, tag) if declared is not None else make_thread_axis(tag)
    return f"bind({axis.name}, {tag}) of {stage.name}", lambda: stage.bind(axis, thread)


@primitive(
    StagePrimitives, "hardware", tries=_tries, draw=_draw, weight=7, foreign={"axis": AXIS, "thread_axis": THREAD}
)
def bind(stage: Stage, axis: IterVar, thread_axis: IterVar) -> None:
    """Run the iterations on a thread axis. Like parallel, vectorize and unroll it replaces the kind given before.

        for i in 64:                        blockIdx.x in 64:
            for j in 32: ...      →             threadIdx.x in 32: ...

    axis: a loop of the stage that counts from 0; over a reduce axis only to threadIdx, which then joins the parts. thread_axis:
    te.thread_axis("blockIdx.x"), "threadIdx.y", "vthread" (a virtual thread: interleaved work of one thread), with or without
    an extent. Whether all loops on one thread axis have one extent is looked at when the schedule is lowered.

    Raises BadThreadBinding (TW0211), ThreadBoundTwice (TW0212), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument
    (TW0222), ScanLoopsStay (TW0261), HybridLoopCarries (TW0280), UnsplitReduction (TW0234).
    """
    find_leaf(stage, axis, "cannot bind")
    if not isinstance(thread_axis, IterVar) or thread_axis.kind != "thread":
        shown = thread_axis.name if isinstance(thread_axis, IterVar) else repr(thread_axis)
        raise _bad(
            stage,
            axis,
            "",
            f"{shown} is not a thread axis"[:200],
            'te.thread_axis("threadIdx.x"), blockIdx.y, vthread ...',
        )
    check_independent(stage, axis, f"cannot bind to {thread_axis.thread_tag}")
    refuse_ordered(stage, [axis], f"cannot bind to {thread_axis.thread_tag}")
    _check_ranges(stage, axis, thread_axis)
    if axis.kind == "reduce":
        _check_reduction(stage, axis, thread_axis)
    holder = next(
        (
            leaf
            for leaf in stage.leaf_iter_vars
            if leaf is not axis and _same(stage.attr(leaf).bind_thread, thread_axis) and share_nest(stage, leaf, axis)
        ),
        None,
    )
    if holder is not None:
        raise ThreadBoundTwice(
            f"cannot bind '{axis.name}' of stage {stage.name} to {thread_axis.thread_tag}",
            reason=f"{holder.name} is bound to {thread_axis.thread_tag} already, and one thread has one index",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [holder, axis]),
            fix=f"fuse both loops and bind the fused one, or bind {axis.name} to another thread axis",
        )
    stage.schedule.record("bind", stage, axis=axis, thread_axis=thread_axis)
    stage.annotate(axis, kind="thread", bind_thread=thread_axis)


def _same(bound: IterVar | None, thread: IterVar) -> bool:
    """Return whether both are one index; several virtual threads of one name are not."""
    return bound is thread or (
        bound is not None and bound.thread_tag == thread.thread_tag and not is_virtual(thread.thread_tag)
    )


def _check_ranges(stage: Stage, axis: IterVar, thread: IterVar) -> None:
    begin = 0 if thread.dom is None else thread.dom.begin
    if isinstance(begin, Expr) and not is_const(begin, 0):
        raise _bad(
            stage,
            axis,
            thread.thread_tag,
            f"the thread axis begins at {begin}, and threads are counted from 0",
            f'te.thread_axis((0, n), "{thread.thread_tag}")',
        )
    if thread.dom is not None and not isinstance(thread.dom.extent, IntImm):
        raise _bad(
            stage,
            axis,
            thread.thread_tag,
            f"the thread axis declares the symbolic extent {thread.dom.extent}",
            f'te.thread_axis("{thread.thread_tag}"), which takes the extent of the loop',
        )
    within = declared_ranges(stage).get(axis)
    if within is not None and not is_const(within.begin, 0):
        raise _bad(
            stage,
            axis,
            thread.thread_tag,
            f"{axis.name} begins at {within.begin}, and threads are counted from 0",
            f"declare the axis from 0, or split {axis.name} and bind a part",
        )


def _check_reduction(stage: Stage, axis: IterVar, thread: IterVar) -> None:
    tag = thread.thread_tag
    if mixes_data_and_reduce(stage, axis):
        raise _bad(
            stage,
            axis,
            tag,
            f"{axis.name} runs over data and reduce axes at once: threads would race on the elements of {stage.name}",
            "fuse data axes with data axes, and reduce axes with reduce axes",
        )
    reduction = getattr(stage.op, "reduction", None)
    if not tag.startswith("threadIdx"):
        if reduction is not None:  # rfactor would refuse it, too
            refuse_split(stage, axis, reduction, f"cannot bind to {tag}")
        raise _bad(
            stage,
            axis,
            tag,
            f"{stage.name} is a reduction over {axis.name}: its parts are joined within a block, by threadIdx",
            f'bind it to te.thread_axis("threadIdx.x"), or s.rfactor({stage.name}, {axis.name}) first',
        )
    if reduction is not None and reduction.init:
        raise _bad(
            stage,
            axis,
            tag,
            f"{stage.name} reduces with init=, and a reduction across threads starts each of them from the identity",
            "leave init= out and add it in a stage of its own",
        )
    if reduction is not None:
        refuse_split(stage, axis, reduction, f"cannot bind to {tag}")


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
