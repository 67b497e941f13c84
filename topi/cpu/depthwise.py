"""Depthwise convolution.

NCHW: lanes along a row of the result, several rows at once, so that what is read for one is used for those around it:

    for n, c (parallel):
        for x.outer in vectors of a row:                 # unrolled where there are few: their masks are then constants
            for y.outer:
                for ry, rx (unrolled):
                    for y.inner in ROWS (unrolled):
                        sum[y.inner, lanes] += data[...] * kernel[c, ry, rx]
                result[y.outer * ROWS + y.inner, lanes] = sum

NHWC: lanes along the channels, several columns at once. Padding is never stored: rows in it are peeled off, and in lanes
it is masked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import IterVar
from ...te.operation import ComputeOp, Operation
from .injective import constant, worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["accumulator", "best_rows", "depthwise_nchw", "depthwise_nhwc"]

MOST_ROWS = 8
"""Rows or columns of the result computed together: beyond, little is read twice, and code gets long."""
FEW_VECTORS = 4
"""Vectors of a row that are unrolled, borders and all."""
SCRATCH = 4
"""Registers kept for what is neither a sum nor a weight."""


def depthwise_nchw(group: Group) -> None:
    """The rule for data (N, C, H, W)."""
    s = group.s
    _inline_heads(group)
    anchor = group.anchor
    assert isinstance(anchor, ComputeOp)
    taps = [constant(axis) or 1 for axis in anchor.reduce_axis]
    sums = accumulator(group)
    stage = s[group.output]
    n, c, y, x = stage.op.axis
    lanes = group.machine.lanes(anchor.output(0).dtype.bits)
    high, wide = constant(y) or 0, constant(x) or 0
    rows = best_rows(high, taps[0], _step(anchor, 0), _room(group, taps[0] * taps[1]))
    column, lane = stage.split(x, factor=min(lanes, _power_of_two(wide)) if wide else lanes)
    block, row = stage.split(y, factor=rows)
    stage.reorder(n, c, column, block, row, lane)
    stage.unroll(row)
    if wide and -(-wide // lanes) <= FEW_VECTORS:
        stage.unroll(column)
    if constant(x) != 0:
        stage.vectorize(lane)
    _share(group, [n, c], anchor)
    _sum_up(group, sums, block)


def depthwise_nhwc(group: Group) -> None:
    """The rule for data (N, H, W, C)."""
    s = group.s
    _inline_heads(group)
    anchor = group.anchor
    assert isinstance(anchor, ComputeOp)
    taps = [constant(axis) or 1 for axis in anchor.reduce_axis]
    sums = accumulator(group)
    stage = s[group.output]
    n, y, x, c = stage.op.axis
    lanes = group.machine.lanes(anchor.output(0).dtype.bits)
    deep = constant(c) or 0
    columns = best_rows(constant(x) or 0, taps[1], _step(anchor, 1), _room(group, taps[0] * taps[1]))
    channel, lane = stage.split(c, factor=min(lanes, _power_of_two(deep)) if deep else lanes)
    block, column = stage.split(x, factor=columns)
    stage.reorder(n, y, channel, block, column, lane)
    stage.unroll(column)
    if constant(c) != 0:
        stage.vectorize(lane)
    _share(group, [n, y], anchor)
    _sum_up(group, sums, block)


def accumulator(group: Group) -> Operation:
    """Where sums are kept while a reduction runs: the anchor, if others follow it, or else a copy of its own."""
    if group.anchor is not group.output:
        return group.anchor
    return group.s.cache_write(list(group.anchor.outputs), "local")[0].op


def best_rows(extent: int, taps: int, step: int, room: int) -> int:
    """How many neighbouring results to compute together along an axis of `extent` (0: not known), of windows of `taps` that
    move by `step`, with `room` registers for sums: so that the fewest elements are read, none of them for results that do
    not exist where that can be helped."""
    most = max(1, min(MOST_ROWS, room, extent or MOST_ROWS))

    def read(rows: int) -> tuple[int, int]:
        blocks = -(-(extent or 64) // rows)
        waste = blocks * rows - extent if extent else 0
        return blocks * ((rows - 1) * step + taps) + waste * taps, -rows

    return min(range(1, most + 1), key=read)


def _inline_heads(group: Group) -> None:
    for head in group.heads:
        group.s[head].compute_inline()


def _room(group: Group, weights: int) -> int:
    """How many sums the registers hold beside the weights; where those alone are too many, they are read each time."""
    room = group.machine.registers - SCRATCH
    return room - weights if room - weights >= 2 else room // 2


def _step(anchor: ComputeOp, dimension: int) -> int:
    """By how many rows (0) or columns (1) of the data neighbouring results lie apart."""
    return anchor.attrs["stride"][dimension]


def _power_of_two(extent: int) -> int:
    """The least that is no less than `extent`."""
    return 1 << max(extent - 1, 0).bit_length()


def _share(group: Group, outer: list[IterVar], anchor: ComputeOp) -> None:
    """The outermost loops over the threads, where there is enough to do."""
    stage = group.s[group.output]
    if worth_threads((*anchor.axis, *anchor.reduce_axis), 2):
        stage.parallel(stage.fuse(*outer))


def _sum_up(group: Group, sums: Operation, at: IterVar) -> None:
    """The sums of one tile, whose loops are the last two: taps outside, so that each weight is read once for all rows."""
    stage = group.s[sums]
    group.s[sums].compute_at(group.s[group.output], at)
    *outer, first, lane = stage.op.axis
    ry, rx = stage.op.reduce_axis
    stage.reorder(*outer, first, ry, rx, lane)
    for axis in (first, ry, rx):
        stage.unroll(axis)
    if constant(lane) != 0:
        stage.vectorize(lane)

