"""Reductions without reuse, and chains of them over rows: threads share a row, or stand side by side over columns.

    rows[i] = sum over k of A[i, k]       for blockIdx.x: rows   for threadIdx.y: rows of a block
                                            for threadIdx.x:  every 32nd of k, then all threads' sums together
    columns[j] = sum over k of A[k, j]    for blockIdx.x:        for threadIdx.x: neighbours j
                                            for threadIdx.y:  every 8th of k, then together
    softmax, norms                        one block a row, which it computes from end to end; the row stays in the caches

Threads that share a sum of floats add it up in another order, which only `exact=True` forbids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING

from ...codegen.gpus import Gpu, gpu_of
from ...ir.expr import IterVar
from ...ir.visit import post_order
from ...te.axis import thread_axis
from ...te.operation import Operation
from ..estimate import Estimate
from ..loops import fused
from ..operations import contiguous, fixed_extent, is_plain, loads_of
from ..plan import Candidate
from ..row_chain import RowChain, row_chain
from .elements import element_a_thread
from .threads import LAUNCH, THREADS, WARP

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["rows", "sums"]

MOST_SHARED = 32 * 1024
"""Bytes of rows that a block keeps; longer ones are computed again where they are read."""
EACH = 4
"""Terms for each thread that shares a sum, at least."""


def sums(group: Group) -> None:
    """Threads share a sum where there are few of them, else a thread has each."""
    op, gpu = group.anchor, gpu_of(group.target)
    extent = prod(map(fixed_extent, op.reduce_axis))
    results = prod(map(fixed_extent, op.axis)) if op.axis else 1
    candidates = [Candidate("an element a thread", partial(element_a_thread, group), _alone(op, gpu, extent, results))]
    if extent and results and not group.parts:
        along = _is_along_rows(op)
        candidates += [Candidate(f"{threads} threads a sum", partial(_shared, group, threads, along),
                                 _together(op, gpu, extent, results, threads, along))
                       for threads in (4, 8, 16, 32, 128, 256, 1024) if threads * EACH <= extent]
    group.choose("sums", sorted(candidates, key=lambda each: each.estimate.seconds if each.estimate else 0))


def rows(group: Group) -> None:
    """A block has whole rows, from the first reduction to the last element. The chain is found by row_chain."""
    place = {op: at for at, op in enumerate((*group.parts, group.anchor))}
    chain, _ = row_chain(group.anchor, place, group.parts.__contains__)
    assert chain is not None, "the group was cut as a chain"
    if not all(fixed_extent(axis) for op in place for axis in (*op.axis, *op.reduce_axis)):  # sizes that the call decides, or none
        element_a_thread(group)
        return
    group.inline_cheap_heads()
    extent = max(prod(map(fixed_extent, (*op.reduce_axis, *chain.inside.get(op, ())))) for op in place)
    group.choose("rows", [Candidate(str(each), partial(_rows, group, chain, each)) for each in [_Block.of(chain.along, extent)]])


@dataclass(frozen=True)
class _Block:
    """sharing: threads that share a row; beside: rows of a block. along: whether the threads of a row are neighbours, else those of
    rows are."""

    sharing: int
    beside: int
    along: bool

    @staticmethod
    def of(along: bool, extent: int) -> _Block:
        """The one for rows of so many elements."""
        sharing = 1 << (max(ceil(extent / EACH), 1) - 1).bit_length()
        if not along:
            return _Block(min(sharing, THREADS // WARP), WARP, along)
        sharing = min(max(sharing, 4), 1024 if extent > 8192 else THREADS)
        return _Block(sharing, max(WARP * 4 // sharing, 1), along)

    def __str__(self) -> str:
        return f"{self.beside} rows a block, {self.sharing} threads a row"


def _rows(group: Group, chain: RowChain, block: _Block) -> None:
    s, anchor, stage = group.s, group.anchor, group.s[group.output]
    inside = {axis for op in (*group.parts, anchor) for axis in chain.inside.get(op, ())}
    within = [axis in inside for axis in anchor.axis]
    own = list(stage.op.axis)
    if group.output is not anchor and anchor.reduction is None:
        s[anchor].compute_inline()
    at = _row_loops(stage, [axis for axis, is_in in zip(own, within, strict=True) if not is_in],
                    [axis for axis, is_in in zip(own, within, strict=True) if is_in], block)
    stage.bind(at, thread_axis("blockIdx.x"))
    for op in (*group.parts, *((anchor,) if anchor is not group.output and anchor.reduction is not None else ())):
        part = s[op]
        elements = [axis for axis in part.op.axis if axis in inside]
        held = prod(map(fixed_extent, elements)) * block.beside * op.output(0).dtype.bytes
        if elements and held > MOST_SHARED and is_plain(op):
            part.compute_inline()
            continue
        part.compute_at(stage, at)
        part.set_scope("shared")
        _row_loops(part, [axis for axis in part.op.axis if axis not in inside], [*elements, *part.op.reduce_axis], block)


def _row_loops(stage: Stage, outer: Sequence[IterVar], inner: Sequence[IterVar], block: _Block) -> IterVar:
    """The loops over rows, and those over what each is made of, with their threads; returns the loop over blocks."""
    if outer:
        stage.reorder(*outer, *inner)
        some, row = stage.split(outer[-1], factor=block.beside)
        at = fused(stage, [*outer[:-1], some])
        element = stage.split(fused(stage, inner), factor=block.sharing)[1] if inner else None
        if element is None:
            row, element = _one_of(stage, row, block.sharing)
        stage.bind(row, thread_axis((0, block.beside), f"threadIdx.{'y' if block.along else 'x'}"))
    elif inner:
        at, rest = stage.split(fused(stage, inner), nparts=1)
        element = stage.split(rest, factor=block.sharing)[1]
    else:
        at, element = _one_of(stage, stage.fuse(), block.sharing)
    stage.bind(element, thread_axis((0, block.sharing), f"threadIdx.{'x' if block.along else 'y'}"))
    return at


def _one_of(stage: Stage, axis: IterVar, threads: int) -> tuple[IterVar, IterVar]:
    """A loop as itself and one that the first of several threads alone runs."""
    axis, one = stage.split(axis, factor=1)
    return axis, stage.split(one, factor=threads)[1]


def _is_along_rows(op: Operation) -> bool:
    """Whether neighbouring terms lie side by side, rather than neighbouring results."""
    beside = [contiguous(load) for load in loads_of(op)]
    return sum(op.reduce_axis[-1] in axes for axes in beside) >= sum(any(axis in axes for axis in op.axis) for axes in beside)


def _in_windows(op: Operation) -> bool:
    """Whether neighbouring results read near each other all the same."""
    return bool(op.axis) and all(any(node is op.axis[-1] for node in post_order(load.indices[-1])) for load in loads_of(op))


def _shared(group: Group, threads: int, along: bool) -> None:
    """`threads` share each sum; a block has several sums where that leaves room."""
    s, anchor, output = group.s, group.anchor, group.output
    group.inline_cheap_heads()
    stage = s[output]
    together = max(THREADS // threads, 1) if along else WARP
    sharing, beside = ("threadIdx.x", "threadIdx.y") if along else ("threadIdx.y", "threadIdx.x")
    threads = threads if along else min(threads, 1024 // WARP)
    block: IterVar | None = None
    if stage.op.axis:
        block, own = stage.split(fused(stage, list(stage.op.axis)), factor=together)
        stage.bind(block, thread_axis("blockIdx.x"))
        if anchor is output:
            stage.bind(own, thread_axis((0, together), beside))
        block = own
    summing: Stage = s[anchor]
    _, k = summing.split(fused(summing, list(summing.op.reduce_axis)), factor=threads)
    summing.bind(k, thread_axis((0, threads), sharing))
    if anchor is not output:
        one, unit = _one_of(stage, block if block is not None else stage.fuse(), threads)
        if block is None:
            stage.bind(one, thread_axis("blockIdx.x"))
        else:
            stage.bind(one, thread_axis((0, together), beside))
        stage.bind(unit, thread_axis((0, threads), sharing))
        summing.compute_at(stage, one)


def _alone(op: Operation, gpu: Gpu, extent: int, results: int) -> Estimate:
    """Of a thread for each sum: all of its loads one after the other, as many threads at once as there are."""
    waves = ceil(results / (gpu.processors * gpu.threads)) if results else 1
    wait = waves * max(extent, 1) * gpu.latency / 8  # some loads are begun before others have ended
    apart = 8 if extent and _is_along_rows(op) and not _in_windows(op) else 1  # neighbours then read another line each
    return _estimate(op, gpu, extent, results, wait, apart)


def _together(op: Operation, gpu: Gpu, extent: int, results: int, threads: int, along: bool) -> Estimate:
    """Of several threads for each sum, which at last meet log2(threads) times."""
    waves = ceil(results * threads / (gpu.processors * gpu.threads))
    wait = waves * (ceil(extent / threads) * gpu.latency / 8 + 30 * threads.bit_length())
    apart = max(WARP // (threads * 4), 1) if along else 1
    return _estimate(op, gpu, extent, results, wait, apart)


def _estimate(op: Operation, gpu: Gpu, extent: int, results: int, wait: float, apart: float) -> Estimate:
    step = 1 / (gpu.clock * 1e9)
    moved = max(extent, 1) * max(results, 1) * op.output(0).dtype.bits / 8 * apart / gpu.memory_rate
    name, cycles = ("memory bandwidth", moved) if moved > wait else ("waiting for memory", wait)
    return Estimate(((name, cycles * step), ("launch", LAUNCH)))
