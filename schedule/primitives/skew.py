"""skew: a loop over a parallelogram, which begins later in each iteration of another one.

    for i in 64:                     for i in 64:                                   # skew(j, i)
        for j in 64:         →           for j.skewed in 127:
            h[i, j] = ...                    if 0 <= j.skewed - i < 64:
                                                 h[i, j.skewed - i] = ...

Iterations keep their order, so that it changes nothing by itself. What it is for: where `h[i, j]` is computed from `h[i - 1, j]` and
`h[i, j - 1]`, what has one value of `j.skewed = i + j` depends on smaller ones alone. With `j.skewed` as the outer loop (reorder),
`i` is free: threads share a wavefront. And where a distance between iterations goes back in `j`, as from `h[i - 1, j + 1]`, it goes on
in `j.skewed`, so that the loops may be tiled (M. Wolf, M. Lam, "A Data Locality Optimizing Algorithm", PLDI 1991).

The skewed loop runs over all values that it has in any iteration of the other one, under a guard. Where it stands outside, the
serial loop within runs over those iterations alone that the guard leaves (ir/passes/common/trim_loops.py).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import partial
from typing import Any

from ...base import SourceLine, dataclass, replace, user_source
from ...ir import Expr, IntImm, IterVar, Range, free_vars
from ...ir.accesses import reads_memory
from ...ir.arith.linear import LinearForm
from ...ir.dtype import INT64, DType
from ...ir.ops import cast, const, integer_value, maximum
from ...te.shape import INT64_FROM
from ..errors import BadSkew
from ..model.checks import declared_ranges, derived_roots, find_leaf, outline, refuse_lost_annotation, refuse_ordered
from ..model.foreign import AXIS, integer
from ..model.hybrid_loops import check_derived
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.relations import Relation, add_offset, subtract_offset, zero_based_range
from ..model.stage import Stage

__all__ = ["Skew", "bad_skew", "skew"]


@dataclass(frozen=True, slots=True, eq=False)
class Skew(Relation):
    """skewed = parent + slope * by, counted from its least value; parent and by count from 0. dtype: of the skewed loop."""

    parent: IterVar
    by: IterVar
    slope: int
    skewed: IterVar
    source: SourceLine | None = None

    @property
    def parents(self) -> tuple[IterVar, ...]:
        return (self.parent,)

    @property
    def children(self) -> tuple[IterVar, ...]:
        return (self.skewed,)

    @property
    def uses(self) -> tuple[IterVar, ...]:
        return (self.by,)

    @property
    def overshoots(self) -> bool:
        return True

    def ranges(self, known: Mapping[IterVar, Range], keeps_factor: Container[IterVar]) -> dict[IterVar, Range]:
        extent = cast(known[self.parent].extent, self.skewed.dtype) + self._reach(known[self.by])
        return {self.skewed: zero_based_range(extent)}

    def _reach(self, by: Range) -> Expr:
        """The distance that the last iteration of the other loop lies from its first one, in the skewed one."""
        last = by.extent - 1 if isinstance(by.extent, IntImm) and by.extent.value else maximum(by.extent, 1) - 1
        return cast(last, self.skewed.dtype) * const(abs(self.slope), self.skewed.dtype)

    def _shift(self, values: Mapping[IterVar, Expr], by: Range) -> Expr:
        """Return by how much the parallelogram lies further on than in the iteration in which it begins first."""
        moved = cast(subtract_offset(values[self.by], by), self.skewed.dtype) * const(
            abs(self.slope), self.skewed.dtype
        )
        return moved if self.slope > 0 else self._reach(by) - moved

    def values_up(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        value = values[self.skewed] - self._shift(values, ranges[self.by])
        return {self.parent: add_offset(cast(value, self.parent.dtype), ranges[self.parent], self.parent)}

    def values_down(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        value = cast(subtract_offset(values[self.parent], ranges[self.parent]), self.skewed.dtype)
        return {self.skewed: value + self._shift(values, ranges[self.by])}

    def distances(self, extents: Mapping[IterVar, int | None]) -> tuple[LinearForm, ...]:
        return (LinearForm({self.skewed: 1, self.parent: -1, self.by: -self.slope}),)

    def heir(self, axis: IterVar) -> IterVar:
        return self.skewed

    def sentence(self, axis: IterVar) -> str:
        return f"{axis.name} was skewed into {self.skewed.name}"


def _tries(stage: Stage) -> Iterator[Try]:
    for axis in stage.leaf_iter_vars:
        for by in stage.leaf_iter_vars:
            if by is not axis:
                yield f"{axis.name}, {by.name}", lambda one, axis=axis, by=by: one.skew(axis, by)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: len(drawer.data(stage)) > 1)
    if stage is None:
        return None
    axis, by = drawer.some(drawer.data(stage), 2)
    if drawer.chance(0.7):
        axis, by = by, axis
    slope = drawer.pick([1, 1, 2, -1, 3])
    return f"skew({axis.name}, {by.name}, {slope}) of {stage.name}", lambda: stage.skew(axis, by, slope)


@primitive(
    StagePrimitives,
    "loops",
    tries=_tries,
    draw=_draw,
    weight=3,
    rare=True,
    foreign={"axis": AXIS, "by": AXIS, "slope": integer(-4096, 4096)},
)
def skew(stage: Stage, axis: IterVar, by: IterVar, slope: int = 1) -> IterVar:
    """Let the loop `axis` run over a parallelogram: `slope` iterations later in each iteration of the loop `by`.

        for i in 64:                     for i in 64:                               # skew(j, i)
            for j in 64:         →           for j.skewed in 127:
                h[i, j] = ...                    if 0 <= j.skewed - i < 64:
                                                     h[i, j.skewed - i] = ...

    By itself it keeps the order of iterations. Then a distance between them that goes on in both loops goes on in `j.skewed` alone, so
    that with `j.skewed` outside (reorder) iterations of `i` are independent, a wavefront, and a distance that goes back in `j` allows
    tiles. `rotate` goes around instead. The update of a scan is skewed by its first axis, time, where it is computed for a tile of
    steps: `outer, _ = s[S].split(time, 8)`, `s[update].compute_at(s[S], outer)`, `s[update].skew(x, t)`.

    Parameters
    ----------
    axis : IterVar
        A loop of the stage over data.
    by : IterVar
        Another one, of a script directly inside or outside. The extents of both do not change with other loops.
    slope : int, default 1
        Not 0, in iterations of `axis`.

    Returns
    -------
    IterVar
        The loop that stands in place of `axis`, named "j.skewed".

    Raises
    ------
    BadSkew (TW0225)
        Neither loop can begin elsewhere in each iteration of the other.
    AxisIsNoLoop (TW0205)
        A loop was split or fused.
    NotAnAxisOfStage (TW0202)
        An axis belongs to another stage.
    WrongArgument (TW0222)
        An argument is of another kind.
    AnnotationWouldBeLost (TW0213)
        The loop is annotated.
    ScanLoopsStay (TW0261), HybridLoopsApart (TW0281), HybridLoopCarries (TW0280)
        Steps of the scan, or statements of the script, would run in another order.
    """
    place = find_leaf(stage, axis, "cannot skew")
    find_leaf(stage, by, "cannot skew by")
    refuse_ordered(stage, [axis, by], "cannot skew")
    _check(stage, axis, by)
    refuse_lost_annotation(stage, axis, "cannot skew", f"skew first, then annotate {axis.name}.skewed")
    times = _slope(stage, axis, by, slope)
    skewed = replace(axis, name=f"{axis.name}.skewed", dom=None, dtype=_dtype(stage, axis, by, times))
    relation = Skew(axis, by, times, skewed, user_source())
    check_derived(stage, relation, (axis, by), "cannot skew")
    stage.schedule.record("skew", stage, axis=axis, by=by, slope=times)
    stage.derive(relation, place, 1, (skewed,))
    return skewed


def bad_skew(verb: str, stage: Stage, axis: IterVar, by: IterVar, reason: str, fix: str) -> BadSkew:
    """The refusal to skew or rotate a loop by another one."""
    return BadSkew(
        f"cannot {verb} '{axis.name}' of stage {stage.name} by '{by.name}'",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, [axis, by]),
        fix=fix,
    )


_bad = partial(bad_skew, "skew")


def _check(stage: Stage, axis: IterVar, by: IterVar) -> None:
    if axis is by:
        raise _bad(stage, axis, by, "both are the same loop", f"s[{stage.name}].skew(axis, by) takes two loops")
    ranges = declared_ranges(stage)
    for loop in (axis, by):
        if any(root.kind != "data" for root in derived_roots(stage, loop)):
            raise _bad(
                stage,
                axis,
                by,
                f"{loop.name} runs over a reduce axis, whose terms are added in its own order",
                "skew loops over data; rotate lets a reduce axis begin elsewhere",
            )
        within = ranges.get(loop)
        if (
            within is None
            or reads_memory(within.extent)
            or any(isinstance(v, IterVar) for v in free_vars(within.extent))
        ):
            raise _bad(
                stage,
                axis,
                by,
                f"the extent of {loop.name} is read from a tensor, or changes with another loop",
                "skew loops whose extents are known before",
            )


def _slope(stage: Stage, axis: IterVar, by: IterVar, given: Any) -> int:
    number = integer_value(given, given)
    if isinstance(number, bool) or not isinstance(number, int) or number == 0 or abs(number) >= INT64_FROM:
        reason = f"the slope is {given!r}: no integer other than 0, of 32 bits"[:200]
    elif abs(number) > 1 and _greatest(stage, axis, by, number) is None:
        reason = f"the slope is {number}, and the extents are not constants of which 32 bits are enough"
    else:
        return number
    raise _bad(stage, axis, by, reason, f"s[{stage.name}].skew({axis.name}, {by.name}, 1)")


def _greatest(stage: Stage, axis: IterVar, by: IterVar, slope: int) -> int | None:
    """The extent of the skewed loop, where it is a constant of 32 bits."""
    ranges = declared_ranges(stage)
    length, count = (integer_value(ranges[loop].extent) for loop in (axis, by))
    if length is None or count is None:
        return None
    total = length + abs(slope) * max(count - 1, 0)
    return total if total < INT64_FROM else None


def _dtype(stage: Stage, axis: IterVar, by: IterVar, slope: int) -> DType:
    """Dtype of the skewed loop: 32 bits must be known to be enough."""
    return INT64 if _greatest(stage, axis, by, slope) is None else axis.dtype
