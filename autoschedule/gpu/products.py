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
from functools import partial
from math import ceil, gcd, prod
from typing import TYPE_CHECKING

from ...base import dataclass, replace
from ...codegen.gpus import Gpu, target_gpu
from ...ir.analysis.warps import LINE
from ...ir.expr import Expr, IterVar, ProducerLoad
from ...ir.ops import bitwise
from ...te.axis import thread_axis
from ..cost.gpu import OF_COPIES, estimate_works
from ..cost.kernels import KernelWork, Phase
from ..forms.contraction import Contraction, match_contraction, strip_conversion
from ..loops import fuse_axes, unroll_loops
from ..matrices import declare_matrices, matrix_axes
from ..operations import iteration_count
from ..plan import Candidate
from .elements import choose_or_declared
from .grids import Grid, bind_blocks, count_product, loaded_sides
from .hopper import warpgroup_candidates
from .split_k import list_splits, sum_in_parts
from .tensor_cores import tensor_core_candidates
from .threads import WARP, count_lanes, explain_width, keep_in_registers

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["count_work", "product"]

DEPTHS = (16, 32, 24, 8, 12, 20, 28)
"""Terms of the sum in shared memory, the best first; one that divides the sum needs no guards."""
OWN = ((8, 8), (8, 4), (4, 4), (4, 2), (2, 2), (2, 1))
"""Results of a thread, rows and columns."""
STAGES = (1, 3, 4)
THREADS = ((16, 16), (8, 16), (8, 8), (4, 16), (4, 8))


@dataclass(frozen=True)
class Tile:
    """Tile of a product in shared memory and registers.

    rows, columns: of a block; threads: (along rows, along columns); depth: terms of the sum in shared memory. stages: of the
    pipeline that fills it; 1 where a part is loaded when it is needed. splits: blocks that share each sum. band: rows of
    blocks that run at once.
    """

    rows: int
    columns: int
    threads: tuple[int, int]
    depth: int
    stages: int = 1
    splits: int = 1
    band: int = 1

    @property
    def own(self) -> tuple[int, int]:
        """Rows and columns of a thread."""
        return self.rows // self.threads[0], self.columns // self.threads[1]

    def __str__(self) -> str:
        return (
            f"tiles of {self.rows} x {self.columns} x {self.depth}, {self.threads[0]} x {self.threads[1]} threads "
            f"of {self.own[0]} x {self.own[1]}{f', {self.stages} stages' if self.stages > 1 else ''}"
            f"{f', sums in {self.splits} parts' if self.splits > 1 else ''}"
            f"{f', bands of {self.band}' if self.band > 1 else ''}"
        )


def product(group: Group, in_order: bool = False) -> bool:
    """Tiles in shared memory and in registers, on tensor cores where the dtypes are theirs. in_order: sums take up their terms in
    their order. Does nothing and returns False where the anchor is no sum of products."""
    if group.parts:
        return False
    candidates = [] if in_order else [*warpgroup_candidates(group), *tensor_core_candidates(group)]
    found = match_contraction(group.anchor, strip_conversion) if not candidates else None
    if found is not None:
        gpu, bits = target_gpu(group.target), group.anchor.output(0).dtype.bits
        tiles = (tile for tile in _tiles(found, gpu, bits) if tile.splits == 1 or not in_order)
        reason = explain_width(found, group.output.output(0).dtype)
        candidates = [
            Candidate(
                str(tile),
                partial(_apply, group, found, tile),
                estimate_works(count_work(found, tile, gpu, bits), gpu),
                reason,
            )
            for tile in tiles
        ]
        candidates.sort(key=lambda candidate: candidate.seconds)
    if candidates:
        choose_or_declared(group, "product", candidates)
    return bool(candidates)


