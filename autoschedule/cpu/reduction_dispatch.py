"""Reductions that are not products, of which nothing is known but what they read.

a data axis is contiguous where it is read           a reduce axis is
(column sums, products of matrices)                  (row sums)

for outer (fused, in parallel):                      for outer (fused, in parallel):
    for i.inner in lanes:  sum = 0                       for lanes: partial = 0
    for k:                                               for k.outer:  for k.inner in lanes: partial += ...
        for i.inner in lanes:  sum += ...                for k.inner:  sum += partial
    for i.inner in lanes:  B[.., i] = sum ...            B[..] = sum ...
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...ir.expr import IterVar
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..accesses import contiguous_axes, domain_axes, op_loads
from ..cost.doubts import GUARDED
from ..cost.estimate import add_estimates, pad_estimate
from ..forms.window import is_sliding, is_window
from ..loops import share_loops, split_longer
from ..operations import find_inlined, fixed_extent
from ..plan import Candidate
from .contraction import contraction
from .conv import convolution
from .histograms import schedule_cells
from .lanes import VECTORS
from .ordered_rows import are_few, are_short, rows_in_order
from .reduce import reads_once, reduce
from .sums import keep_loops, sums, time_of_sums
from .threads import PARTS, worth_threads
from .tuples import tuples
from .windows import time_of_images, window_ways

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["contraction_or_sums", "reduction", "sums_in_order"]


def reduction(group: Group) -> None:
    """The rule. Heads that cost little are inlined, the others stay stages of their own."""
    if schedule_cells(group):
        return
    if reads_once(group):
        group.choose("reduce", group.draft_candidates([("its one way", _read_once)], ordered=True))
    elif not _windows(group) and not convolution(group, partial(contraction_or_sums, group)):
        contraction_or_sums(group)


def _read_once(group: Group) -> None:
    """Schedule a reduction that memory bounds."""
    if are_few(group):
        keep_loops(group)
    elif not (are_short(group) and rows_in_order(group)):
        reduce(group)


def _windows(group: Group) -> bool:
    """Schedules a group whose anchor is a window over what it reads; does nothing and returns False where it is none."""
    sliding = (axis for axis in group.anchor.reduce_axis if constant_extent(axis) != 1)
    if group.parts or not is_window(group.anchor) or not all(map(partial(is_sliding, group.anchor), sliding)):
        return False
    ways = window_ways(group, (*group.heads, *([group.anchor] if group.anchor is not group.output else [])))
    if not ways:
        return False
    sums = time_of_sums(group)
    if sums is not None:
        images = [time_of_images(group, group.heads)] if group.heads else []
        sums = add_estimates([pad_estimate(sums, GUARDED), *images])
        ways.append(Candidate("as any sum", partial(contraction_or_sums, group), sums))
    group.choose("windows", ways)
    return True


def contraction_or_sums(group: Group) -> None:
    """Schedule sums of any form: as products of matrices where they are some, and where that takes less time."""
    if not contraction(group, partial(_other_sums, group), partial(time_of_sums, group)):
        _other_sums(group)


def _other_sums(group: Group) -> None:
    """Sums that are not products of matrices."""
    if tuples(group, in_order=False):
        return
    lane = _lane_axis(group, group.anchor)
    if sums(group, lane, VECTORS):
        return
    plainly = partial(_schedule_without_tile, lane=lane)
    group.choose("sums", group.draft_candidates([("plain lanes", plainly)], ordered=True))


def _schedule_without_tile(group: Group, lane: IterVar | None) -> None:
    """Schedule sums without a tile, in lanes over an axis."""
    group.inline_cheap_heads()
    if not group.s[group.output].op.axis:
        _reduce_to_scalar(group, group.anchor, lane)
    elif lane is not None and lane.kind == "reduce":
        _rows(group, group.anchor, lane)
    else:
        _columns(group, group.anchor, lane)


def sums_in_order(group: Group) -> None:
    """The rule for sums that must not be reordered: lanes and threads over data axes alone."""
    group.inline_cheap_heads()
    if group.s[group.output].op.axis and not rows_in_order(group) and not tuples(group, in_order=True):
        lane = _lane_axis(group, group.anchor)
        _columns(group, group.anchor, lane if lane is not None and lane.kind == "data" else None)


def _lane_axis(group: Group, anchor: Operation) -> IterVar | None:
    """The axis along which neighbouring elements are read: the last one over data before those that are reduced over."""
    along = {axis for load in op_loads(anchor) for axis in contiguous_axes(load)}
    lanes = group.machine.lanes(anchor.output(0).dtype.bits)
    tied = {axis for reduced in anchor.reduce_axis for axis in domain_axes(reduced)}
    if anchor.axis and anchor.axis[-1] in along - tied and (constant_extent(anchor.axis[-1]) or lanes) >= lanes:
        return anchor.axis[-1]
    reduced = reversed(anchor.reduce_axis)
    return next((axis for axis in reduced if axis in along and fixed_extent(axis) >= 2 * lanes), None)


def _worth(group: Group, anchor: Operation) -> bool:
    return worth_threads((*anchor.axis, *anchor.reduce_axis), 1 + len(find_inlined(group.s, anchor)))


def _columns(group: Group, anchor: Operation, lane: IterVar | None) -> None:
    """Lanes over the last data axis, where that is read without gaps."""
    inner, stage = group.cache_sums(), group.s[group.output]
    *outer, last = stage.op.axis
    lanes = group.machine.lanes(anchor.output(0).dtype.bits) * VECTORS
    extent = constant_extent(last)
    if lane is None:
        outer.append(last)
    else:
        rest, last = split_longer(stage, last, extent, lanes)
        outer += rest
    if outer:
        row = share_loops(stage, outer, _worth(group, anchor))
        inner.compute_at(stage, row)
    if lane is None or extent == 0:
        return
    stage.vectorize(last)
    *data, lane = inner.op.axis
    inner.reorder(*data, *inner.op.reduce_axis, lane)
    inner.vectorize(lane)


def _rows(group: Group, anchor: Operation, lane: IterVar) -> None:
    """Partial results in lanes over a reduce axis."""
    s = group.s
    parallel = _worth(group, anchor)
    partial = _schedule_lanes(group, anchor, lane)
    stage = s[group.output]
    axes = list(stage.op.axis)
    row = share_loops(stage, axes, parallel)
    if anchor is not group.output:
        s[anchor].compute_at(stage, row)
    s[partial].compute_at(stage, row)


def _schedule_lanes(group: Group, op: Operation, lane: IterVar) -> Operation:
    """The operation of the partial results of the reduce axis `lane` of `op`, scheduled."""
    s = group.s
    lanes = group.machine.lanes(op.output(0).dtype.bits)
    extent = constant_extent(lane) or 0
    _, inner = s[op].split(lane, factor=lanes * (VECTORS if extent >= 2 * VECTORS * lanes else 1))
    partial = s.rfactor(list(s[op].op.outputs), inner, -1)[0].op
    stage = s[partial]
    *data, last = stage.op.axis
    stage.reorder(*data, *stage.op.reduce_axis, last)
    stage.vectorize(last)
    return partial


def _reduce_to_scalar(group: Group, anchor: Operation, lane: IterVar | None) -> None:
    """A reduction of everything to one element: chunks for the threads, lanes within each."""
    s = group.s
    first = anchor.reduce_axis[0]
    chunked = _worth(group, anchor) and (constant_extent(first) or 0) >= 2 * PARTS
    if chunked:
        chunk, _ = s[anchor].split(first, nparts=PARTS)
        chunks = s.rfactor(list(anchor.outputs), chunk)[0].op
        inner = chunks.reduce_axis[-1] if lane is not None else None
        if inner is not None and (constant_extent(inner) or 0) >= 2 * group.machine.lanes(anchor.output(0).dtype.bits):
            partial = _schedule_lanes(group, chunks, inner)
            s[partial].compute_at(s[chunks], s[chunks].op.axis[0])
        s[chunks].parallel(s[chunks].op.axis[0])
    elif lane is not None and lane.kind == "reduce":
        _schedule_lanes(group, anchor, lane)
