"""Online sums on tensor cores: scores, weights and sums never leave the registers of the warps that have their rows.

    for blockIdx.y: batches and heads     for blockIdx.x: 64 rows i       q of them in shared memory, and in fragments from there
      for threadIdx.z: 16 rows of a warp
        for c: 64 terms j at a time                                       # s.online(y, 64)
          k, v = 64 rows of each                                          # shared, by all threads, some parts ahead
          products[16, 64] = q * k                                        # mma.sync: each lane has 2 x 16 of them
          scores, weight = of these, element by element                   # each lane its own
          peak, total = of the rows of scores and weights                 # 4 lanes a row, by shuffles
          part[16, e] = rounded(weight) * v                               # mma.sync, of weights as they lie
          largest, sums, y = merged with these                            # each lane its own
        y / sums is stored in shared memory, of which whole rows are stored

Both products take elements of 16 bits, as they are declared: queries and keys converted from it, weights rounded to it.
(Dao 2023, FlashAttention-2: a warp has whole rows, so that warps exchange nothing.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, gcd, log2, prod
from typing import TYPE_CHECKING, Protocol

from ...codegen.gpus import Gpu
from ...ir.analysis.warps import LINE
from ...ir.expr import IterVar
from ...ir.fragments import K_BYTES, LANES, WARPGROUP_LANES, M, N
from ...te.axis import thread_axis
from ..cost.gpu import OF_COPIES
from ..cost.kernels import PARTS, SLOTS, KernelWork, Phase, Unique, fill_phase
from ..cost.tiles import CORE_SCORE, FRAGMENT_ADDED, FRAGMENT_SUM, MERGED, MERGED_BYTES, OF_POWER, POWERS_OF_PART
from ..forms.online import OnlineForm, Rows
from ..loops import fuse_axes
from ..operations import fixed_extent
from .grids import BlockTile, count_merge
from .online_fragments import (
    FragmentTile,
    Place,
    distribute_lanes,
    distribute_numbers,
    inline_factors,
    matricize_scores,
    schedule_merge,
    schedule_store,
    share_rows,
)
from .split_k import list_chunk_splits, split_chunks
from .tensor_cores import shared_by_all, tensorize_tiles
from .threads import VECTOR, WARP, count_lanes, lanes_along_last

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage

__all__ = ["SIZE", "apply_on_cores", "core_tiles", "count_on_cores", "count_online"]

SIZE = 2
"""Bytes of what is multiplied."""
K = K_BYTES // SIZE
"""Terms of an instruction."""
WARPS, OWN, TERMS, STAGES = (4, 2, 8, 1), (16, 32), (64, 32), (2, 1, 3)
"""Of a block; rows of each; terms of a part of the sum, and parts on their way."""
MOST_REGISTERS, MOST_HELD = 170, 64
"""Of a thread's arrays; of them, those that fragments of the block's rows may take for all parts."""
SLICE = 40
"""Columns of a part's sums that are in registers at once, beside those of all parts, at most."""


class SplitTile(BlockTile, Protocol):
    """Tile of an online sum whose terms several blocks share."""

    @property
    def splits(self) -> int: ...


def core_tiles(form: OnlineForm, gpu: Gpu) -> Iterator[FragmentTile]:
    """Return the tiles whose rows are a block's, that fit its shared memory, and whose fragments fit the registers; none where the products
    are not tensor cores', rows are few, or rows and columns no whole tiles."""
    rows, terms, depth, columns, _ = form.sizes
    period = form.of_output.begins or form.rows
    keys = fixed_extent(form.product.axis[form.of_product[1]])
    if not form.kind or form.rows % M or columns % N or min(rows, period) < M or keys < N:
        return
    for own in OWN:
        for warps in WARPS:
            for each in TERMS:
                tile = FragmentTile(own, warps, each, 1)
                small = tile.rows < 2 * max(rows, M) and each < 2 * max(terms, min(TERMS))
                small = small and (form.of_output.heads == 1 or rows % tile.rows == 0)
                if period % tile.rows == 0 and small and _registers(tile, depth, columns) <= MOST_REGISTERS:
                    splits = list(list_chunk_splits(form, tile.rows, each, gpu))
                    ways = [
                        replace(tile, stages=stages, splits=split)
                        for split in splits
                        for stages in STAGES
                        if stages == 1 or each * split < terms
                    ]
                    yield from (way for way in ways if _shared_bytes(way, depth, columns) <= gpu.block_shared)


def _shared_bytes(tile: FragmentTile, depth: int, columns: int) -> int:
    """Shared memory of the other side of the product and what weights are multiplied with, rows a little longer; the block's rows, where
    fragments do not hold them, lie beside these, and else, as the result on its way out, in their place."""
    pad = VECTOR // SIZE
    each = tile.stages * tile.terms * (_pad_extent(depth, K) + columns + 2 * pad)
    rows, result = tile.rows * (_pad_extent(depth, K) + pad), tile.rows * (columns + pad)
    return SIZE * (max(rows, each, result) if _fragment_registers(tile, depth) else max(rows + each, result))


