"""fuse: loops directly inside each other become one."""

from __future__ import annotations

from itertools import pairwise

from ...base.errors import user_source
from ...ir.dtype import INT32, INT64
from ...ir.expr import IntImm, IterVar, Range
from ...ir.ops import const
from ...te.shape import INT64_FROM
from ..errors import FuseApart
from ..model.checks import (
    declared_ranges,
    dependences,
    derived_roots,
    find_leaf,
    find_place,
    outline,
    refuse_lost_annotation,
)
from ..model.foreign import AXES
from ..model.hybrid_loops import check_fused
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.relations import Fuse, Singleton
from ..model.stage import Stage
from .trials import neighbours

__all__ = ["fuse"]


def _draw(drawer: Drawer) -> Attempt | None:
    def pairs(stage: Stage) -> list[tuple[IterVar, IterVar]]:
        plain = drawer.plain(stage)
        return [
            (a, b)
            for a, b in pairwise(stage.leaf_iter_vars)
            # mixed pairs are legal, but few primitives follow them
            if a in plain and b in plain and ((a.kind == "reduce") == (b.kind == "reduce") or drawer.chance(0.1))
        ]

    stage = drawer.some_stage(pairs)
    fitting = pairs(stage) if stage is not None else []
    if stage is None or not fitting:
        return None
    a, b = drawer.pick(fitting)
    return f"fuse({a.name}, {b.name}) of {stage.name}", lambda: stage.fuse(a, b)


@primitive(
    StagePrimitives,
    "loops",
    tries=neighbours(lambda stage, outer, inner: stage.fuse(outer, inner)),
    draw=_draw,
    weight=6,
    foreign={"axes": AXES},
)
def fuse(stage: Stage, *axes: IterVar) -> IterVar:
    """Make one loop of loops directly inside each other, in their order; of none, a new outermost loop that runs once.

        for i in 6:
            for j in 4:       →      for i.j.fused in 24:
                ...                      ... at i = i.j.fused // 4, j = i.j.fused % 4

    axes: loops of the stage; as in TVM the first two may be given in either order. A loop over data and reduce axes at once
    is a reduce loop. Returns the loop, which counts in 64 bits where the extents are not known to fit 32.

    Raises FuseApart (TW0208), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument (TW0222), AnnotationWouldBeLost
    (TW0213), HybridLoopsApart (TW0281).
    """
    if not axes:
        return _unit_loop(stage)
    places = [find_leaf(stage, axis, "cannot fuse") for axis in axes]
    first = min(places[:2])
    # TVM takes the first two in either order; whatever follows lies inside.
    in_order = sorted(places[:2]) + places[2:]
    if in_order != list(range(first, first + len(axes))):
        raise _not_adjacent_error(stage, axes, places)
    ordered = stage.leaf_iter_vars[first : first + len(axes)]
    if len(axes) > 1:
        for axis in ordered:
            refuse_lost_annotation(stage, axis, "cannot fuse", "fuse first, then annotate the fused loop")
    check_fused(stage, ordered)
    _refuse_dependent(stage, ordered)
    stage.schedule.record("fuse", stage, axes=tuple(ordered))
    fused = ordered[0]
    for inner in ordered[1:]:
        fused = _fuse_two(stage, fused, inner, first)
    return fused


def _refuse_dependent(stage: Stage, axes: list[IterVar]) -> None:
    """Loops of which one's extent changes with another have no product to run over."""
    roots = [root for axis in axes for root in derived_roots(stage, axis)]
    for first, second in dependences(stage):
        if find_place(roots, first) >= 0 and find_place(roots, second) >= 0:
            raise FuseApart(
                f"cannot fuse {', '.join(axis.name for axis in axes)} of stage {stage.name}",
                declared=stage.op.source,
                reason=f"the extent of {second.name} changes with {first.name}, so their iterations do not form a rectangle",
                called=user_source(),
                loops=outline(stage, axes),
                fix="fuse loops whose extents do not change",
            )


def _fuse_two(stage: Stage, outer: IterVar, inner: IterVar, place: int) -> IterVar:
    kind = "reduce" if "reduce" in (outer.kind, inner.kind) else outer.kind
    ranges = declared_ranges(stage)
    a, b = ranges[outer].extent, ranges[inner].extent
    small = isinstance(a, IntImm) and isinstance(b, IntImm) and a.value * b.value < INT64_FROM
    # Counting the fused loop in 32 bits must be known to be enough: symbolic extents may multiply beyond.
    fused = IterVar(f"{outer.name}.{inner.name}.fused", INT32 if small else INT64, None, kind)
    stage.derive(Fuse(outer, inner, fused, user_source()), place, 2, (fused,))
    return fused


def _unit_loop(stage: Stage) -> IterVar:
    """Nothing fused, as for rank 0, gives an outermost loop of one iteration, so that there is one to annotate."""
    stage.schedule.record("fuse", stage, axes=())
    unit = IterVar("singleton", INT32, Range(const(0), const(1)))
    stage.derive(Singleton(unit, user_source()), 0, 0, (unit,))
    return unit


def _not_adjacent_error(stage: Stage, axes: tuple[IterVar, ...], places: list[int]) -> FuseApart:
    names = ", ".join(axis.name for axis in axes)
    if len(set(places)) < len(places):
        twice = next(axis.name for at, axis in enumerate(axes) if places[at] in places[:at])
        reason, fix = f"{twice} is listed twice", "list each loop once"
    elif sorted(places) == list(range(min(places), min(places) + len(places))):
        ordered = ", ".join(axis.name for axis in sorted(axes, key=lambda axis: places[axes.index(axis)]))
        reason, fix = f"the loops stand in the order {ordered}", f"fuse({ordered}), or reorder({names}) first"
    else:
        between = [axis.name for axis in stage.leaf_iter_vars[min(places) : max(places)] if axis not in axes]
        reason = f"{', '.join(between)} stands between them: fused loops are directly inside each other"
        fix = f"s[{stage.name}].reorder({names}) first, if that order suits"
    return FuseApart(
        f"cannot fuse {names} of stage {stage.name}",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, axes),
        fix=fix,
    )
