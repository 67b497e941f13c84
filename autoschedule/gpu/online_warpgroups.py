"""Online sums by warpgroups (sm_90a): queries and keys are multiplied from shared memory, weights from the registers that have them.

    for blockIdx.y: batches and heads     for blockIdx.x: 128 rows i      q of them in swizzled shared memory
      for c: 128 terms j at a time                                        # s.online(y, 128)
        k, v = 128 rows of each                                           # boxes, for which four more warps ask, some parts ahead
        for threadIdx.z: 64 rows of four warps
          products[64, 128] = q * k                                       # wgmma: each thread has 64 of them
          scores, weight = of these, element by element                   # each thread its own
          peak, total = of the rows of scores and weights                 # 4 lanes a row, by shuffles
          part[64, e] = rounded(weight) * v                               # wgmma, of weights as they lie
          largest, sums, y = merged with these                            # each thread its own
        y / sums is stored in shared memory, of which whole rows are stored

While four warps take exponentials, others multiply. Keys and values are tensors in memory, of whose rows the copy engine knows where
they are. (Shah et al. 2024, FlashAttention-3.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, log2
from typing import TYPE_CHECKING

from ... import te
from ...codegen.gpus import Gpu
from ...ir import IntImm, IterVar, ProducerLoad, Range, Var, substitute
from ...ir.analysis.warps import LINE
from ...ir.arith.analyzer import Analyzer
from ...ir.fragments import LANES, WARPGROUP_LANES, WGMMA_ROWS
from ...ir.ops import const
from ...ir.passes.gpu.bulk_copies import MOST_DIMENSIONS, UNIT_BYTES
from ...ir.passes.gpu.swizzle import PANEL_BYTES
from ...ir.passes.gpu.swizzle import ROWS as PANEL_ROWS
from ...te.factors import guarded_load
from ...te.tensor import find_tensor
from ..accesses import dimension, domain_axes, find_axes, load_axes
from ..cost.gpu import CLUSTER_LATENCY, DEPENDENT, DRAIN, ENGINE_LATENCY, OF_COPIES
from ..cost.kernels import SLOTS, KernelWork, Phase
from ..cost.tiles import CORE_SCORE, GROUP_ADDED, GROUP_SUM, OF_POWER, POWERS_OF_PART
from ..forms.online import OnlineForm, product_heads, product_sides
from ..loops import fuse_axes
from ..operations import fixed_extent, is_plain
from .online_cores import SIZE, count_online
from .online_fragments import (
    FragmentTile,
    Place,
    distribute_lanes,
    distribute_numbers,
    inline_factors,
    matricize_scores,
    schedule_merge,
    schedule_store,
)
from .tensor_cores import shared_by_all
from .threads import VECTOR, WARP, lanes_along_last

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage

__all__ = ["apply_by_groups", "count_by_groups", "group_tiles"]

PANEL = PANEL_BYTES // SIZE
"""Elements of a row of a panel; terms and columns that are multiplied at once."""
GROUPS, TERMS, STAGES, CLUSTERS = (2, 1), (128, 64, 32), (2, 3), (1, 2)
"""Groups of four warps; terms of a part of the sum, parts on their way, and blocks that fetch these together."""
MOST_REGISTERS = 180
"""Of a thread's arrays: what the asking warps leave two groups, less addresses and what is on its way. Three groups spill."""


def group_tiles(s: Schedule, form: OnlineForm, gpu: Gpu) -> Iterator[FragmentTile]:
    """Return the tiles whose rows are a block's, that fit its registers and its shared memory; none where the architecture has no such
    instructions, dtypes are not theirs, the copy engine cannot fetch what is read, or columns are no whole panels."""
    rows, terms, depth, columns, _ = form.sizes
    begins, only = form.of_output.begins, form.of_output.heads == 1
    if not gpu.warpgroup or not form.kind or columns % PANEL or not only or rows < WGMMA_ROWS or terms < TERMS[-1]:
        return
    for each in TERMS:
        with s.attempt() as attempt:
            made = form.apply_chunks(s, each, whole=True)
            in_boxes = _come_in_boxes(s, form, made["factor"])
            alike = [groups for groups in GROUPS if _are_alike(made["merged"], begins, groups)]
        s.undo(attempt)
        if not in_boxes:
            return
        for groups, stages, cluster in product(alike, STAGES, CLUSTERS):
            tile = FragmentTile(WGMMA_ROWS, groups, each, stages, cluster=cluster, scope="wgmma_c")
            small = tile.rows < 2 * rows and each * (stages - 1) < 2 * terms
            # blocks of a cluster go through as many parts
            small = small and (cluster == 1 or form.share == 1.0 and ceil(rows / tile.rows) % cluster == 0)
            fits = _registers(tile, columns) <= MOST_REGISTERS
            if small and fits and _shared_bytes(tile, depth, columns) <= gpu.block_shared:
                yield tile


