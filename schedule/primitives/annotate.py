"""parallel, vectorize, unroll: how a loop runs. The last kind given wins, as in TVM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import user_source
from ...ir.expr import IterVar
from ..errors import NestedParallel, ParallelReduction, VectorizeReduction, WrongArgument
from ..model.axes import derived_roots, find_leaf, outline
from ..model.hybrid_loops import check_independent, share_nest
from .env_threads import refuse_ordered

if TYPE_CHECKING:
    from ...errors import ScheduleError
    from ..model.attributes import AxisKind
    from ..model.stage import Stage
    from .group import Group

__all__ = ["enclosing_parallel", "parallel", "unroll", "vectorize"]

def parallel(stage: Stage, axis: IterVar) -> None:
    """See Stage.parallel."""
    find_leaf(stage, axis, "cannot make parallel")
    check_independent(stage, axis, "cannot make parallel")
    refuse_ordered(stage, [axis], "cannot make parallel")
    if axis.kind == "reduce":
        raise _races(ParallelReduction, stage, axis, "cannot make", " parallel", "threads", "make a data axis parallel")
    # Whatever surrounds this loop, or any loop of the stage: all of them are one nest.
    other = next((one for one in stage.leaf_iter_vars if one is not axis and stage.attr(one).kind == "parallel"
                  and share_nest(stage, one, axis)), None)
    above = enclosing_parallel(stage)
    if other is not None or above is not None:
        where = other.name if other is not None else f"{above[1].name} of stage {above[0].name}" if above else ""
        shown = outline(stage, [axis] if other is None else [axis, other])
        raise NestedParallel(
            f"cannot make '{axis.name}' of stage {stage.name} parallel",
            reason=f"{where} is parallel already, and parallel loops do not nest: the threads are all at work",
            declared=stage.op.source, called=user_source(), loops=shown,
            fix="fuse both loops and make the fused one parallel" if other is not None else
                f"leave the loops of {stage.name} serial, or compute it elsewhere",
        )
    stage.schedule.record("parallel", stage, axis=axis)
    _set_kind(stage, axis, "parallel")


def enclosing_parallel(stage: Stage) -> tuple[Stage, IterVar] | None:
    """The innermost parallel loop of other stages that the stage is computed in, with its stage."""
    while stage.attach_type == "at" and stage.attach_stage is not None:
        at, stage = stage.attach_axis, stage.attach_stage
        found = None
        for axis in stage.leaf_iter_vars:
            if stage.attr(axis).kind == "parallel":
                found = axis
            if axis is at:
                break
        if found is not None:
            return stage, found
    return None


def vectorize(stage: Stage, axis: IterVar) -> None:
    """See Stage.vectorize."""
    find_leaf(stage, axis, "cannot vectorize")
    refuse_ordered(stage, [axis], "cannot vectorize")
    check_independent(stage, axis, "cannot vectorize")
    if axis.kind == "reduce":
        raise _races(VectorizeReduction, stage, axis, "cannot vectorize", "", "vector lanes", "vectorize a data axis")
    stage.schedule.record("vectorize", stage, axis=axis)
    _set_kind(stage, axis, "vectorized")


def _races(
    error: type[ScheduleError], stage: Stage, axis: IterVar, doing: str, after: str, who: str, instead: str,
) -> ScheduleError:
    """Lanes or threads over a reduce axis."""
    element = f"{stage.name}[{', '.join(one.name for one in stage.op.axis)}]"
    data = ", ".join(one.name for one in stage.leaf_iter_vars if one.kind == "data")
    alone = all(root.kind == "reduce" for root in derived_roots(stage, axis))
    what = axis.name if alone else f"{axis.name}, which holds a reduce axis"
    tensor = f"s.rfactor({stage.name}, {axis.name}) first" if alone else "fuse data axes alone"
    return error(
        f"{doing} '{axis.name}' of stage {stage.name}{after}",
        reason=f"{stage.name} is a reduction over {what}: {who} would race on {element}", declared=stage.op.source,
        called=user_source(), loops=outline(stage, [axis]), fix=f"{instead} ({data}), or {tensor}" if data else tensor,
    )


def unroll(stage: Stage, axis: IterVar) -> None:
    """See Stage.unroll."""
    find_leaf(stage, axis, "cannot unroll")
    if axis.kind == "thread":
        refuse_ordered(stage, [axis], "cannot unroll")
    stage.schedule.record("unroll", stage, axis=axis)
    _set_kind(stage, axis, "unrolled")


def _set_kind(stage: Stage, axis: IterVar, kind: AxisKind) -> None:
    stage.iter_attrs[axis] = replace(stage.attr(axis), kind=kind, bind_thread=None)


def wrong_stage(stage: Stage | Group, given: object, doing: str) -> WrongArgument:
    """The error for something that should be a stage."""
    return WrongArgument(
        f"{doing} {stage.name}",
        reason=f"a stage is asked for, {type(given).__name__} was given",
        called=user_source(),
        fix="pass s[T], T being a tensor or an operation",
    )
