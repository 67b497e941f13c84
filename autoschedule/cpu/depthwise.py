"""Depthwise convolutions of integers, whose image is a stage of its own, in 16 bits: all others are windows.py's by what they read.

Lanes along the last dimension of the result (a row, or the channels), several places of the one before it at once (rows, or
columns), so that what is read for one is used for those around it. For rows:

    for n, c (parallel):
        for x.outer in vectors of a row:                 # unrolled where there are few: their masks are then constants
            for y.outer:
                for y.inner in ROWS (unrolled):
                    for ry, rx (unrolled):
                        sum[y.inner, lanes] += data[...] * kernel[c, ry, rx]
                result[y.outer * ROWS + y.inner, lanes] = sum
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...codegen.machine import WAYS
from ...schedule import Stage
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..cost.bodies import SCRATCH
from ..loops import unroll_short_loops
from .lanes import VECTORS
from .threads import worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["best_rows", "windows"]


def windows(group: Group) -> None:
    """The rule for windows over (..., rows, columns, [lanes]), each of which gives one element. The anchor's attrs say how
    windows move ("stride", of height and width) and whether its last dimension but one is height or width ("tile", 0 or 1)."""
    s, anchor = group.s, group.anchor
    group.inline_heads()
    sums = group.cache_sums()
    stage = s[group.output]
    *outer, place, last = stage.op.axis
    lanes, extent = group.machine.lanes(anchor.output(0).dtype.bits), constant_extent(last)
    vector, lane = stage.split(last, factor=min(lanes, _power_of_two(extent)) if extent else lanes)
    block, row = stage.split(place, factor=_rows(group, anchor, constant_extent(place) or 0))
    stage.reorder(*outer, vector, block, row, lane)
    stage.unroll(row)
    if extent and -(-extent // lanes) <= VECTORS:  # borders and all
        stage.unroll(vector)
    if extent != 0:
        stage.vectorize(lane)
    if worth_threads((*anchor.axis, *anchor.reduce_axis), 2):
        outer = [stage.fuse(*outer)] if outer else []
        stage.parallel(outer[0] if outer else block)
    sums.compute_at(stage, block)
    _sum_up(sums)


def best_rows(extent: int, taps: int, step: int, room: int) -> int:
    """Return the number of neighbouring results to compute together along an axis of `extent` (0: not known), of windows of `taps` that
    move by `step`, with `room` registers for sums: so that the fewest elements are read, none of them for results that do
    not exist where that can be helped."""
    most = max(1, min(WAYS, room, extent or WAYS))  # beyond, little is read twice, and code gets long

    def read(rows: int) -> tuple[int, int]:
        blocks = -(-(extent or 64) // rows)
        waste = blocks * rows - extent if extent else 0
        return blocks * ((rows - 1) * step + taps) + waste * taps, -rows

    return min(range(1, most + 1), key=read)


def _rows(group: Group, anchor: Operation, extent: int) -> int:
    """Return the number of places to compute together; where the weights alone are too many for the registers, they are read each time."""
    taps = [constant_extent(axis) or 1 for axis in anchor.reduce_axis]
    room = group.machine.registers - 2 * SCRATCH
    weights = prod(taps) if len(anchor.input_tensors) > 1 else 0
    tile: int = anchor.attrs["tile"]
    return best_rows(
        extent, taps[tile], anchor.attrs["stride"][tile], room - weights if room - weights >= 2 else room // 2
    )


def _power_of_two(extent: int) -> int:
    """The least that is no less than `extent`."""
    return 1 << max(extent - 1, 0).bit_length()


def _sum_up(stage: Stage) -> None:
    """The sums of one tile, whose loops are the last two: sum after sum, so that few rows of the data are held at a time."""
    *outer, place, lane = stage.op.axis
    ry, rx = stage.op.reduce_axis
    stage.reorder(*outer, place, ry, rx, lane)
    stage.unroll(place)
    unroll_short_loops(stage, [ry, rx])
    if constant_extent(lane) != 0:
        stage.vectorize(lane)
