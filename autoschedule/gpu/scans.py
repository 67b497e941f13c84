"""Scans on GPUs: the rows that a block has, whole in shared memory, or all the elements of each step.

    for blockIdx.x: 31 rows
      x.shared[rows, t] = x[..]                                # side by side, by all threads
      for t:  for threadIdx.x: rows                            # each thread one row: steps are taken in their order
        state.shared[t, rows] = state.shared[t - 1, rows] + x.shared[rows, t]
      y[rows, t] = state.shared[t, rows]                       # side by side again

That is where time is what lies side by side. Elsewhere a scan is one kernel: threads share the elements of each step, those of many
blocks where no step mixes columns, else of one. Steps are taken in their order, so that no bit depends on the schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING

from ...base import dataclass, replace
from ...codegen.gpus import target_gpu
from ...ir.analysis.warps import LINE
from ...ir.expr import IterVar, ProducerLoad
from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.shape import constant_extent
from ...te.tensor import Tensor, find_tensor
from ..accesses import find_axes, op_loads
from ..cost.gpu import estimate_works
from ..cost.kernels import KernelWork, Phase, Unique
from ..operations import fixed_extent, is_plain
from ..plan import Candidate
from .elements import injective
from .threads import THREADS, WARP

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage
    from ..groups import Group

__all__ = ["scan", "share_scan"]

ROWS = (7, 15, 31)
"""Of a block, the fewest first, which fill the machine: odd numbers, so that neighbouring steps of a row lie in different banks."""


@dataclass(frozen=True)
class _Rows:
    """A scan whose results lie along time. row: the dimension of the states that lies next to it; sources: what is read along
    time. bytes_of_one: of shared memory, of a row of all of them."""

    row: int
    steps: int
    count: int
    sources: tuple[Tensor, ...]
    bytes_of_one: int


def scan(group: Group) -> None:
    """The rule. The group's parts are what is computed step by step, its output what alone reads the states, or the scan."""
    s, gpu = group.s, target_gpu(group.target)
    steps = dict.fromkeys(tensor.op for tensor in group.anchor.input_tensors)
    for op in (part for part in group.parts if part not in steps and is_plain(part) and group.anchor.num_outputs == 1):
        s[op].compute_inline()
    found = _rows(group, list(steps))
    ways = [] if found is None else [each for each in ROWS if found.bytes_of_one * each <= gpu.block_shared]
    if found is not None and ways:
        group.choose(
            "scan",
            [
                Candidate(
                    f"{each} rows a block, whole in shared memory, a thread a row",
                    partial(_apply_rows, group, found, each),
                    estimate_works([_count(found, each)], gpu),
                )
                for each in ways
            ],
        )
        return
    share_scan(s, group.anchor, group.parts)
    if group.output is not group.anchor:
        injective(replace(group, anchor=group.output, parts=()))


def _rows(group: Group, steps: Sequence[Operation]) -> _Rows | None:
    """Return the part of a scan that the rule can keep in shared memory; None where that is nothing."""
    op, output, s = group.anchor, group.output, group.s
    dims = op.dimensions[0]
    if output is op or len(dims) < 2 or not all(map(is_plain, (*group.parts, output))):
        return None
    load = next(load for load in op_loads(output) if load.producer is op.output(0))
    if load.indices[0] is not output.axis[-1] or not all(constant_extent(axis) for axis in (*dims, *output.axis)):
        return None
    ends = [s[each].op for each in steps]
    own = all(
        each.indices[1:] == end.axis[1:]
        for end in ends
        for each in op_loads(end)
        if each.producer in op.own_placeholders
    )
    if not own or fixed_extent(output.axis[-2]) < ROWS[0]:
        return None
    row = next(at for at, index in enumerate(load.indices) if index is output.axis[-2])
    read = [each for end in ends for each in op_loads(end) if _is_along_time(each, end)]
    sources = tuple(dict.fromkeys(find_tensor(each) for each in read if each.producer not in op.own_placeholders))
    length, item = fixed_extent(dims[0]), op.output(0).dtype.bytes
    size = (length + 1) * (item + sum(source.dtype.bytes for source in sources))
    return _Rows(row, length, prod(map(fixed_extent, dims[1:])), sources, size)