def _come_in_boxes(s: Schedule, form: OnlineForm, factor: Stage) -> bool:
    """Return whether keys and values are tensors in memory whose rows terms say alone, one behind the other."""
    op, (*_, j, column) = s[form.product].op, factor.op.axis
    term, heads = op.axis[form.of_product[1]], product_heads(s, op)
    keys = next(side for side in product_sides(op) if term in load_axes(side))
    stored = factor.op.values[0]
    guarded = guarded_load(stored)
    values = stored if guarded is None else guarded
    return all(
        isinstance(load, ProducerLoad) and find_tensor(load).op not in heads and _is_box(s, load, row, along)
        for load, row, along in ((keys, term, op.reduce_axis[0]), (values, j, column))
    )


def _is_box(s: Schedule, load: ProducerLoad, row: IterVar, along: IterVar) -> bool:
    """Return whether rows of a load are one behind the other in memory, at multiples of 16 bytes, and nothing else depends on them."""
    stage, extent = s[find_tensor(load)], load.producer.shape[-1]
    over = [at for at, index in enumerate(load.indices) if row in find_axes(index)]
    if len(over) != 1 or load.indices[-1] is not along or len(load.indices) > MOST_DIMENSIONS or is_plain(stage.op):
        return False
    place = dimension(load.indices[over[0]])
    return (
        place.steps.get(row) == 1
        and not place.rest
        and not any(along in find_axes(index) for index in load.indices[:-1])
        and isinstance(extent, IntImm)
        and extent.value * SIZE % UNIT_BYTES == 0
    )


