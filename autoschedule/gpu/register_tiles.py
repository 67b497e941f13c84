"""Sums of products whose terms other loops count, as those of causal attention: tiles in the registers of a thread.

    value[b, i, e] = sum over j < 64 * b + 64 of weight[b, j, i] * v[j, e]

    for blockIdx.x: b, tiles of i and e       for threadIdx.y, threadIdx.x: 4 x 4 of them
      for j:                                  # as many as this block has
        w[4], r[4] = weight[b, j, 4 of i], v[j, 4 of e]         # 16 bytes each; neighbours read the same, from the first cache
        sums[4, 4] += w * r

How long the sum is differs from block to block, so nothing is kept in shared memory. Terms are taken up in their order.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

from ...ir.expr import IterVar, ProducerLoad
from ...te.axis import thread_axis
from ...te.tensor import find_tensor
from ..accesses import contiguous_axes, domain_axes, find_axes, op_loads
from ..operations import fixed_extent
from ..plan import Candidate
from .threads import EACH, THREADS, count_lanes

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["register_tiles"]


def register_tiles(group: Group) -> list[Candidate]:
    """The way to compute such a sum; none where it has another form."""
    op, output = group.s[group.anchor].op, group.output
    if (
        len(op.axis) < 2
        or op.num_outputs > 1
        or len(op.axis) != len(output.axis)
        or not any(map(domain_axes, op.reduce_axis))
    ):
        return []
    rows, columns = op.axis[-2:]
    loads = op_loads(op)
    sides = [
        [load for load in loads if one in contiguous_axes(load) and not _reads(load, other)]
        for one, other in ((rows, columns), (columns, rows))
    ]
    whole = not any(fixed_extent(axis) % EACH or not fixed_extent(axis) for axis in (rows, columns))
    if (
        not all(sides)
        or len(sides[0]) + len(sides[1]) < len(loads)
        or not whole
        or count_lanes(op.output(0).dtype) < EACH
    ):
        return []
    return group.draft_candidates([(f"{EACH} x {EACH} a thread, from memory, since sums are of many lengths", _apply)])


def _reads(load: ProducerLoad, axis: IterVar) -> bool:
    return any(axis in find_axes(index) for index in load.indices)


def _apply(group: Group) -> None:
    s, sums = group.s, group.cache_sums()
    stage = s[group.output]
    *outer, row, column = stage.op.axis
    rows, row = stage.split(row, factor=EACH)
    columns, column = stage.split(column, factor=EACH)
    some, down = stage.split(rows, factor=min(isqrt(THREADS), fixed_extent(rows) or isqrt(THREADS)))
    others, across = stage.split(columns, factor=min(isqrt(THREADS), fixed_extent(columns) or isqrt(THREADS)))
    stage.reorder(*outer, some, others, down, across, row, column)
    stage.bind(stage.fuse(*outer, some, others), thread_axis("blockIdx.x"))
    stage.bind(down, thread_axis("threadIdx.y"))
    stage.bind(across, thread_axis("threadIdx.x"))
    stage.unroll(row)
    stage.vectorize(column)
    sums.set_scope("local")
    sums.compute_at(stage, across)
    copies = [
        s[s.cache_read(tensor, "local", [sums.op])] for tensor in dict.fromkeys(map(find_tensor, op_loads(sums.op)))
    ]
    *rest, row, column = sums.op.axis
    sums.reorder(*rest, *sums.op.reduce_axis, row, column)
    sums.unroll(row)
    sums.unroll(column)
    for copy in copies:
        copy.compute_at(sums, sums.op.reduce_axis[-1])
        copy.vectorize(copy.op.axis[-1])
