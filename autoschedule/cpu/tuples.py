"""Reductions of tuples over an expression: places of the least distance, sums beside sums, pairs that merge.

    lanes over a data axis                               lanes over a reduce axis

    for outer (in parallel):                             for outer (in parallel):
        for k:                                               for k.outer, others:
            for i.inner in lanes:  best = nearer(best, ...)      for k.inner in lanes:  partial = nearer(partial, ...)
        for i.inner in lanes:  B[i], P[i] = best             for k.inner:  best = nearer(best, partial)

The tuples of a step are in registers. What lanes alone differ in is loaded, or gathered, before the loops inside, so that any axis
may be that of the lanes. Lanes over a data axis keep the declared order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from ...base.dataclass import dataclass
from ...ir.expr import IterVar
from ...schedule import Schedule, Stage
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..accesses import domain_axes
from ..loops import share_loops, split_longer
from ..operations import find_inlined
from .lanes import VECTORS, floor_power, halves
from .threads import PARTS, worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["tuples"]


@dataclass(frozen=True)
class _Way:
    """Candidate for a reduction over tuples.

    axis: whose values are the lanes, None where one tuple is made at a time; vectors: of them in a step.
    """

    axis: IterVar | None
    vectors: int = 1

    def __str__(self) -> str:
        if self.axis is None:
            return "as declared"
        return f"{self.vectors} vector{'s' * (self.vectors > 1)} of {self.axis.name}"


def tuples(group: Group, in_order: bool) -> bool:
    """Schedule a group whose anchor reduces tuples; do nothing and return False for any other. in_order: the terms of a result are
    taken up as declared."""
    anchor = group.anchor
    loops = (*anchor.axis, *anchor.reduce_axis)
    if anchor.num_outputs < 2 or group.parts or any(constant_extent(axis) == 0 for axis in loops):
        return False
    if any(domain_axes(axis) for axis in anchor.reduce_axis):
        return False
    group.inline_cheap_heads()
    ways = [way for axis in (anchor.axis if in_order else loops) for way in _lane_ways(group, axis)]
    group.choose(
        "tuples", group.draft_candidates((str(way), partial(_apply_way, way=way)) for way in (*ways, _Way(None)))
    )
    return True


def _bits(group: Group) -> int:
    return max(tensor.dtype.bits for tensor in group.anchor.outputs)


def _lane_ways(group: Group, axis: IterVar) -> Iterator[_Way]:
    """The ways with lanes over an axis that fills them."""
    lanes, extent = group.machine.lanes(_bits(group)), constant_extent(axis)
    for vectors in (1, 2, VECTORS):
        if extent is None or extent >= lanes * vectors or vectors == 1 and extent * 2 > lanes:
            yield _Way(axis, vectors)


# Loops


def _same_axis(group: Group, axis: IterVar | None) -> IterVar | None:
    """The axis of the anchor as it is now that stands where `axis` stood."""
    if axis is None:
        return None
    anchor, op = group.anchor, group.s[group.anchor].op
    return dict(zip((*anchor.axis, *anchor.reduce_axis), (*op.axis, *op.reduce_axis), strict=True))[axis]


def _apply_way(group: Group, way: _Way) -> None:
    """Schedule the anchor and what follows it."""
    s, anchor, stage = group.s, group.anchor, group.s[group.output]
    lanes = group.machine.lanes(_bits(group)) * way.vectors
    lane = _same_axis(group, way.axis)
    threads = worth_threads((*anchor.axis, *anchor.reduce_axis), 1 + len(find_inlined(s, anchor)))
    place = None
    if lane is not None and lane.kind == "reduce":
        at = s[anchor].op.reduce_axis.index(lane)
        if threads and not anchor.axis and group.machine.cores > 1:
            _share_chunks(group, at, lanes)
            return
        merged = [*_split_lanes(s, anchor, at, lanes), *([s[anchor]] if anchor is not group.output else [])]
    else:
        place = None if lane is None else s[anchor].op.axis.index(lane)
        merged = [group.cache_sums()]
    outer = list(stage.op.axis)
    if place is not None:
        axis = outer.pop(place)
        wide, axis = split_longer(stage, axis, constant_extent(axis), lanes)
        outer += wide
        stage.reorder(*outer, axis)
        stage.vectorize(axis)
        _put_lane_last(merged[0], merged[0].op.axis[place])
    if outer:
        task = share_loops(stage, outer, threads)
        for each in merged:
            each.compute_at(stage, task)


def _put_lane_last(sums: Stage, lane: IterVar) -> None:
    """Make lanes of an axis, within all loops."""
    sums.reorder(*(axis for axis in sums.op.axis if axis is not lane), *sums.op.reduce_axis, lane)
    sums.vectorize(lane)


def _share_chunks(group: Group, place: int, lanes: int) -> None:
    """Share a reduction of everything among threads, by parts of its first loop."""
    s, anchor = group.s, group.anchor
    chunk, _ = s[anchor].split(s[anchor].op.reduce_axis[0], nparts=PARTS)
    own = s.rfactor(list(s[anchor].op.outputs), chunk)[0].op
    partials = _split_lanes(s, own, place, lanes)
    loop = s[own].op.axis[0]
    s[own].parallel(loop)
    for each in partials:
        each.compute_at(s[own], loop)


def _split_lanes(s: Schedule, op: Operation, place: int, lanes: int) -> list[Stage]:
    """Partial results in lanes over a reduce axis, whose loop stands before those of the others, and what takes them together."""
    lane = s[op].op.reduce_axis[place]
    _, inner = s[op].split(lane, factor=floor_power(min(lanes, constant_extent(lane) or lanes)))
    first = s[s.rfactor(list(s[op].op.outputs), inner, -1)[0].op]
    *data, last = first.op.axis
    reduced = list(first.op.reduce_axis)
    first.reorder(*data, reduced.pop(place), *reduced, last)
    first.vectorize(last)
    return [first, *halves(s, op, s[op].op.reduce_axis[0])]
