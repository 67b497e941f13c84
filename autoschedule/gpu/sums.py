"""Reductions without reuse: threads share a sum, or stand side by side over columns, or blocks share it first.

    rows[i] = sum over k of A[i, k]       for blockIdx.x: rows   for threadIdx.y: rows of a block
                                            for threadIdx.x:  every 32nd vector of k, then all threads' sums together
    columns[j] = sum over k of A[k, j]    for blockIdx.x:        for threadIdx.x: neighbours j
                                            for threadIdx.y:  every 8th of k, then together
    few sums of many terms                blocks have a part of the terms each; a second kernel adds up what they found

Threads that share a sum of floats add it up in another order, which only `exact=True` forbids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil, gcd
from typing import TYPE_CHECKING, TypeAlias

from ...codegen.gpus import target_gpu
from ...te.operation import Operation
from ...te.tensor import find_tensor
from ..accesses import contiguous_axes, op_loads, tensor_bytes
from ..operations import fixed_extent, is_shareable, iteration_count
from ..plan import Candidate
from .elements import DECLARED, choose_or_declared, element_a_thread
from .register_tiles import register_tiles
from .row_blocks import Row, RowBlock, bytes_at_once, describe_block, find_vector_terms, row_blocks
from .threads import EACH, THREADS, VECTOR, WARP

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["apply_usual", "sums"]


def sums(group: Group) -> None:
    """Threads share a sum where there are few of them, else a thread has each."""
    group.inline_cheap_heads()
    choose_or_declared(group, "sums", sum_candidates(group))


def sum_candidates(group: Group) -> list[Candidate]:
    """The ways to compute a sum."""
    tiles = register_tiles(group)
    if tiles:
        return tiles
    blocks, among = _shared_ways(group)
    return group.draft_candidates([(DECLARED, element_a_thread), *blocks, *among])


def apply_usual(group: Group) -> None:
    """Schedule a sum in the way that is mostly the quickest: blocks share it where there are few, else the threads of some warps."""
    blocks, among = _shared_ways(group)
    ways = among or blocks[len(blocks) // 2 :]
    (ways[0][1] if ways else element_a_thread)(group)


_Way: TypeAlias = "tuple[str, Callable[[Group], None]]"
"""A description, and what schedules a group so."""


def _shared_ways(group: Group) -> tuple[list[_Way], list[_Way]]:
    """The ways in which the threads of a block share a sum, and those in which blocks do first."""
    op = group.anchor
    extent, results = iteration_count(op.reduce_axis), iteration_count(op.axis)
    if not extent or not results or group.parts or not is_shareable(op):
        return [], []
    row = _row(group, extent, results)
    return [(describe_block(way, row), partial(_apply_block, way)) for way in row_blocks(row)], _among_blocks(
        group, row
    )


def _row(group: Group, extent: int, results: int) -> Row:
    """Describe the terms of a sum."""
    op = group.s[group.anchor].op
    along = _is_along_rows(op)
    vector, item = bytes_at_once(find_vector_terms(op), along, fixed_extent(op.reduce_axis[-1]))
    return Row(results, extent, vector, along, item, False)


def _apply_block(block: RowBlock, group: Group) -> None:
    """The threads of a block share each sum of its rows."""
    s, summed = group.s, group.cache_sums()
    stage = s[group.output]
    at = block.bind_rows(stage, list(stage.op.axis), ())
    summed.compute_at(stage, at)
    block.sum_up(s, summed.op)


def _among_blocks(group: Group, row: Row) -> list[_Way]:
    """Blocks share the terms of each sum, where sums alone make too few blocks."""
    op, gpu = group.anchor, target_gpu(group.target)
    first = fixed_extent(op.reduce_axis[0])
    whole = THREADS * row.vector if row.along and len(op.reduce_axis) == 1 else 1
    tiles = row.count if row.along else ceil(row.count / WARP)
    most = min(EACH * gpu.processors // tiles, first // whole)
    chunk = ceil(first / (max(most, 1) * whole)) * whole
    parts = ceil(first / chunk)
    if parts < 2:
        return []
    begun = replace(row, count=row.count * parts, extent=row.extent // first * chunk)
    vector = gcd(parts, max(VECTOR // row.item, 1)) if row.along else 1
    over = replace(row, extent=parts, vector=vector)
    ways, ends = row_blocks(begun), row_blocks(over)
    if not ways or not ends:
        return []
    begin = min(ways, key=lambda way: abs(way.threads - THREADS))
    end = min(ends, key=lambda way: abs(way.threads - WARP))
    return [(f"{parts} blocks a sum, then {describe_block(end, over)}", partial(_apply_parts, chunk, begin, end))]


def _apply_parts(chunk: int, first: RowBlock, last: RowBlock, group: Group) -> None:
    """Blocks begin sums of `chunk` terms along the first axis each; others end them."""
    s, anchor = group.s, group.anchor
    part, _ = s[anchor].split(s[anchor].op.reduce_axis[0], factor=chunk)
    begun = s.rfactor(list(anchor.outputs), part, len(anchor.axis) if last.along else 0)[0].op
    _apply_block(first, replace(group, anchor=begun, output=begun))
    _apply_block(last, group)


def _is_along_rows(op: Operation) -> bool:
    """Return whether neighbouring terms lie side by side, rather than neighbouring results, in most of what is read."""
    beside = [(contiguous_axes(load), tensor_bytes(find_tensor(load))) for load in op_loads(op)]
    terms = sum(size for axes, size in beside if op.reduce_axis[-1] in axes)
    return terms >= sum(size for axes, size in beside if any(axis in axes for axis in op.axis))
