"""Operations without a reduction: 16 bytes a thread, and tiles in shared memory for what is read across.

    for blockIdx.x:  for threadIdx.x in 256:  B[4 at once] = ..         rows of whole vectors: all axes as one

    for blockIdx.y, blockIdx.x:                                         A[x, y] is read down its columns
      A.shared[32, 32] = A[..]                                          as it lies, side by side
      for threadIdx.y in 8:  for threadIdx.x in 32:  4 rows of B[y, x] = A.shared[x, y]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import IterVar, ProducerLoad
from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.tensor import tensor_of
from ..operations import contiguous, elements, fixed_extent, loads_of
from .threads import THREADS, WARP, lanes_of

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage
    from ..groups import Group

__all__ = ["element_a_thread", "injective"]

TILE_ROWS = 8
"""Threads along the rows of a tile that is read across."""


def injective(group: Group) -> None:
    """16 bytes a thread, or tiles in shared memory for what is read across."""
    group.inline_cheap_heads()
    across = _read_across(group.s[group.output].op)
    if across:
        _in_tiles(group, *across)
    else:
        vectors_a_thread(group.s[group.output])


def element_a_thread(group: Group) -> None:
    """A thread for each element of what a group stores, computed there from its first term to its last."""
    group.inline_cheap_heads()
    for op in group.parts:
        _a_thread_each(group.s, op, op)
    _a_thread_each(group.s, group.output, group.anchor)


def vectors_a_thread(stage: Stage) -> None:
    """A thread for each 16 bytes, where rows consist of such; else for each element."""
    lanes = lanes_of(stage.op.output(0).dtype)
    rows = fixed_extent(stage.op.axis[-1]) if stage.op.axis else 0
    if not rows or rows % lanes or lanes == 1:
        _bind(stage, stage.fuse(*stage.op.axis))
        return
    rest, vector = stage.split(stage.fuse(*stage.op.axis), factor=lanes)
    stage.vectorize(vector)
    _bind(stage, rest)


def _a_thread_each(s: Schedule, output: Operation, anchor: Operation) -> None:
    """A thread for each element of what is stored, with the anchor's in registers."""
    inner = anchor
    if anchor is output and anchor.reduction is not None:
        inner = s.cache_write(list(anchor.outputs), "local")[0].op
    stage = s[output]
    thread = _bind(stage, stage.fuse(*stage.op.axis))
    if inner is not output:
        s[inner].set_scope("local")
        s[inner].compute_at(stage, thread)


def _bind(stage: Stage, axis: IterVar) -> IterVar:
    """Its iterations as threads of blocks; returns the loop of threads."""
    block, thread = stage.split(axis, factor=THREADS)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(thread, thread_axis("threadIdx.x"))
    return thread


def _read_across(op: Operation) -> tuple[IterVar, list[ProducerLoad]] | None:
    """The axis along which neighbours are read side by side though they are not stored so, and the reads; None where there is none,
    or too little to share."""
    if not op.axis or elements(op) is None:
        return None
    last, loads = op.axis[-1], loads_of(op)
    for axis in op.axis[:-1]:
        own = [load for load in loads if axis in contiguous(load) and last in load.indices]
        if own and fixed_extent(axis) >= WARP // 2 and fixed_extent(last) >= WARP // 2:
            return axis, own
    return None


def _in_tiles(group: Group, across: IterVar, loads: list[ProducerLoad]) -> None:
    s, output = group.s, group.output
    place = s[output].op.axis.index(across)
    sources = list(dict.fromkeys(tensor_of(load) for load in loads))
    copies = [s[s.cache_read(tensor, "shared", [s[output]])] for tensor in sources]
    stage = s[output]
    y, x = stage.op.axis[place], stage.op.axis[-1]
    rows, row = stage.split(y, factor=WARP)
    columns, column = stage.split(x, factor=WARP)
    some, row = stage.split(row, factor=TILE_ROWS)
    others = [axis for axis in stage.op.axis if axis not in (y, x)]
    stage.reorder(*others, rows, columns, row, column, some)
    block = stage.fuse(*others, rows, columns)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(row, thread_axis((0, TILE_ROWS), "threadIdx.y"))
    stage.bind(column, thread_axis((0, WARP), "threadIdx.x"))
    for copy in copies:
        copy.compute_at(stage, block)
        copy.storage_align(copy.op.axis[-2], 2, 1)
        rest, thread = copy.split(copy.fuse(*copy.op.axis), factor=WARP)
        rest, down = copy.split(rest, factor=TILE_ROWS)
        copy.bind(down, thread_axis((0, TILE_ROWS), "threadIdx.y"))
        copy.bind(thread, thread_axis((0, WARP), "threadIdx.x"))