def _pad_extent(extent: int, to: int) -> int:
    return ceil(extent / to) * to


def _registers(tile: FragmentTile, depth: int, columns: int) -> int:
    """Registers of a thread: sums; scores, or later weights of 16 bits and what is added; fragments of its rows, and numbers of these."""
    sums, part, scores = (tile.own * each // WARP for each in (columns, _slice(columns), tile.terms))
    return sums + max(scores, part + scores // 2) + _fragment_registers(tile, depth) + 6 * tile.own // LANES[1]


def _slice(columns: int) -> int:
    """The most columns at once that divide them into equal slices of whole tiles."""
    return next(each for each in range(min(SLICE, columns) // N * N, 0, -N) if columns % each == 0)


def _fragment_registers(tile: FragmentTile, depth: int) -> int:
    """Registers of a thread that hold its rows in fragments for all parts of the sum; 0 where they would be too many."""
    held = tile.own * _pad_extent(depth, K) * SIZE // 4 // WARP
    return held if held <= MOST_HELD else 0


def count_on_cores(form: OnlineForm, tile: FragmentTile) -> list[KernelWork]:
    """Count the work of a kernel: of each part of the sum a warp loads fragments, multiplies them twice, and takes exponentials."""
    _, terms, depth, columns, _ = form.sizes
    depth = _pad_extent(depth, K)
    parts = ceil(terms / tile.terms / tile.splits) * form.share
    scores, filled = tile.rows * tile.terms, tile.terms * (depth + columns) * SIZE
    again = 0 if _fragment_registers(tile, depth) else tile.own * depth * SIZE
    products = tile.own // M * (tile.terms // N * depth + columns // N * tile.terms) / K
    fragments = (filled + again) / (N * K * SIZE)
    powers = POWERS_OF_PART * tile.rows * LANES[0]  # all lanes that have a row take them
    elements = (scores * CORE_SCORE + tile.rows * columns * FRAGMENT_SUM + powers * SLOTS["call"]) / WARP / tile.warps
    own = parts * (products + fragments + elements)
    of_score, of_element, of_row = FRAGMENT_ADDED
    main = Phase(
        parts,
        issued=tile.warps * own,
        of_thread=own + parts * scores * OF_POWER / WARP / tile.warps,
        arithmetic=parts * (scores * of_score + tile.rows * (columns * of_element + of_row)),
        special=parts * (scores + powers),
        mma=parts * scores * (depth + columns),
        accessed=parts * tile.warps * (filled + again) / LINE,
        joins=parts * 2 * log2(LANES[0]),
    )
    registers, shared = _registers(tile, depth, columns) + 2 * OF_COPIES, _shared_bytes(tile, depth, columns)
    return count_online(form, tile, SIZE, [main], registers, shared)


def count_online(
    form: OnlineForm,
    tile: SplitTile,
    size: int,
    phases: Sequence[Phase],
    registers: float,
    shared: int,
    late: float = 0.0,
) -> list[KernelWork]:
    """Count the work of a kernel, and of the one that merges what blocks have that share rows. size: bytes of what is multiplied;
    phases: of a block, beside what it loads of each part of the sum; registers: of a thread's arrays; shared: bytes of a block.
    late: cycles beyond those of a load until what the copy engine fetches is there, for four more warps; 0 where threads copy."""
    rows, terms, depth, columns, batch = form.sizes
    both, threads = (depth + columns) * (SIZE if form.kind else size), prod(tile.threads)
    parts = ceil(terms / tile.columns / tile.splits) * form.share
    loaded, filled = parts * tile.columns * both, parts * tile.columns * (depth + columns) * size
    copies = loaded / VECTOR / threads
    fill = fill_phase(parts, tile.stages, threads, copies, filled)
    if late:
        fill = Phase(parts, tile.stages, accessed=filled / LINE, loads=parts, late=late)
        threads += WARPGROUP_LANES
    stored = MERGED * tile.rows * columns * MERGED_BYTES if tile.splits > 1 else 0
    moved = loaded + tile.rows * both + stored
    unique: Unique = {(form.value.output(0), False): float(batch * (rows + terms) * both)}
    blocks = batch * ceil(rows / tile.rows) * tile.splits
    if stored:
        unique[PARTS, True] = float(stored * blocks)
    work = KernelWork(blocks, threads, registers, shared, moved, moved, unique, 0.0, [*phases, fill])
    if tile.splits == 1:
        return [work]
    lanes = gcd(count_lanes(form.output.output(0).dtype), fixed_extent(form.output.axis[-1]))
    results = batch * rows * columns * MERGED_BYTES
    return [work, count_merge(results, tile.splits, MERGED, lanes * MERGED_BYTES)]


# The schedule


def apply_on_cores(s: Schedule, form: OnlineForm, tile: FragmentTile) -> None:
    """Schedules an online sum in such tiles."""
    made = form.apply_chunks(s, tile.terms)
    if tile.splits > 1:
        parts, rows = split_chunks(s, form, made["merged"], tile.splits)
        made["merged"] = s[s.cache_write(parts, "mma_c")[0]]
        block, at = _schedule_parts(s[parts[0]], rows, tile)
    else:
        block, at = schedule_store(s, form, tile)
    chunk, piece = schedule_merge(made["merged"], at, form, tile, _slice(form.sizes[3]))
    _scores(s, form, tile, (chunk, at, block))
    distribute_numbers(made, form, chunk, tile)
    _parts(made, form, tile, (chunk, piece))


def _schedule_parts(stage: Stage, at: Rows, tile: FragmentTile) -> tuple[Place, Place]:
    """The loops of what blocks that share terms store, each lane its own; returns those over blocks, and over the warps of one."""
    outer, block, warp = share_rows(stage, at, tile)
    stage.bind(fuse_axes(stage, outer), thread_axis("blockIdx.y"))
    stage.bind(block, thread_axis("blockIdx.x"))
    return (stage, block), (stage, warp)


def _scores(s: Schedule, form: OnlineForm, tile: FragmentTile, at: tuple[Place, Place, Place]) -> None:
    """The product of the block's rows and a part's terms. at: where each part of the sum begins, a warp, and a block."""
    rows, terms, whole = matricize_scores(s, form, (tile.rows, tile.terms, K))
    (chunk, warp, block), sums = at, s[whole]
    sums.set_scope("mma_c")
    sums.compute_at(*chunk)
    outer = _multiply_fragments(sums, form.kind, "nk")
    held = s[s.cache_read(rows, "mma_a", [sums])]
    held.compute_at(*(warp if _fragment_registers(tile, form.sizes[2]) else (sums, outer)))
    tensorize_tiles(held, (M, K), ("cuda.mma_load_a", "shared", M, K, "mk", form.kind))
    fragment = s[s.cache_read(terms, "mma_bt", [sums])]
    fragment.compute_at(sums, outer)
    tensorize_tiles(fragment, (N, K), ("cuda.mma_load_b", "nk", "shared", N, K, form.kind))
    _fill_shared(s[rows], block, tile)
    _fill_shared(s[terms], chunk, tile, tile.stages)


def _parts(made: dict[str, Stage], form: OnlineForm, tile: FragmentTile, at: tuple[Place, Place]) -> None:
    """The product of a part's weights and what they are multiplied with. at: where each part of the sum begins, and a slice of the
    columns."""
    stage = made["part"]
    s = stage.schedule
    row, column = stage.op.axis[1 + form.row], stage.op.axis[-1]
    weights, values, whole = s.matricize(stage.op.output(0), [row], [column], (M, N, K), (False, False))
    inline_factors(made)
    (chunk, piece), sums = at, s[whole]
    distribute_lanes(s[weights], s[weights].op.axis[-2], s[weights].op.axis[-1], chunk, tile, "mma_a")
    sums.set_scope("mma_c")
    sums.compute_at(*piece)
    outer = _multiply_fragments(sums, form.kind, "kn")
    fragment = s[s.cache_read(values, "mma_b", [sums])]
    fragment.compute_at(sums, outer)
    tensorize_tiles(fragment, (K, N), ("cuda.mma_load_b", "kn", "shared", K, N, form.kind))
    _fill_shared(s[values], chunk, tile, tile.stages)


def _multiply_fragments(sums: Stage, kind: str, layout: str) -> IterVar:
    """A product in fragments, by instructions; returns the loop over what is in registers at once."""
    *others, row, column = sums.op.axis
    some, term = sums.split(sums.op.reduce_axis[0], factor=K)
    sums.reorder(*others, some, row, column, term)
    sums.unroll(some)
    tensorize_tiles(sums, (M, N), ("cuda.mma_m16n8k16", layout, M, N, K, kind, "mk"))
    return some


def _fill_shared(stage: Stage, at: Place, tile: FragmentTile, stages: int = 1) -> None:
    """Rows in shared memory that all threads fill, 16 bytes longer, so that ldmatrix meets no bank twice."""
    stage.set_scope("shared")
    stage.compute_at(*at)
    lanes = count_lanes(stage.op.output(0).dtype)
    row, column = stage.op.axis[-2:]
    stage.storage_align(row, 2 * lanes, lanes)
    outer = fuse_axes(stage, stage.op.axis[:-1]) if len(stage.op.axis) > 2 else row
    shared_by_all(stage, (outer, column), tile, lanes_along_last(stage), (1, 1))
    if stages > 1:
        stage.pipeline(stages)
