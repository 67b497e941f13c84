"""Reductions without reuse: threads share a sum, or stand side by side over columns, or blocks share it first.

    rows[i] = sum over k of A[i, k]       for blockIdx.x: rows   for threadIdx.y: rows of a block
                                            for threadIdx.x:  every 32nd vector of k, then all threads' sums together
    columns[j] = sum over k of A[k, j]    for blockIdx.x:        for threadIdx.x: neighbours j
                                            for threadIdx.y:  every 8th of k, then together
    few sums of many terms                blocks have a part of the terms each; a second kernel adds up what they found

Threads that share a sum of floats add it up in another order, which only `exact=True` forbids.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import ceil, gcd, prod
from typing import TYPE_CHECKING

from ...codegen.gpus import Gpu, target_gpu
from ...te.operation import Operation
from ...te.tensor import find_tensor
from ..accesses import contiguous_axes, find_axes, op_loads, tensor_bytes
from ..cost.estimate import Estimate
from ..cost.gpu import kernel_time
from ..operations import fixed_extent, is_shareable
from ..plan import Candidate
from .elements import element_a_thread
from .register_tiles import register_tiles
from .row_blocks import Row, RowBlock, block_time, bytes_at_once, described, row_blocks, shared_rows, terms_beside
from .threads import THREADS, VECTOR, WARP

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["sums"]

FILLED = 4
"""Blocks for each multiprocessor that a sum is split among, at most."""


def sums(group: Group) -> None:
    """Threads share a sum where there are few of them, else a thread has each."""
    op, gpu = group.anchor, target_gpu(group.target)
    extent = prod(map(fixed_extent, op.reduce_axis))
    results = prod(map(fixed_extent, op.axis)) if op.axis else 1
    group.inline_cheap_heads()
    row = _row(group, extent, results)
    candidates = [Candidate("an element a thread", partial(element_a_thread, group), _alone(group.anchor, gpu, row))]
    if extent and results and not group.parts and is_shareable(op):
        candidates += shared_rows(gpu, row, partial(_together, group)) + _among_blocks(group, gpu, row)
    group.choose("sums", register_tiles(group, gpu) or candidates)


def _row(group: Group, extent: int, results: int) -> Row:
    """Describe the terms of a sum."""
    op = group.s[group.anchor].op
    along = _is_along_rows(op)
    read = dict.fromkeys(map(find_tensor, op_loads(op)))
    vector, item = bytes_at_once(terms_beside(op), along, fixed_extent(op.reduce_axis[-1]))
    moved = float(sum(map(tensor_bytes, read)))
    return Row(results, extent, vector, along, moved, 1, item, False)


def _together(group: Group, block: RowBlock) -> None:
    """The threads of a block share each sum of its rows."""
    s, anchor, output = group.s, group.anchor, group.output
    summed = s.cache_write(list(anchor.outputs), "local")[0].op if anchor is output else anchor
    stage = s[output]
    at = block.bind_rows(stage, list(stage.op.axis), ())
    s[summed].compute_at(stage, at)
    block.sum_up(s, summed)


def _among_blocks(group: Group, gpu: Gpu, row: Row) -> list[Candidate]:
    """Blocks share the terms of each sum, where sums alone make too few blocks."""
    op = group.anchor
    first = fixed_extent(op.reduce_axis[0])
    whole = THREADS * row.vector if row.along and len(op.reduce_axis) == 1 else 1
    tiles = row.count if row.along else ceil(row.count / WARP)
    most = min(FILLED * gpu.processors // tiles, first // whole)
    chunk = ceil(first / (max(most, 1) * whole)) * whole
    parts = ceil(first / chunk)
    if parts < 2:
        return []
    begun = replace(row, count=row.count * parts, extent=row.extent // first * chunk)
    over = Row(
        row.count,
        parts,
        gcd(parts, max(VECTOR // row.item, 1)) if row.along else 1,
        row.along,
        float(row.count * parts * row.item),
        1,
        row.item,
        False,
    )
    ways = [row_blocks(each) for each in (begun, over)]
    if not all(ways):
        return []
    best = [
        min(some, key=lambda way: block_time(gpu, way, each).seconds)
        for some, each in zip(ways, (begun, over), strict=True)
    ]
    times = [block_time(gpu, way, each) for way, each in zip(best, (begun, over), strict=True)]
    return [
        Candidate(
            f"{parts} blocks a sum, then {described(best[1], over)}",
            partial(_in_parts, group, chunk, best[0], best[1]),
            Estimate(times[0].parts + times[1].parts),
        )
    ]


def _in_parts(group: Group, chunk: int, first: RowBlock, last: RowBlock) -> None:
    """Blocks begin sums of `chunk` terms along the first axis each; others end them."""
    s, anchor = group.s, group.anchor
    part, _ = s[anchor].split(s[anchor].op.reduce_axis[0], factor=chunk)
    begun = s.rfactor(list(anchor.outputs), part, len(anchor.axis) if last.along else 0)[0].op
    _together(replace(group, anchor=begun, output=begun), first)
    _together(group, last)


def _is_along_rows(op: Operation) -> bool:
    """Return whether neighbouring terms lie side by side, rather than neighbouring results, in most of what is read."""
    beside = [(contiguous_axes(load), tensor_bytes(find_tensor(load))) for load in op_loads(op)]
    terms = sum(size for axes, size in beside if op.reduce_axis[-1] in axes)
    return terms >= sum(size for axes, size in beside if any(axis in axes for axis in op.axis))


def _in_windows(op: Operation) -> bool:
    """Return whether neighbouring results read near each other all the same."""
    return bool(op.axis) and all(op.axis[-1] in find_axes(load.indices[-1]) for load in op_loads(op) if load.indices)


def _alone(op: Operation, gpu: Gpu, row: Row) -> Estimate:
    """Of a thread for each sum: all of its loads one after the other, as many threads at once as there are."""
    waves = ceil(row.count / (gpu.processors * gpu.threads)) if row.count else 1
    wait = waves * max(row.extent, 1) * gpu.latency / 8  # some loads are begun before others have ended
    apart = 8 if row.extent and row.along and not _in_windows(op) else 1  # neighbours then read another line each
    return kernel_time(gpu, ("waiting for memory", wait), unique=row.moved * apart)
