"""rotate: a loop that begins elsewhere in each iteration of another one.

    for i in 4:                  for i in 4:                              # rotate(j, i)
        for j in 4:      →           for j.rotated in 4:
            C[i, j] = ...                C[i, (j.rotated + i) % 4] = ...

It goes around: each iteration of `i` still runs over all of `j`, from another one on (the name is DISTAL's; `skew` runs over a
parallelogram instead). What it is for: threads that would all begin with the same panel of a matrix, or with banks or channels of
memory that they share, begin with different ones; and a cache that is written for a rotated loop (cache_write) lies rotated in
memory, so that its columns are spread over the banks. Records of releases in which it was named skew replay as rotate.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import partial
from typing import Any

from ...base import SourceLine, dataclass, replace, user_source
from ...ir.accesses import reads_memory
from ...ir.arith.linear import LinearForm
from ...ir.dtype import INT64, DType
from ...ir.expr import Expr, IntImm, IterVar, Range
from ...ir.ops import cast, const, floormod, integer_value
from ...te.shape import INT64_FROM
from ..model.checks import declared_ranges, derived_roots, find_leaf, refuse_lost_annotation, refuse_ordered
from ..model.foreign import AXIS, integer
from ..model.hybrid_loops import check_derived
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.relations import Relation, add_offset, subtract_offset, zero_based_range
from ..model.stage import Stage
from .skew import bad_skew

__all__ = ["Rotate", "rotate"]


@dataclass(frozen=True, slots=True, eq=False)
class Rotate(Relation):
    """parent = parent_begin + (rotated + factor * by) % (extent of parent). dtype: of the sum, which must not wrap."""

    parent: IterVar
    by: IterVar
    factor: int
    rotated: IterVar
    dtype: DType
    source: SourceLine | None = None

    @property
    def parents(self) -> tuple[IterVar, ...]:
        return (self.parent,)

    @property
    def children(self) -> tuple[IterVar, ...]:
        return (self.rotated,)

    @property
    def uses(self) -> tuple[IterVar, ...]:
        return (self.by,)

    def ranges(self, known: Mapping[IterVar, Range], keeps_factor: Container[IterVar]) -> dict[IterVar, Range]:
        return {self.rotated: zero_based_range(known[self.parent].extent)}

    def values_up(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        within = ranges[self.parent]
        return {
            self.parent: add_offset(
                self._rotated_value(values[self.rotated], self.factor, values, within), within, self.parent
            )
        }

    def values_down(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        within = ranges[self.parent]
        return {
            self.rotated: self._rotated_value(
                subtract_offset(values[self.parent], within), -self.factor, values, within
            )
        }

    def _rotated_value(self, value: Expr, factor: int, values: Mapping[IterVar, Expr], within: Range) -> Expr:
        """A number of the range, moved by `factor` times the value of the other loop, around its end."""
        moved = cast(value, self.dtype) + cast(values[self.by], self.dtype) * const(factor, self.dtype)
        return cast(floormod(moved, cast(within.extent, self.dtype)), self.rotated.dtype)

    def distances(self, extents: Mapping[IterVar, int | None]) -> tuple[LinearForm, ...]:
        size = extents.get(self.parent)
        return (LinearForm({self.rotated: 1, self.by: self.factor, self.parent: -1, self: size}),) if size else ()

    def heir(self, axis: IterVar) -> IterVar:
        return self.rotated

    def sentence(self, axis: IterVar) -> str:
        return f"{axis.name} was rotated into {self.rotated.name}"


def _tries(stage: Stage) -> Iterator[Try]:
    for axis in stage.leaf_iter_vars:
        for by in stage.leaf_iter_vars:
            if by is not axis:
                yield f"{axis.name}, {by.name}", lambda one, axis=axis, by=by: one.rotate(axis, by)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: len(drawer.plain(stage)) > 1)
    if stage is None:
        return None
    axis, by = drawer.some(drawer.plain(stage), 2)
    if drawer.chance(0.7):
        axis, by = by, axis
    factor = drawer.pick([1, 1, 2, -1, 3])
    return f"rotate({axis.name}, {by.name}, {factor}) of {stage.name}", lambda: stage.rotate(axis, by, factor)


@primitive(
    StagePrimitives,
    "loops",
    tries=_tries,
    draw=_draw,
    weight=3,
    rare=True,
    foreign={"axis": AXIS, "by": AXIS, "factor": integer(-4096, 4096)},
)
def rotate(stage: Stage, axis: IterVar, by: IterVar, factor: int = 1) -> IterVar:
    """Let the loop `axis` begin `factor` iterations later for each iteration of the loop `by`, and go around.

        for i in 4:                  for i in 4:                          # rotate(j, i)
            for j in 4:      →           for j.rotated in 4:
                C[i, j] = ...                C[i, (j.rotated + i) % 4] = ...

    An element is computed from the same values as before; the terms of a sum whose reduce axis is rotated come in another order.
    For vectors of elements side by side, split first and rotate the outer loop.

    Parameters
    ----------
    axis : IterVar
        A loop of the stage.
    by : IterVar
        Another loop of it, inside or outside: a data axis is rotated by a loop over data, a reduce axis by any.
    factor : int, default 1
        Not 0, in iterations of `axis`.

    Returns
    -------
    IterVar
        The loop that stands in place of `axis`, of the same extent and dtype, named "j.rotated".

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
    place = find_leaf(stage, axis, "cannot rotate")
    find_leaf(stage, by, "cannot rotate by")
    refuse_ordered(stage, [axis, by], "cannot rotate")
    _check(stage, axis, by)
    refuse_lost_annotation(stage, axis, "cannot rotate", f"rotate first, then annotate {axis.name}.rotated")
    times = _factor(stage, axis, by, factor)
    rotated = replace(axis, name=f"{axis.name}.rotated", dom=None)
    relation = Rotate(axis, by, times, rotated, _sum_dtype(stage, axis, by, times), user_source())
    check_derived(stage, relation, (axis, by), "cannot rotate")
    stage.schedule.record("rotate", stage, axis=axis, by=by, factor=times)
    stage.derive(relation, place, 1, (rotated,))
    return rotated


