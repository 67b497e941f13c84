"""Scans: lanes and threads over the dimensions that no step mixes, a block of them from the first step to the last.

    sums along columns, y[i, t, j]                       sums along rows, y[i, t]

    for i, columns in parallel:                          for rows in parallel:                # as many as a vector has lanes
                                                             for t:  x.tile[t, lanes] = x[lanes, t]          # turned, in registers
        for t:  for j in lanes:                              for t:  for i in lanes:
            state[t, j] = state[t - 1, j] + x[i, t, j]           state[t, i] = state[t - 1, i] + x.tile[t, i]
        for t:  for j in lanes:  y[i, t, j] = state[t, j]    for t:  y[lanes, t] = state[t, lanes]             # turned back

The states of a block stay in the cache for what reads them, where that is one operation, which has them in another order. Steps
are taken in their order, so that no bit depends on the schedule. Where steps hold reductions, as those of recurrent networks do,
each is computed in tiles that stay in registers, from weights that are copied once, before the first step, where that is quicker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir.expr import IterVar
from ...schedule import Stage
from ...te.shape import constant_extent
from ..accesses import contiguous_axes, op_loads
from ..loops import fuse_axes
from ..operations import is_expensive, is_plain
from .injective import worth_threads
from .lanes import floor_power
from .sums import sums_of_a_step
from .transposes import MAX_TILE, find_strided_reads, transpose_rows

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["scan"]

LINES = 4
"""Lines of the cache side by side that a block of columns has at least, so that memory is read in runs."""


def scan(group: Group) -> None:
    """The rule. The group's parts are what is computed step by step, its output what alone reads the states, or the scan."""
    op, s = group.anchor, group.s
    dims = op.dimensions[0]
    if any(constant_extent(axis) == 0 for axis in dims) or len(dims) < 2:
        return
    if op.num_outputs > 1 or not all(map(is_plain, group.parts)):
        _schedule_steps(group)
        return
    ends = dict.fromkeys(tensor.op for tensor in op.input_tensors)
    for part in group.parts:
        if part not in ends and not is_expensive(part):
            s[part].compute_inline()
    if group.output is op:
        for end in ends:
            _vectorize_step(group, s[end], len(dims) - 1)
        return  # which alone may write its states
    load = next(load for load in op_loads(group.output) if load.producer is op.output(0))
    order = [group.output.axis.index(index) for index in load.indices if isinstance(index, IterVar)]
    if order[0] == len(dims) - 1:
        _schedule_rows(group, order)
    else:
        _schedule_columns(group, order)


def _schedule_steps(group: Group) -> None:
    """Schedule a scan whose steps hold reductions, or which has several states: in each step one operation after the
    other, reductions in tiles of registers, the others in lanes."""
    for part in group.parts:
        if is_plain(part):
            _vectorize_step(group, group.s[part], len(part.axis) - 1)
        elif part.reduction is not None and part.axis:
            sums_of_a_step(replace(group, anchor=part, output=part, parts=(), held=frozenset(part.axis[:1])))


def _schedule_columns(group: Group, order: Sequence[int]) -> None:
    """Schedule a scan whose neighbouring elements are not steps.

    order: the place among the output's axes of each dimension of the states.
    """
    s, stage = group.s, group.s[group.output]
    axes = list(stage.op.axis)
    time, lane = axes[order[0]], axes[-1]
    outer = [axis for axis in axes if axis is not time and axis is not lane]
    width = _columns(group, time, lane)
    if width is not None:
        wide, lane = stage.split(lane, factor=width)
        outer.append(wide)
    if outer:
        _attach_scan(group, stage, outer, [time, lane])
    lanes = _lanes(group)
    if (width or constant_extent(lane) or lanes + 1) > lanes:
        lane = stage.split(lane, factor=lanes)[1]
    stage.vectorize(lane)
    for end in dict.fromkeys(tensor.op for tensor in group.anchor.input_tensors):
        _vectorize_step(group, s[end], order.index(len(axes) - 1))


def _columns(group: Group, time: IterVar, lane: IterVar) -> int | None:
    """Return the number of columns that a block has; None for all."""
    element, extent, steps = group.output.output(0).dtype.bytes, constant_extent(lane), constant_extent(time)
    least = LINES * group.machine.line // element
    most = group.machine.l2 // 2 // ((steps or group.machine.l2) * element)
    if extent is not None and extent <= max(most, least):
        return None
    width = max(most // least * least, least)
    return width if extent is None else -(-extent // (-(-extent // width) * least)) * least


def _schedule_rows(group: Group, order: Sequence[int]) -> None:
    """Schedule a scan whose neighbouring elements are steps:

    as many rows at a time as a vector has lanes, turned on the way in and on the way out.
    """
    s, stage, size = group.s, group.s[group.output], min(floor_power(_lanes(group)), MAX_TILE)
    axes = list(stage.op.axis)
    place = max(range(len(axes) - 1), key=lambda at: (min(constant_extent(axes[at]) or size, size), at))
    if size < 2 or (constant_extent(axes[place]) or size) < size or (constant_extent(axes[-1]) or size) < size:
        return
    rows, row = stage.split(axes[place], factor=size)
    outer = [*(axis for at, axis in enumerate(axes[:-1]) if at != place), rows]
    steps, step = stage.split(axes[-1], factor=size)
    block = _attach_scan(group, stage, outer, [steps, row, step])
    dimension = order.index(place)
    ends = [tensor.op for tensor in dict.fromkeys(group.anchor.input_tensors)]
    across = find_strided_reads(
        s, ends, {end: s[end].op.axis[dimension] for end in ends}, {end: s[end].op.axis[0] for end in ends}
    )
    for source, at in across.items():
        transpose_rows(s, source, at, ends, size).compute_at(stage, block)
    for end in ends:
        _vectorize_step(group, s[end], dimension)
    tile = s[s.cache_read(group.anchor.output(0), "local", [stage.op])]
    tile.compute_at(stage, steps)
    others = [axis for at, axis in enumerate(tile.op.axis) if at != dimension]
    tile.reorder(*others, tile.op.axis[dimension])
    tile.unroll(others[0])
    tile.vectorize(tile.op.axis[dimension])
    stage.unroll(row)
    stage.vectorize(step)


def _attach_scan(group: Group, stage: Stage, outer: Sequence[IterVar], inner: Sequence[IterVar]) -> IterVar:
    """Has the scan computed within each iteration of the outer loops, which threads share."""
    stage.reorder(*outer, *inner)
    block = fuse_axes(stage, outer)
    if worth_threads(group.output.axis, 1 + len(group.parts)):
        stage.parallel(block)
    group.s[group.anchor].compute_at(stage, block)
    return block


def _vectorize_step(group: Group, stage: Stage, dimension: int) -> None:
    """A stage of a step, in vectors over a dimension of the states whose neighbours lie side by side in what it reads."""
    axes = list(stage.op.axis)
    lane = axes[dimension]
    if not any(lane in contiguous_axes(load) for load in op_loads(stage.op)):
        return
    extent, lanes = constant_extent(lane), _lanes(group)
    stage.reorder(*(axis for axis in axes if axis is not lane), lane)
    if extent is None or extent > lanes:
        lane = stage.split(lane, factor=lanes)[1]
    stage.vectorize(lane)


def _lanes(group: Group) -> int:
    return group.machine.lanes(group.anchor.output(0).dtype.bits)