def _tiles(found: Contraction, gpu: Gpu, bits: int) -> Iterator[Tile]:
    """Return the tiles that fit the shared memory of a block, and are no more than twice as large as the result."""
    rows, columns, terms, batch = found.sizes
    lanes, whole = count_lanes(found.a.dtype), found.a.dtype.bits == found.b.dtype.bits == 32
    depth = next((each for each in DEPTHS if terms % each == 0), min(16, ceil(terms / lanes) * lanes))
    for threads in THREADS:
        for own in OWN:
            for stages in (
                STAGES if whole else STAGES[:1]
            ):  # smaller elements are copied asynchronously in vectors alone
                tile = Tile(threads[0] * own[0], threads[1] * own[1], threads, depth, stages)
                fits = _shared_bytes(tile, bits) <= gpu.block_shared and depth * (stages - 1) < terms
                if fits and tile.rows < 2 * max(rows, threads[0]) and tile.columns < 2 * max(columns, threads[1]):
                    blocks = batch * ceil(rows / tile.rows) * ceil(columns / tile.columns)
                    band = Grid.of(found, tile, gpu).band()
                    yield from (
                        replace(tile, splits=splits, band=band) for splits in list_splits(blocks, terms // depth, gpu)
                    )


def _shared_bytes(tile: Tile, bits: int) -> int:
    return tile.stages * (tile.rows + tile.columns) * tile.depth * bits // 8


def count_work(found: Contraction, tile: Tile, gpu: Gpu, bits: int) -> Sequence[KernelWork]:
    """Count the work of a product: for each part of the sum a block loads both panels, and multiplies what each thread takes of them.
    bits: of an element of these."""
    threads, (own_rows, own_columns) = prod(tile.threads), tile.own
    parts, warps = ceil(found.sizes[2] / (tile.depth * tile.splits)), threads / WARP
    steps, sums = parts * tile.depth, own_rows * own_columns
    loads = own_rows / 4 + own_columns / (4 if found.is_read_along_sum(found.b) else _neighbouring_columns(found, tile))
    main = Phase(
        parts,
        issued=warps * steps * (sums + loads),
        of_thread=steps * (sums + loads) / 2,  # sums do not wait for each other
        arithmetic=threads * steps * sums * bits / 32,
        accessed=threads * (own_rows + own_columns) * steps * bits / 8 / LINE,
    )
    read = (tile.rows + tile.columns) * steps * bits / 8
    copies = sum(
        width * steps / gcd(count_lanes(load.dtype), found.neighbours(load)) / threads
        for load, width in ((found.a, tile.rows), (found.b, tile.columns))
    )
    fill = Phase(parts, tile.stages, True, 2 * warps * copies, 2 * copies, accessed=2 * read / LINE, loads=copies)
    return count_product(
        found,
        tile,
        gpu,
        [main, fill],
        threads=threads,
        registers=(sums + (own_rows + own_columns) * 4) * bits / 32 + 2 * OF_COPIES,
        shared=_shared_bytes(tile, bits),
        read=loaded_sides(found, tile) * steps * bits / 8,
        item=bits // 8,
        band=tile.band,
        splits=tile.splits,
    )


def _apply(group: Group, found: Contraction, tile: Tile) -> None:
    s, anchor = group.s, group.anchor
    lanes = count_lanes(anchor.output(0).dtype)
    along = [found.is_read_along_sum(load) for load in (found.a, found.b)]
    *panels, whole = declare_matrices(
        group, found, (1, 1, tile.depth * tile.splits if tile.splits > 1 else 1), (not along[0], along[1])
    )
    if tile.splits > 1:
        stage = s[sum_in_parts(group, whole, tile.splits)]
        sums = s[s.cache_write(stage.op.output(0), "local")]
        *outer, row, column = stage.op.axis
    else:
        stage, sums = s[group.output], s[whole]
        sums.set_scope("local")
        outer, row, column = matrix_axes(stage, found, anchor)
    sums.compute_at(
        stage, _result(stage, outer, row, column, tile, (min(lanes, tile.own[0]), _neighbouring_columns(found, tile)))
    )
    *_, si, sj = sums.op.axis
    blocks, terms = sums.split(sums.op.reduce_axis[0], factor=tile.depth)
    some, term = sums.split(terms, factor=gcd(lanes, tile.depth) if any(along) else 1)
    sums.reorder(*sums.op.axis[:-2], blocks, some, term, si, sj)
    unroll_loops(sums, (some, term, si, sj))
    for panel, load, width in zip(panels, (found.a, found.b), (tile.rows, tile.columns), strict=True):
        _panel(s[panel], sums, (blocks, some), load, width, found, tile)


def _neighbouring_columns(found: Contraction, tile: Tile) -> int:
    """Return the number of columns of a thread that are neighbours: as many as 16 bytes of the result hold; where
    threads take terms of a column at once, one, so that those of neighbours are of different rows."""
    return (
        1
        if found.is_read_along_sum(found.b)
        else gcd(count_lanes(found.b.dtype), tile.own[1], iteration_count(found.columns))
    )


def _result(
    stage: Stage, outer: Sequence[IterVar], i: IterVar, j: IterVar, tile: Tile, beside: tuple[int, int]
) -> IterVar:
    """The loops of what is stored; returns that of a thread. beside: how many of its rows are neighbours, and of its columns."""
    loops: list[tuple[IterVar, IterVar, IterVar, IterVar]] = []
    for axis, size, threads, own in (
        (i, tile.rows, tile.threads[0], beside[0]),
        (j, tile.columns, tile.threads[1], beside[1]),
    ):
        block, inner = stage.split(axis, factor=size)
        apart, inner = stage.split(inner, factor=threads * own)
        thread, inner = stage.split(inner, factor=own)
        loops.append((block, apart, thread, inner))
    blocks, aparts, threads, inners = zip(*loops, strict=True)
    stage.reorder(*outer, *blocks, *aparts, *threads, *inners)
    if outer:
        stage.bind(fuse_axes(stage, outer), thread_axis("blockIdx.z"))
    bind_blocks(stage, blocks[0], blocks[1], tile.band)
    for axis, own, neighbours in zip(aparts, tile.own, beside, strict=True):
        stage.bind(axis, thread_axis((0, own // neighbours), "vthread"))
    for axis, count, name in zip(threads, tile.threads, "yx", strict=True):
        stage.bind(axis, thread_axis((0, count), f"threadIdx.{name}"))
    stage.unroll(inners[0])
    stage.vectorize(inners[1])
    return threads[1]


def _panel(
    panel: Stage,
    sums: Stage,
    at: tuple[IterVar, IterVar],
    load: ProducerLoad,
    width: int,
    found: Contraction,
    tile: Tile,
) -> None:
    """The part of one side's matrix in shared memory, filled by all threads, and what a thread takes of it into registers."""
    along, lanes = found.is_read_along_sum(load), count_lanes(load.dtype)
    chunk, line = gcd(lanes, tile.depth), LINE // (gcd(lanes, tile.depth) * load.dtype.bytes)
    turned = gcd(tile.depth // chunk, line) if along and load is found.b else 1

    def places(*at: Expr) -> list[Expr]:
        *outer, first, last = at
        number, term = (first, last) if along else (last, first)
        row, inner = number % width, term % tile.depth
        if not along:
            parts = [inner, row]
        elif turned == 1:
            parts = [row, inner]
        else:
            parts = [row, *_swizzle_chunk(row, inner // chunk, turned, line), inner % chunk]
        return [*outer, number // width, term // tile.depth, *parts]

    moved = panel.transform_layout(places, 0)
    assert moved is not None
    registers = panel.schedule[panel.schedule.cache_read(panel.op.output(0), "local", [sums])]
    panel.set_scope("shared")
    panel.compute_at(sums, at[0])
    keep_in_registers(registers, (sums, at[1]))
    run = gcd(lanes, chunk if turned > 1 else tile.depth if along else width, found.neighbours(load))
    runs, vector = panel.split(moved[-1], factor=run)
    panel.vectorize(vector)
    rest = panel.fuse(*moved[-4 if turned > 1 else -2 : -1], runs)
    rest, x = panel.split(rest, factor=tile.threads[1])
    rest, y = panel.split(rest, factor=tile.threads[0])
    panel.bind(x, thread_axis((0, tile.threads[1]), "threadIdx.x"))
    panel.bind(y, thread_axis((0, tile.threads[0]), "threadIdx.y"))
    if tile.stages > 1:
        panel.pipeline(tile.stages)


def _swizzle_chunk(row: Expr, chunk: Expr, turned: int, line: int) -> list[Expr]:
    """The place of a chunk in its row of a panel, where each `turned` of them change places: those at one place of as many rows as
    `line` chunks make, of which threads beside each other take one of a row each, then lie in different banks."""
    return [chunk // turned, bitwise("bitwise_xor", chunk % turned, row // (line // turned) % turned)]
