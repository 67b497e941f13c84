"""Sums along rows in their declared order: lanes across rows, which are turned on the way.

    sum[i] = sum over k of A[i, k]        for rows in parallel:                              # some vectors of them
                                              for k.outer:
                                                  A.tile[k.inner, i] = A[i, k.outer, k.inner]        # turned, in registers
                                                  for k.inner (unrolled):  for i in lanes:  sum[i] += A.tile[k.inner, i]
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...codegen.machine import WAYS
from ...ir.expr import IntImm, IterVar
from ..loops import fused
from ..operations import fixed_extent
from ..row_chain import whole_load
from .injective import worth_threads
from .lanes import power_below
from .transposes import MAX_TILE, read_across, turned_rows

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["rows_in_order"]

VECTORS = 2
"""Vectors of rows: sums that do not wait for each other, and no more streams from memory than a processor follows. Rows that lie a
multiple of a way of the first cache apart drive each other out: of these, one."""


def rows_in_order(group: Group) -> bool:
    """Schedules a group whose anchor reduces rows that lie side by side; returns whether it is one."""
    s, anchor = group.s, group.anchor
    load, size = whole_load(anchor), min(power_below(group.machine.lanes(anchor.output(0).dtype.bits)), MAX_TILE)
    if load is None or not load.indices or load.indices[-1] is not anchor.reduce_axis[-1]:
        return False
    row = max((index for index in load.indices if isinstance(index, IterVar) and index in anchor.axis),
              key=lambda axis: (min(fixed_extent(axis), size), anchor.axis.index(axis)), default=None)
    if row is None or size < 2 or fixed_extent(row) < size or fixed_extent(anchor.reduce_axis[-1]) < size:
        return False
    place = anchor.axis.index(row)
    threads = worth_threads((*anchor.axis, *anchor.reduce_axis))
    sums = s[anchor] if group.output is not anchor else s[s.cache_write(list(anchor.outputs), "local")[0]]
    stage = s[group.output]
    pitch = prod(extent.value if isinstance(extent, IntImm) else 1
                 for extent in load.producer.shape[load.indices.index(row) + 1:]) * load.dtype.bytes
    several = size * (1 if pitch % (group.machine.l1 // WAYS) == 0 else min(VECTORS, fixed_extent(row) // size))
    rows, lane = stage.split(stage.op.axis[place], factor=several)
    outer = [*(axis for at, axis in enumerate(stage.op.axis) if at != place), rows]
    stage.reorder(*outer, lane)
    block = fused(stage, outer)
    if threads:
        stage.parallel(block)
    stage.vectorize(lane)
    sums.compute_at(stage, block)
    data, along = list(sums.op.axis), sums.op.reduce_axis[-1]
    across = read_across(s, [sums.op], {sums.op: data[place]}, {sums.op: along})
    steps, step = sums.split(along, factor=max(group.machine.line * 8 // anchor.output(0).dtype.bits, size))
    lane = data.pop(place)
    sums.reorder(*data, *sums.op.reduce_axis[:-1], steps, step, lane)
    sums.unroll(step)
    sums.vectorize(lane)
    for source, at in across.items():
        turned_rows(s, source, at, [sums.op], size).compute_at(sums, steps)
    return True