_bad = partial(bad_skew, "rotate")


def _check(stage: Stage, axis: IterVar, by: IterVar) -> None:
    if axis is by:
        raise _bad(stage, axis, by, "both are the same loop", f"s[{stage.name}].rotate(axis, by) takes two loops")
    kinds = {root.kind for root in derived_roots(stage, axis)}
    if len(kinds) != 1:
        over = "data and reduce axes at once" if kinds else f"no axis of {stage.name}"
        raise _bad(stage, axis, by, f"{axis.name} runs over {over}", "rotate a loop over data, or one over reduce axes")
    if "data" in kinds and any(root.kind == "reduce" for root in derived_roots(stage, by)):
        raise _bad(
            stage,
            axis,
            by,
            f"{by.name} is a loop over a reduce axis, in which each element is finished at its own place: "
            "another one would be started in each iteration",
            "rotate a data axis by a loop over data, or the reduce axis",
        )
    within = declared_ranges(stage).get(axis)
    if within is None or reads_memory(within.extent):
        raise _bad(
            stage,
            axis,
            by,
            f"the extent of {axis.name} is read from a tensor",
            "rotate a loop whose extent is known before",
        )


def _factor(stage: Stage, axis: IterVar, by: IterVar, given: Any) -> int:
    number = integer_value(given, given)
    if isinstance(number, bool) or not isinstance(number, int) or number == 0 or abs(number) >= INT64_FROM:
        raise _bad(
            stage,
            axis,
            by,
            f"the factor is {given!r}: no integer other than 0, of 32 bits"[:200],
            f"s[{stage.name}].rotate({axis.name}, {by.name}, 1)",
        )
    return number


def _sum_dtype(stage: Stage, axis: IterVar, by: IterVar, factor: int) -> DType:
    """Dtype of axis + factor * by: 32 bits must be known to be enough."""
    ranges = declared_ranges(stage)
    extents = [ranges[loop].extent if loop in ranges else None for loop in (axis, by)]
    begin = ranges[by].begin if by in ranges else None
    if all(isinstance(factor, IntImm) for factor in (*extents, begin)):
        length, count, first = (int(factor) for factor in (*extents, begin))  # pyright: ignore[reportArgumentType]
        if length + abs(factor) * (count + abs(first)) < INT64_FROM:
            return axis.dtype
    return INT64
