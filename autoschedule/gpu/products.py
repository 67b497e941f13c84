"""Sums of products of two tensors, tile by tile in shared memory: any contraction, convolution or batched product.

    C[i, j] = sum over k of A[i, k] * B[k, j]

    for blockIdx.z: batches   blockIdx.y, blockIdx.x: tiles of 128 x 128        # rows and columns: all axes of each side as one
      for k.outer:
        A.shared[128, 16], B.shared[16, 128]  = the block's part                # by all threads, 16 bytes each where they lie so
        for k in 16:   (as many at once as 16 bytes hold)
          a[8], b[8] = of A.shared, of B.shared                                 # registers
          sums[8, 8] += a * b                                                   # each thread's, 2 x 2 tiles of 4 x 4 apart
      C[i, j] = sums

Each panel lies in shared memory as its source does: along the sum, or along its own side, so that what is read side by side is
stored side by side. The threads' tiles lie apart (virtual threads), so that neighbours read neighbouring 16 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, gcd, prod
from typing import TYPE_CHECKING

from ...codegen.gpus import Gpu, gpu_of
from ...ir.dtype import DType
from ...ir.expr import Expr, IterVar, ProducerLoad
from ...te.axis import thread_axis
from ..contractions import Contraction, as_matrix, contraction_of, copied, flat, upstream
from ..estimate import Estimate
from ..loops import fused
from ..operations import contiguous, fixed_extent, size_of
from ..plan import Candidate
from .tensor_cores import on_tensor_cores
from .threads import LAUNCH, VECTOR, WARP, apart_in_banks, blocks_at_once, lanes_of, slowest

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["product"]

DEPTHS = (16, 32, 24, 8, 12, 20, 28)
"""Terms of the sum in shared memory, the best first; one that divides the sum needs no guards."""
OWN = ((8, 8), (8, 4), (4, 4), (4, 2), (2, 2), (2, 1))
"""Results of a thread, rows and columns."""
STAGES = (1, 3, 4)
THREADS = ((16, 16), (8, 16), (8, 8), (4, 16), (4, 8))
OTHER_REGISTERS = 40
"""Of a thread, beside its results and what they are made of: addresses, counters."""
CROWDED = 0.25
"""Of the time that the L2 cache takes, how much nothing else fills: blocks that begin together ask together."""
BARRIER = 30
"""Cycles for which the threads of a block wait for each other, twice for each part of the sum."""


@dataclass(frozen=True)
class Tile:
    """rows, columns: of a block; threads: (along rows, along columns); depth: terms of the sum in shared memory. stages: of the
    pipeline that fills it; 1 where a part is loaded when it is needed."""

    rows: int
    columns: int
    threads: tuple[int, int]
    depth: int
    stages: int = 1

    @property
    def own(self) -> tuple[int, int]:
        """Rows and columns of a thread."""
        return self.rows // self.threads[0], self.columns // self.threads[1]

    def __str__(self) -> str:
        return (f"tiles of {self.rows} x {self.columns} x {self.depth}, {self.threads[0]} x {self.threads[1]} threads "
                f"of {self.own[0]} x {self.own[1]}{f', {self.stages} stages' if self.stages > 1 else ''}")


def product(group: Group) -> bool:
    """Tiles in shared memory and in registers, on tensor cores where the dtypes are theirs. Does nothing and returns False where
    the anchor is no sum of products."""
    if group.parts:
        return False
    candidates = on_tensor_cores(group)
    found = contraction_of(group.anchor)
    if found is not None:
        gpu, bits = gpu_of(group.target), group.anchor.output(0).dtype.bits
        ways = sorted(((_time(found, tile, gpu, bits), tile) for tile in _tiles(found, gpu, bits)), key=lambda way: way[0].seconds)
        candidates += [Candidate(str(tile), partial(_apply, group, found, tile), time) for time, tile in ways]
    if candidates:
        group.choose("product", candidates)
    return bool(candidates)


def _tiles(found: Contraction, gpu: Gpu, bits: int) -> Iterator[Tile]:
    """Those that fit the shared memory of a block, and are no more than twice as large as the result."""
    rows, columns, terms = map(size_of, (found.rows, found.columns, found.summed))
    depth = next((each for each in DEPTHS if terms % each == 0), min(16, terms))
    for threads in THREADS:
        for own in OWN:
            for stages in STAGES if bits == 32 else STAGES[:1]:  # smaller elements are copied asynchronously in vectors alone
                tile = Tile(threads[0] * own[0], threads[1] * own[1], threads, depth, stages)
                fits = _shared_bytes(tile, bits) <= gpu.block_shared and depth * (stages - 1) < terms
                if fits and tile.rows < 2 * max(rows, threads[0]) and tile.columns < 2 * max(columns, threads[1]):
                    yield tile


def _shared_bytes(tile: Tile, bits: int) -> int:
    return tile.stages * (tile.rows + tile.columns) * (tile.depth + 4) * bits // 8


def _time(found: Contraction, tile: Tile, gpu: Gpu, bits: int) -> Estimate:
    """Blocks share the multiprocessors in waves. One of them takes, for each part of the sum, the longest of its multiply-adds, of
    what its instructions take to begin and its loads from shared memory; and waits for memory as long as no other block fills that
    time. All of them together take no less than their bytes from memory and from the L2 cache."""
    rows, columns, terms, batch = map(size_of, (found.rows, found.columns, found.summed, found.outer))
    blocks = batch * ceil(rows / tile.rows) * ceil(columns / tile.columns)
    threads, (own_rows, own_columns) = prod(tile.threads), tile.own
    registers = (own_rows * own_columns + (own_rows + own_columns) * 4) * bits // 32 + OTHER_REGISTERS
    at_once = blocks_at_once(gpu, threads, registers, _shared_bytes(tile, bits))
    waves = ceil(blocks / gpu.processors)
    parts, warps = ceil(terms / tile.depth), threads / WARP
    math = warps * own_rows * own_columns * tile.depth * WARP / gpu.fma * (bits / 32)
    loaded = warps * (own_rows + own_columns) * tile.depth * bits / 8 * WARP / gpu.shared_rate
    begun = warps * tile.depth * (own_rows * own_columns + (own_rows + own_columns) / 4) / 4
    name, busy = max(("fma throughput", math), ("shared memory", loaded), ("instructions", begun), key=lambda part: part[1])
    resident = min(at_once, waves)
    ahead = max(tile.stages - 1, 1)  # a pipeline's own work fills the time that its copies take; and one barrier is enough
    filled, barriers = ((resident * ahead, 1) if tile.stages > 1 else (resident - 1, 2))
    idle = max(gpu.latency + barriers * BARRIER - filled * busy, 0) / (resident * ahead)
    step = 1 / (gpu.clock * 1e9)
    moved = blocks * (tile.rows + tile.columns) * terms * bits / 8
    unique = batch * (rows * terms + columns * terms + rows * columns) * bits / 8
    name, cycles = slowest(gpu, (name, waves * parts * busy), unique, moved)
    return Estimate(((name, cycles * step), ("waiting for memory", waves * parts * idle * step),
                     ("bursts", CROWDED * (moved / gpu.l2_rate) * step), ("launch", LAUNCH)))


def _apply(group: Group, found: Contraction, tile: Tile) -> None:
    s, anchor = group.s, group.anchor
    if group.output is anchor:
        sums = s[s.cache_write(anchor.output(0), "local")]
    else:
        sums = s[anchor]
        sums.set_scope("local")
    panels = {load: copied(group, sums, load, "shared") for load in (found.a, found.b)}
    order, across = as_matrix(sums, found, anchor)
    stage = s[group.output]
    axes = list(stage.op.axis)
    outer, sides = [axes[place] for place in order], [[axes[place] for place in places] for places in across]
    stage.reorder(*outer, *sides[0], *sides[1])
    i, j = (fused(stage, side) for side in sides)
    lanes = lanes_of(anchor.output(0).dtype)
    at = _result(stage, outer, i, j, tile, lanes)
    sums.compute_at(stage, at)
    *_, si, sj = sums.op.axis
    k = fused(sums, sums.op.reduce_axis)
    blocks, terms = sums.split(k, factor=tile.depth)
    along = any(_is_along(load, found) for load in (found.a, found.b))
    some, term = sums.split(terms, factor=lanes if along else 1)
    sums.reorder(*sums.op.axis[:-2], blocks, some, term, si, sj)
    for axis in (some, term, si, sj):
        sums.unroll(axis)
    for load, side, width in ((found.a, found.rows, tile.rows), (found.b, found.columns, tile.columns)):
        _panel(group, sums, (blocks, some), panels[load], load, side, width, found, tile)


def _is_along(load: ProducerLoad, found: Contraction) -> bool:
    """Whether what is read lies side by side along the sum rather than along its own side."""
    beside = contiguous(load)
    side = [fixed_extent(axis) for axis in (*found.rows, *found.columns) if axis in beside]
    return found.summed[-1] in beside and fixed_extent(found.summed[-1]) > max(side, default=0)


def _result(stage: Stage, outer: Sequence[IterVar], i: IterVar, j: IterVar, tile: Tile, lanes: int) -> IterVar:
    """The loops of what is stored; returns that of a thread."""
    loops: list[tuple[IterVar, IterVar, IterVar, IterVar]] = []
    for axis, size, threads in ((i, tile.rows, tile.threads[0]), (j, tile.columns, tile.threads[1])):
        block, inner = stage.split(axis, factor=size)
        own = min(lanes, size // threads)
        apart, inner = stage.split(inner, factor=threads * own)
        thread, inner = stage.split(inner, factor=own)
        loops.append((block, apart, thread, inner))
    blocks, aparts, threads, inners = zip(*loops, strict=True)
    stage.reorder(*outer, *blocks, *aparts, *threads, *inners)
    if outer:
        stage.bind(stage.fuse(*outer) if len(outer) > 1 else outer[0], thread_axis("blockIdx.z"))
    for axis, name in zip(blocks, "yx", strict=True):
        stage.bind(axis, thread_axis(f"blockIdx.{name}"))
    for axis, own in zip(aparts, tile.own, strict=True):
        stage.bind(axis, thread_axis((0, max(own // lanes, 1)), "vthread"))
    for axis, count, name in zip(threads, tile.threads, "yx", strict=True):
        stage.bind(axis, thread_axis((0, count), f"threadIdx.{name}"))
    stage.unroll(inners[0])
    stage.vectorize(inners[1])
    return threads[1]


def _panel(
    group: Group, sums: Stage, at: tuple[IterVar, IterVar], copy: tuple[Stage, list[IterVar]], load: ProducerLoad,
    side: Sequence[IterVar], width: int, found: Contraction, tile: Tile,
) -> None:
    """The part of one side in shared memory, filled by all threads, and what a thread takes of it into registers."""
    s, (panel, axes) = group.s, copy
    for head in upstream(group, load):
        if s[head].attach_type != "inline":
            s[head].compute_inline()
    along = _is_along(load, found)

    def places(*at: Expr) -> list[Expr]:
        index = dict(zip(axes, at, strict=True))
        number = flat([(index[axis], fixed_extent(axis)) for axis in side if axis in index])
        term = flat([(index[axis], fixed_extent(axis)) for axis in found.summed if axis in index])
        inner = [number % width, term] if along else [term, number % width]
        return [*(index[axis] for axis in found.outer if axis in index), number // width, *inner]

    moved = panel.transform_layout(places, 0)
    assert moved is not None
    lanes = lanes_of(load.dtype)
    registers = s[s.cache_read(panel.op.output(0), "local", [sums])]
    panel.compute_at(sums, at[0])
    registers.compute_at(sums, at[1])
    registers.vectorize(registers.op.axis[-1])
    for axis in registers.op.axis[:-1]:
        registers.unroll(axis)
    beside = [axis for axis in (found.summed if along else side) if axis in contiguous(load)]
    run = gcd(lanes, width if not along else tile.depth, *map(fixed_extent, beside[-1:] or [side[-1]]))
    run = run if isinstance(load.indices[-1], IterVar) else 1
    if along:
        distance = _distance(tile, 0 if side is found.rows else 1, load.dtype, run)
        panel.storage_align(moved[-2], _MOST, distance % _MOST)
    rest = panel.fuse(*moved[-2:])
    if run > 1:
        rest, vector = panel.split(rest, factor=run)
        panel.vectorize(vector)
    rest, x = panel.split(rest, factor=tile.threads[1])
    rest, y = panel.split(rest, factor=tile.threads[0])
    panel.bind(x, thread_axis((0, tile.threads[1]), "threadIdx.x"))
    panel.bind(y, thread_axis((0, tile.threads[0]), "threadIdx.y"))
    if tile.stages > 1:
        panel.pipeline(tile.stages)


_MOST = 256
"""Elements: a row of a panel and what it is padded by are fewer."""


def _distance(tile: Tile, side: int, dtype: DType, run: int) -> int:
    """Of the rows of a panel that lies along the sum, which threads fill one after the other, `run` elements each, and of which a
    thread takes 16 bytes of a row of its own."""
    item, lanes = dtype.bits // 8, lanes_of(dtype)
    filled = [divmod(lane * run, tile.depth) for lane in range(WARP)]
    own = min(lanes, tile.own[side])
    across = tile.threads[1]
    taken = [((lane % across if side else lane // across) * own, 0) for lane in range(WARP)]
    return apart_in_banks(tile.depth, item, [(filled, run * item), (taken, min(lanes * item, VECTOR))])