def _is_along_time(load: ProducerLoad, end: Operation) -> bool:
    """Return whether a step reads, side by side with what others read, what its own time tells; a first step reads the first of it."""
    if len(load.indices) != len(end.axis):
        return False
    return (
        end.axis[0] in find_axes(load.indices[-1])
        or constant_extent(end.axis[0]) == 1
        and not find_axes(load.indices[-1])
    )


def _count(found: _Rows, rows: int) -> KernelWork:
    """Count the work of blocks of so many rows: steps one after another, with a barrier before each, and rows that come and go."""
    moved = found.bytes_of_one * rows
    unique: Unique = {(found.sources[0], False): float(found.count * found.bytes_of_one)}
    steps = Phase(found.steps, is_synchronized=True)
    fill = Phase(1.0, is_synchronized=True, accessed=2 * moved / LINE, loads=moved / THREADS / 4)
    return KernelWork(ceil(found.count / rows), THREADS, 16, moved, moved, moved, unique, 0.0, [steps, fill])


def _apply_rows(group: Group, found: _Rows, rows: int) -> None:
    s, op = group.s, group.anchor
    along, across = thread_axis((0, WARP), "threadIdx.x"), thread_axis((0, THREADS // WARP), "threadIdx.y")
    stage = s[group.output]
    *outer, row, time = stage.op.axis
    block, row = stage.split(row, factor=rows)
    stage.reorder(*outer, block, row, time)
    block = stage.fuse(*outer, block)
    stage.bind(block, thread_axis("blockIdx.x"))
    _share(stage, row, time, along, across)
    ends = [s[each.op] for each in dict.fromkeys(s[op].op.input_tensors)]
    for source in found.sources:
        copy = s[s.cache_read(source, "shared", [end.op for end in ends if source in end.op.input_tensors])]
        copy.compute_at(stage, block)
        copy.storage_align(copy.op.axis[-2], 2, 1)
        _share(copy, copy.op.axis[-2], copy.op.axis[-1], along, across)
    s[op].set_scope("shared")
    s[op].compute_at(stage, block)
    for end in ends:
        end.bind(end.split(end.op.axis[found.row], factor=WARP)[1], along)


def _share(stage: Stage, row: IterVar, time: IterVar, along: IterVar, across: IterVar) -> None:
    """Has threads share rows of neighbours."""
    some, row = stage.split(row, factor=fixed_extent(across))
    times, time = stage.split(time, factor=fixed_extent(along))
    stage.reorder(some, times, row, time)
    stage.bind(row, across)
    stage.bind(time, along)


def share_scan(s: Schedule, scan: Operation, between: Iterable[Operation]) -> None:
    """Schedules a scan: blocks of columns where no step mixes them, else one block. between: what is computed step by step on the
    way to its updates."""
    steps = dict.fromkeys(tensor.op for tensor in scan.input_tensors)
    inner = [op for op in between if op not in steps]
    for op in filter(is_plain, inner):
        s[op].compute_inline()
    blocks, threads = _columns(scan, [s[op].op for op in steps], apart=all(map(is_plain, inner)))
    block, thread = thread_axis((0, blocks), "blockIdx.x"), thread_axis((0, threads), "threadIdx.x")
    s[scan].env_threads([block, thread])
    for op in steps:
        stage = s[op]
        if len(op.axis) > 1:
            outer, inner = stage.split(stage.fuse(*op.axis[1:]), factor=threads)
            stage.bind(inner, thread)
            if blocks > 1:
                stage.bind(outer, block)


def _columns(scan: Operation, steps: Sequence[Operation], apart: bool) -> tuple[int, int]:
    """Return the number of blocks, and of their threads, that share the elements of a step. apart: whether nothing but
    the steps is computed in one; blocks may share these if each column of theirs reads its own states alone."""
    extents = [[constant_extent(axis) for axis in op.axis[1:]] for op in steps]
    if any(None in each for each in extents):
        return 1, THREADS
    sizes = [prod(extent for extent in each if extent is not None) for each in extents]
    own = all(
        load.indices[1:] == op.axis[1:]
        for op in steps
        for load in op_loads(op)
        if load.producer in scan.own_placeholders
    )
    if not (apart and own) or len(set(sizes)) > 1 or max(sizes) <= WARP:
        return 1, max(min(max(sizes), THREADS), 1)
    return ceil(max(sizes) / WARP), WARP  # few a block, since each takes as long as there are steps