def _are_alike(merged: Stage, begins: int, groups: int) -> bool:
    """Return whether the rows of all groups of a block have the same parts. begins: rows after which those of the sum begin anew."""
    if begins % (WGMMA_ROWS * groups) == 0:
        return True
    if WGMMA_ROWS * groups % begins:
        return False
    chunk, analyzer = merged.op.reduce_axis[0], Analyzer()
    assert chunk.dom is not None
    block, own = Var("block", chunk.dtype), Var("own", chunk.dtype)
    count = const(WGMMA_ROWS * groups // begins, chunk.dtype)
    analyzer.bind(own, Range(const(0, chunk.dtype), count))
    analyzer.learn(block >= 0)
    places = block * count, block * count + own
    first, each = (substitute(chunk.dom.extent, dict.fromkeys(domain_axes(chunk), at)) for at in places)
    return analyzer.can_prove_equal(first, each)


def _shared_bytes(tile: FragmentTile, depth: int, columns: int) -> int:
    """Shared memory of a block's rows, of keys and values in all stages, and of the result on its way out, with barriers before."""
    panels = ceil(depth / PANEL) * PANEL
    filled = tile.rows * panels + tile.stages * tile.terms * (panels + columns)
    return SIZE * (filled + tile.rows * (columns + VECTOR // SIZE)) + PANEL_ROWS * PANEL_BYTES


def _registers(tile: FragmentTile, columns: int) -> int:
    """Registers of a thread: sums, to which products add; scores, and later weights of 16 bits; numbers of its rows."""
    sums, scores = (tile.own * each // WARPGROUP_LANES for each in (columns, tile.terms))
    return sums + scores + scores // 4 + 12


def _slice(columns: int) -> int:
    """The columns that an instruction has. With 256 of them the compiler waits for each instruction beside so many sums."""
    return next(each for each in range(2 * PANEL, 0, -PANEL) if columns % each == 0)


def count_by_groups(form: OnlineForm, tile: FragmentTile, gpu: Gpu) -> list[KernelWork]:
    """Count the work of a kernel: of each part of the sum four warps multiply twice, wait for that, and take exponentials, while
    others multiply."""
    _, terms, depth, columns, _ = form.sizes
    depth = ceil(depth / PANEL) * PANEL
    parts = ceil(terms / tile.terms) * form.share
    scores = tile.rows * tile.terms
    powers = POWERS_OF_PART * tile.rows * LANES[0]
    elements = (scores * CORE_SCORE + tile.rows * columns * GROUP_SUM + powers * SLOTS["call"]) / WARP
    own = (elements + scores * OF_POWER / WARP) / tile.warps / 4
    own += scores / tile.warps * (depth + columns) / gpu.warpgroup / DEPENDENT
    read = tile.warps * (WGMMA_ROWS * depth + tile.terms * (depth + columns)) * SIZE
    main = Phase(
        parts,
        issued=parts * elements,
        of_thread=parts * own,
        arithmetic=parts * (scores * GROUP_ADDED[0] + tile.rows * columns * GROUP_ADDED[1]),
        special=parts * (scores + powers),
        wgmma=parts * scores * (depth + columns),
        accessed=parts * read / LINE,
        joins=parts * 2 * log2(LANES[0]),
        alone=2 * DRAIN * parts,
    )
    registers = _registers(tile, columns) + OF_COPIES
    late = ENGINE_LATENCY + CLUSTER_LATENCY * (tile.cluster - 1)
    (work,) = count_online(form, tile, SIZE, [main], registers, _shared_bytes(tile, depth, columns), late)
    shared = parts * tile.terms * (form.sizes[2] + columns) * SIZE * (1 - 1 / tile.cluster)
    return [replace(work, loaded=work.loaded - shared, moved=work.moved - shared)]


# The schedule


def apply_by_groups(s: Schedule, form: OnlineForm, tile: FragmentTile) -> None:
    """Schedules an online sum in such tiles."""
    made = form.apply_chunks(s, tile.terms, whole=True)
    block, at = schedule_store(s, form, tile)
    chunk, piece = schedule_merge(made["merged"], at, form, tile, _slice(form.sizes[3]))
    _scores(s, form, tile, (chunk, block))
    distribute_numbers(made, form, chunk, tile)
    _parts(made, form, tile, (chunk, piece))


def _scores(s: Schedule, form: OnlineForm, tile: FragmentTile, at: tuple[Place, Place]) -> None:
    """The product of the block's rows and a part's terms. at: where each part of the sum begins, and a block."""
    rows, terms, whole = matricize_scores(s, form, (tile.rows, tile.terms, PANEL))
    (chunk, block), sums = at, s[whole]
    depth = ceil(form.sizes[2] / PANEL) * PANEL
    _multiply(sums, chunk, ("nk", WGMMA_ROWS, tile.terms, depth, form.kind, "mk", "swizzled"))
    stage = s[rows]
    stage.set_scope("swizzled")
    stage.compute_at(*block)
    axes = fuse_axes(stage, stage.op.axis[:-1]), stage.op.axis[-1]
    shared_by_all(stage, axes, tile, lanes_along_last(stage), (1, 1))
    _fetch(s[terms], chunk, tile)


def _parts(made: dict[str, Stage], form: OnlineForm, tile: FragmentTile, at: tuple[Place, Place]) -> None:
    """The product of a part's weights and what they are multiplied with. at: where each part of the sum begins, and a slice of the
    columns."""
    stage = made["part"]
    s = stage.schedule
    row, column = stage.op.axis[1 + form.row], stage.op.axis[-1]
    weights, values, whole = s.matricize(
        stage.op.output(0), [row], [column], (WGMMA_ROWS, PANEL, tile.terms), (False, False)
    )
    columns = _slice(fixed_extent(column))
    inline_factors(made)
    (chunk, piece), axes = at, s[weights].op.axis
    distribute_lanes(s[weights], axes[-2], axes[-1], chunk, tile, "wgmma_a")
    _multiply(s[whole], piece, ("kn", WGMMA_ROWS, columns, tile.terms, form.kind, "mk", "wgmma_a"))
    _fetch(s[values], chunk, tile)


def _multiply(sums: Stage, at: Place, said: Sequence[int | str]) -> None:
    """A product by instructions of four warps. said: of the intrinsic."""
    sums.set_scope("wgmma_c")
    sums.compute_at(*at)
    sums.tensorize(sums.op.axis[-2], te.intrinsics.get("cuda.wgmma", *said))


def _fetch(stage: Stage, at: Place, tile: FragmentTile) -> None:
    """Rows in swizzled shared memory, which the copy engine fills."""
    stage.set_scope("swizzled")
    stage.compute_at(*at)
    stage.pipeline(tile.stages, by="tma", warp_specialize=True, cluster=tile.cluster)
