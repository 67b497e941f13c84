"""Reductions along rows in their declared order: lanes across rows, which are turned on the way. Where rows are short and much is
done for each term, that is quicker than lanes along rows, which are taken together in the end.

    sum[i] = sum over k of A[i, k]        for rows in parallel:                              # some vectors of them
                                              for k.outer:
                                                  A.tile[k.inner, i] = A[i, k.outer, k.inner]        # turned, in registers
                                                  for k.inner (unrolled):  for i in lanes:  sum[i] += A.tile[k.inner, i]
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...codegen.machine import WAYS
from ...ir import IterVar, post_order
from ..accesses import numeric_shape, op_loads
from ..cost.instructions import instruction_classes
from ..forms.rows import full_load
from ..loops import share_loops
from ..operations import fixed_extent
from .declaration import calls_functions
from .lanes import CHAINS, floor_power
from .threads import worth_threads
from .transposes import MAX_TILE, WORD, find_strided_reads, transpose_rows

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["are_few", "are_short", "rows_in_order"]

FEW = 4
"""Terms of a row up to which elements are read one by one, if each takes one instruction (dot products of 3: 26 us, turned 47).
Without masks, rows that are no whole vectors end in single elements: of those, up to twice as many (6: 73 us, turned 111)."""


def are_short(group: Group) -> bool:
    """Return whether an anchor's rows have so few elements that turning them takes less than taking lanes together in the end does: each
    element is turned once, log2(lanes) times, and lanes are taken together as often by all that takes up a term."""
    reduction = group.anchor.reduction
    if (
        reduction is None
        or len(group.anchor.reduce_axis) != 1
        or any(load.dtype.bits < WORD for load in op_loads(group.anchor))
    ):
        return False  # what is narrow is not turned
    taken = sum(len(instruction_classes(node, group.machine)) for node in post_order(*reduction.combiner.result))
    bits = _bits(group)
    longest = taken * group.machine.lanes(bits)
    if (
        group.machine.masks
    ):  # the last elements of a row cost what others do; what is left is as much again for each bit that moves
        longest = longest * WORD // bits // (1 if reduction.sources[-1].dtype.is_float else 2)
    return 0 < fixed_extent(group.anchor.reduce_axis[0]) < longest


def are_few(group: Group) -> bool:
    """Return whether a row has so few terms, each added by one instruction, that turning rows takes longer than reading them one
    by one."""
    op = group.anchor
    reduction = op.reduction
    return (
        reduction is not None
        and not group.parts
        and op.num_outputs == 1
        and len(op.reduce_axis) == 1
        and 0 < fixed_extent(op.reduce_axis[0]) <= (FEW if group.machine.masks else 2 * FEW - 1)
        and sum(len(instruction_classes(node, group.machine)) for node in post_order(*reduction.combiner.result)) == 1
        and not any(calls_functions(value) for value in op.values)
    )


def _bits(group: Group) -> int:
    return max(tensor.dtype.bits for tensor in group.anchor.outputs)


def _size(group: Group) -> int:
    """Rows that are turned at once, and elements of each: a vector has room for them, and rows have as many."""
    return floor_power(
        max(min(group.machine.lanes(_bits(group)), MAX_TILE, fixed_extent(group.anchor.reduce_axis[-1])), 1)
    )


def rows_in_order(group: Group) -> bool:
    """Schedules a group whose anchor reduces rows that lie side by side; returns whether it is one."""
    s, anchor = group.s, group.anchor
    load, size = full_load(anchor), _size(group)
    if load is None or not load.indices or load.indices[-1] is not anchor.reduce_axis[-1]:
        return False
    row = max(
        (index for index in load.indices if isinstance(index, IterVar) and index in anchor.axis),
        key=lambda axis: (min(fixed_extent(axis), size), anchor.axis.index(axis)),
        default=None,
    )
    if row is None or size < 2 or fixed_extent(row) < size or fixed_extent(anchor.reduce_axis[-1]) < size:
        return False
    place = anchor.axis.index(row)
    threads = worth_threads((*anchor.axis, *anchor.reduce_axis))
    sums = group.cache_sums()
    stage = s[group.output]
    pitch = prod(numeric_shape(load.producer, 1)[load.indices.index(row) + 1 :]) * load.dtype.bytes
    # rows that lie a multiple of a way of the first cache apart drive each other out
    chains = 1 if pitch % (group.machine.l1 // WAYS) == 0 else min(CHAINS, fixed_extent(row) // size)
    several = size * chains
    rows, lane = stage.split(stage.op.axis[place], factor=several)
    outer = [*(axis for at, axis in enumerate(stage.op.axis) if at != place), rows]
    stage.reorder(*outer, lane)
    block = share_loops(stage, outer, threads)
    stage.vectorize(lane)
    sums.compute_at(stage, block)
    data, along = list(sums.op.axis), sums.op.reduce_axis[-1]
    across = find_strided_reads(s, [sums.op], {sums.op: data[place]}, {sums.op: along})
    steps, step = sums.split(along, factor=max(group.machine.line * 8 // anchor.output(0).dtype.bits, size))
    lane = data.pop(place)
    sums.reorder(*data, *sums.op.reduce_axis[:-1], steps, step, lane)
    sums.unroll(step)
    sums.vectorize(lane)
    for source, at in across.items():
        transpose_rows(s, source, at, [sums.op], size).compute_at(sums, steps)
    return True
