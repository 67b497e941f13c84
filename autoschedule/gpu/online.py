"""A product, a softmax of its rows, a product with these: one kernel that stores no scores, attention among others.

    scores[i, j] = sum over d of q[i, d] * k[j, d]    weight = softmax of rows    y[i, e] = sum over j of weight[i, j] * v[j, e]

    for blockIdx.y: batches and heads     for blockIdx.x: 64 rows i       q of them in shared memory
      for c: 64 terms j at a time                                         # s.online(y, 64)
        k, v = 64 rows of each                        # shared, by all threads, where that is quicker a part ahead
        scores[64, 64] = q * k                                            # a thread has 4 x 4 of them in registers, and stores them
        peak, weight, total = of the rows of scores                       # 16 threads a row, by shuffles
        part[64, e] = weight * v                                          # a thread has 4 x 4, in registers
        largest, sums, y = merged with these                              # in registers; of a row, once for each thread
      y / sums is stored

The form is recognised, whoever declared it: masks and scales between, keys that several heads share, sums as long as other loops
say. Where rows make too few blocks, as those of a model that writes word by word, several blocks share the chunks of each, and
another kernel merges what they have. (Milakov and Gimelshein 2018; Dao et al. 2022, FlashAttention; Dao et al. 2023, Flash-Decoding.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, gcd, prod
from typing import TYPE_CHECKING

from ...base import dataclass, replace
from ...codegen.gpus import Gpu, target_gpu
from ...ir.analysis.warps import LINE
from ...ir.expr import IterVar, ProducerLoad
from ...te.axis import thread_axis
from ...te.operation import Operation
from ..accesses import domain_axes, find_axes, load_axes, source
from ..cost.gpu import OF_COPIES, estimate_works
from ..cost.kernels import SLOTS, KernelWork, Phase, Unique
from ..cost.tiles import MULTIPLIED, PASSES, POWERS_OF_PART, SCORE, SCORES, SUM
from ..forms.online import OnlineForm, Rows, match_online, product_sides
from ..loops import fuse_axes
from ..operations import fixed_extent, is_plain
from ..plan import Candidate, Decision
from ..registry import registered_rules
from .online_cores import apply_on_cores, core_tiles, count_on_cores, count_online
from .online_warpgroups import apply_by_groups, count_by_groups, group_tiles
from .split_k import list_chunk_splits, split_chunks
from .threads import WARP, count_lanes, keep_in_registers, lanes_along_last

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage
    from ..groups import Group

__all__ = ["online", "online_sums"]

ROWS, TERMS = (64, 32, 128, 16), (64, 32, 16)
"""Of a block, and of a part of the sum."""
THREADS = ((16, 16), (8, 16), (16, 8), (8, 8))
"""Along rows, and along terms and columns."""
FEW_ROWS, FEW_THREADS = (1, 2, 4, 8), ((1, 64), (1, 32), (1, 128))
"""The same where there are fewer rows: each thread has all of them."""
STAGES = (1, 2)
MOST_OWN = 8
"""Rows of a thread."""
MOST_COLUMNS = 256
MOST_REGISTERS = 152
"""Of a thread's arrays, so that none is spilled."""
PADDING = 4
"""Elements behind each row in shared memory: neighbouring rows are as many banks apart."""


@dataclass(frozen=True)
class Tile:
    """Tile of an online sum.

    rows: of a block; terms: of a part of the sum; threads: along rows, and along terms and columns. stages: of the pipelines
    that fill what is read of each part; 1 where it is loaded when it is needed. splits: blocks that share the terms.
    """

    rows: int
    terms: int
    threads: tuple[int, int]
    stages: int = 1
    splits: int = 1

    @property
    def columns(self) -> int:
        return self.terms

    @property
    def own(self) -> int:
        """Rows of a thread."""
        return self.rows // self.threads[0]

    def __str__(self) -> str:
        return (
            f"{self.rows} rows a block, {self.terms} terms at a time, {self.threads[0]} x {self.threads[1]} threads "
            f"of {self.own} rows{f', {self.stages} stages' if self.stages > 1 else ''}"
            f"{f', terms in {self.splits} parts' if self.splits > 1 else ''}; scores are not stored"
        )


def online(group: Group) -> bool:
    """One kernel for a sum that is weighted by a softmax of a product's rows, chunk by chunk, so that no scores are stored. Does
    nothing and returns False where the anchor is none."""
    form = match_online(group.s, group.anchor)
    if form is None or any(rule.matches(group) for rule in registered_rules()):
        return False
    gpu = target_gpu(group.target)
    ways: list[tuple[str, Callable[[], None], list[KernelWork]]] = [
        *(
            (str(each), partial(apply_by_groups, group.s, form, each), count_by_groups(form, each, gpu))
            for each in group_tiles(group.s, form, gpu)
        ),
        *(
            (str(each), partial(apply_on_cores, group.s, form, each), count_on_cores(form, each))
            for each in core_tiles(form, gpu)
        ),
        *((str(tile), partial(_apply, group.s, form, tile), _count(form, tile)) for tile in _tiles(form, gpu)),
    ]
    if not ways:
        return False
    candidates = [Candidate(text, apply, estimate_works(works, gpu)) for text, apply, works in ways]
    candidates.sort(key=lambda candidate: candidate.seconds)
    apart = estimate_works(_count_separate(form), gpu)
    candidates.append(Candidate("each operation apart, scores in memory", lambda: None, apart))
    replace(group, output=form.output, parts=(form.product,)).choose("online", candidates)
    return True


def online_sums(s: Schedule, begin: Callable[[Operation], Group]) -> list[Decision]:
    """Schedules such sums of a schedule that nobody has touched, with all that belongs to them; begin: the group of an operation
    alone. Returns what was decided."""
    decisions: list[Decision] = []
    for op in [stage.op for stage in s.stages if stage.op.reduction is not None]:
        if op in s and online(group := begin(op)):
            decisions += group.decisions
    return decisions


# The work of a tile


def _tiles(form: OnlineForm, gpu: Gpu) -> list[Tile]:
    """Return the tiles that fit the shared memory of a block, and are no more than twice as large as the result."""
    rows, terms, depth, columns, _ = form.sizes
    bytes_each = form.value.output(0).dtype.bytes
    few = rows < ROWS[-1]
    shapes = [(each, some) for each in ROWS for some in THREADS]
    shapes += [(each, some) for each in FEW_ROWS for some in FEW_THREADS if few and each < 2 * rows]
    tiles: list[Tile] = []
    for each, threads in shapes:
        for some in TERMS:
            tile, begins = Tile(each, some, threads), form.of_output.begins
            fits = (
                each % threads[0] == 0
                and some % threads[1] == 0
                and tile.own <= MOST_OWN
                and columns <= MOST_COLUMNS
                and (begins == 0 or begins % each == 0)
            )
            small = each < 2 * max(rows, ROWS[-1]) and some < 2 * max(terms, TERMS[-1])
            if fits and small and _registers(tile, columns) <= MOST_REGISTERS:
                tiles += [
                    replace(tile, stages=stages, splits=splits)
                    for splits in list_chunk_splits(form, each, some, gpu)
                    for stages in STAGES
                    if stages == 1 or form.is_copied and some < terms
                ]
    return [tile for tile in tiles if _shared_bytes(tile, depth, columns, bytes_each) <= gpu.block_shared]


def _shared_bytes(tile: Tile, depth: int, columns: int, size: int) -> int:
    """Shared memory of both sides of the product, scores and weights, what these are multiplied with, and numbers of rows."""
    both = (tile.rows + tile.terms) * (depth + PADDING)
    more = (tile.stages - 1) * tile.terms * (depth + PADDING + columns)
    return size * (both + more + 2 * tile.rows * (tile.terms + PADDING) + tile.terms * columns + 2 * tile.rows)


def _registers(tile: Tile, columns: int) -> int:
    """Registers of a thread: two results for each of its elements, or scores, with what these are made of, and numbers of its rows."""
    across = ceil(columns / tile.threads[1])
    sums = max(tile.own * across + 4 * (tile.own + across), tile.own * tile.terms // tile.threads[1])
    return tile.own * (across + 4) + sums


def _count(form: OnlineForm, tile: Tile) -> list[KernelWork]:
    """Count the work of a kernel: for each part of the sum a block multiplies twice, loading both sides from shared memory, and takes
    exponentials."""
    _, terms, depth, columns, _ = form.sizes
    size, threads = form.value.output(0).dtype.bytes, prod(tile.threads)
    across, own_terms = ceil(columns / tile.threads[1]), tile.terms / tile.threads[1]
    parts, warps = ceil(terms / tile.terms / tile.splits) * form.share, threads / WARP
    loads = threads * ((tile.own + own_terms) * depth + (tile.own + across) * tile.terms) * size / LINE
    multiplied = MULTIPLIED * tile.own * (own_terms * depth + across * tile.terms)
    products = Phase(
        parts,
        is_synchronized=True,
        issued=parts * warps * multiplied,
        of_thread=parts * multiplied / 2,  # sums do not wait for each other
        arithmetic=parts * tile.rows * tile.terms * (depth + columns) * size / 4,
        accessed=parts * loads,
    )
    # of each part the sums of a row are scaled by two powers, in every thread that has some
    merged, powers = tile.own * SUM * across, POWERS_OF_PART * tile.own
    taken = SCORE * tile.own * own_terms + merged + SLOTS["call"] * powers
    weights = Phase(
        parts,
        is_synchronized=True,
        issued=parts * warps * taken,
        of_thread=parts * taken,
        arithmetic=parts * threads * (merged + SUM * tile.own * own_terms),
        special=parts * (tile.rows * tile.terms + threads * powers),
    )
    registers, shared = _registers(tile, columns) + 3 * OF_COPIES, _shared_bytes(tile, depth, columns, size)
    return count_online(form, tile, size, [products, weights], registers, shared)


def _count_separate(form: OnlineForm) -> list[KernelWork]:
    """Count the work of a kernel for each operation: of two products in tiles of 4 x 4, and what scores take on their ways."""
    rows, terms, depth, columns, batch = form.sizes
    each = (depth, 0, 0, 0, columns)
    tile_rows = min(rows, ROWS[0])
    blocks, moved = ceil(batch * rows * terms / SCORES), PASSES / len(each) * SCORES * 4.0
    moved += SCORES / tile_rows * (depth + columns) * form.value.output(0).dtype.bytes / len(each)
    kernels = [Phase(1.0, arithmetic=SCORES * some, accessed=SCORES * some * 2 / LINE, loads=1) for some in each]
    unique: Unique = {(form.value.output(0), False): moved * blocks}
    return [KernelWork(blocks, prod(THREADS[0]), 0, 0, moved, moved, unique, 0.0, [phase]) for phase in kernels]


# The schedule


def _apply(s: Schedule, form: OnlineForm, tile: Tile) -> None:
    made = form.apply_chunks(s, tile.terms)
    output, rows = s[form.output], form.of_output
    if tile.splits > 1:
        parts, rows = split_chunks(s, form, made["merged"], tile.splits)
        output, made["merged"] = s[parts[0]], s[s.cache_write(parts, "local")[0]]
    output, block, thread = _schedule_store(output, rows, tile)
    at = output, thread
    merged, chunk = _schedule_merge(made["merged"], at)
    rows = form.row
    _sums(made["part"], made["weight"], made["factor"], made.get("rounded"), (merged, chunk), 1 + rows, tile)
    _fill_shared(made["factor"], (merged, chunk), tile, tile.stages)
    for name in ("peak", "total"):
        _reduce_rows(made[name], (merged, chunk), 1 + rows, tile)
    _schedule_weights(made["weight"], (merged, chunk), 1 + rows, tile)
    _schedule_scores(s, made["scores"], form, tile, ((merged, chunk), (output, block)))


def _schedule_store(stage: Stage, at: Rows, tile: Tile) -> tuple[Stage, IterVar, IterVar]:
    """The loops of what is stored; returns it with the loop over blocks of rows and that of a thread."""
    outer, row, e = at.order_loops(stage)
    lanes = gcd(count_lanes(stage.op.output(0).dtype), fixed_extent(e))
    rest, own = stage.split(row, factor=tile.own)
    block, down = stage.split(rest, factor=tile.threads[0])
    apart, inner = stage.split(e, factor=tile.threads[1] * lanes)
    across, vector = stage.split(inner, factor=lanes)
    stage.reorder(*outer, block, apart, down, across, own, vector)
    if outer:
        stage.bind(fuse_axes(stage, outer), thread_axis("blockIdx.y"))
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(apart, thread_axis("vthread"))
    stage.bind(down, thread_axis((0, tile.threads[0]), "threadIdx.y"))
    stage.bind(across, thread_axis((0, tile.threads[1]), "threadIdx.x"))
    stage.unroll(own)
    stage.vectorize(vector)
    return stage, block, across


def _schedule_merge(stage: Stage, at: tuple[Stage, IterVar]) -> tuple[Stage, IterVar]:
    """Merge the partial results in registers, chunk by chunk; return it with the loop over chunks."""
    stage.set_scope("local")
    stage.compute_at(*at)
    chunk = stage.op.reduce_axis[0]
    outer = domain_axes(chunk)
    stage.reorder(
        *(axis for axis in stage.op.axis if axis in outer),
        chunk,
        *(axis for axis in stage.op.axis if axis not in outer),
    )
    for axis in stage.op.axis:
        stage.unroll(axis)
    return stage, chunk


def _sums(
    part: Stage,
    weight: Stage,
    factor: Stage,
    rounded: Stage | None,
    at: tuple[Stage, IterVar],
    row: int,
    tile: Tile,
) -> None:
    """Weights times what they are multiplied with, in registers, several terms of 16 bytes at once."""
    s = part.schedule
    part.set_scope("local")
    part.compute_at(*at)
    i, e = part.op.axis[row], part.op.axis[-1]
    outer, inner = part.split(part.op.reduce_axis[0], factor=gcd(count_lanes(part.op.output(0).dtype), tile.terms))
    part.reorder(*(axis for axis in part.op.axis if axis is not i and axis is not e), outer, inner, i, e)
    for axis in (inner, i, e):
        part.unroll(axis)
    if rounded is not None:
        rounded.set_scope("local")
    copied = [factor] if rounded is not None else [weight, factor]
    copies = [s[s.cache_read(each.op.output(0), "local", [part.op])] for each in copied]
    for copy in (*copies, *([rounded] if rounded is not None else [])):
        keep_in_registers(copy, (part, outer))


def _fill_shared(stage: Stage, at: tuple[Stage, IterVar], tile: Tile, stages: int = 1) -> None:
    """Shared memory that all threads fill, neighbours along the last axis. stages: of the pipeline that does."""
    stage.set_scope("shared")
    stage.compute_at(*at)
    if stages > 1:
        stage.pipeline(stages)
    rest, vector = stage.split(fuse_axes(stage, stage.op.axis[-2:]), factor=lanes_along_last(stage))
    rest, x = stage.split(rest, factor=tile.threads[1])
    rest, y = stage.split(rest, factor=tile.threads[0])
    stage.vectorize(vector)
    stage.bind(x, thread_axis((0, tile.threads[1]), "threadIdx.x"))
    stage.bind(y, thread_axis((0, tile.threads[0]), "threadIdx.y"))


def _share_rows(stage: Stage, at: tuple[Stage, IterVar], row: int, tile: Tile) -> tuple[IterVar, IterVar]:
    """Shared memory whose rows threads share; returns the loops over them, of threads and of a thread."""
    stage.set_scope("shared")
    stage.compute_at(*at)
    rest, own = stage.split(stage.op.axis[row], factor=tile.own)
    _, down = stage.split(rest, factor=tile.threads[0])
    stage.bind(down, thread_axis((0, tile.threads[0]), "threadIdx.y"))
    stage.unroll(own)
    return down, own


def _reduce_rows(stage: Stage, at: tuple[Stage, IterVar], row: int, tile: Tile) -> None:
    """A number for each row, by the threads that share it."""
    s, (read,) = stage.schedule, stage.op.input_tensors
    _share_rows(stage, at, row, tile)
    copy = s[s.cache_read(read, "local", [stage.op])]
    vector = gcd(count_lanes(stage.op.output(0).dtype), tile.terms // tile.threads[1])
    rest, inner = stage.split(stage.op.reduce_axis[0], factor=vector)
    _, across = stage.split(rest, factor=tile.threads[1])
    stage.bind(across, thread_axis((0, tile.threads[1]), "threadIdx.x"))
    stage.unroll(inner)
    keep_in_registers(copy, (stage, across))


def _schedule_weights(stage: Stage, at: tuple[Stage, IterVar], row: int, tile: Tile) -> None:
    """Weights in shared memory, each thread's as it took them for its row's numbers."""
    _share_rows(stage, at, row, tile)
    vector = gcd(count_lanes(stage.op.output(0).dtype), tile.terms // tile.threads[1])
    rest, inner = stage.split(stage.op.axis[-1], factor=vector)
    _, across = stage.split(rest, factor=tile.threads[1])
    stage.bind(across, thread_axis((0, tile.threads[1]), "threadIdx.x"))
    stage.vectorize(inner)
    stage.storage_align(stage.op.axis[row], 32, PADDING)


def _schedule_scores(
    s: Schedule,
    scores: Stage,
    form: OnlineForm,
    tile: Tile,
    at: tuple[tuple[Stage, IterVar], tuple[Stage, IterVar]],
) -> None:
    """Scores from the product, whose sides lie in shared memory along the sum: that of the block's rows once for all terms."""
    chunk, block = at
    down, own = _share_rows(scores, chunk, 1 + form.row, tile)
    apart, across = scores.split(scores.op.axis[-1], factor=tile.threads[1])
    scores.reorder(
        *(axis for place, axis in enumerate(scores.op.axis[:-1]) if place != 1 + form.row), apart, down, across, own
    )
    scores.bind(apart, thread_axis("vthread"))
    scores.bind(across, thread_axis((0, tile.threads[1]), "threadIdx.x"))
    scores.storage_align(scores.op.axis[1 + form.row], 32, PADDING)
    sums = s[form.product]
    sums.set_scope("local")
    sums.compute_at(scores, across)
    axes, depth = list(sums.op.axis), sums.op.reduce_axis[0]
    i, j = (axes[place] for place in form.of_product)
    sides = product_sides(sums.op)
    lanes = gcd(count_lanes(sums.op.output(0).dtype), fixed_extent(depth))
    some, term = sums.split(depth, factor=lanes)
    sums.reorder(*(axis for axis in axes if axis is not i and axis is not j), some, term, i, j)
    for axis in (term, i, j):
        sums.unroll(axis)
    for load in sides:
        own = j in load_axes(load)
        _side(
            s,
            sums,
            load,
            (j if own else i, depth),
            (chunk if own else block, (sums, some)),
            tile,
            tile.stages if own else 1,
        )


def _side(
    s: Schedule,
    sums: Stage,
    load: ProducerLoad,
    axes: tuple[IterVar, IterVar],
    at: tuple[tuple[Stage, IterVar], tuple[Stage, IterVar]],
    tile: Tile,
    stages: int,
) -> None:
    """One side of the product in shared memory, rows along the sum, and what a thread takes of it into registers. stages: of the
    pipeline that copies it."""
    own, depth = (next(place for place, index in enumerate(load.indices) if axis in find_axes(index)) for axis in axes)
    producer = s[source(load)]
    alone = (
        is_plain(producer.op) and len(producer.readers) == 1 and not producer.is_output and not producer.is_scheduled()
    )
    copy = producer if alone else s[s.cache_read(source(load), "shared", [sums.op])]
    order = [*(place for place in range(len(load.indices)) if place not in (own, depth)), own, depth]
    if order != sorted(order):
        copy.transform_layout(lambda *index: [index[place] for place in order])
    registers = s[s.cache_read(copy.op.output(0), "local", [sums.op])]
    copy.storage_align(copy.op.axis[-2], 32, PADDING)
    _fill_shared(copy, at[0], tile, stages)
    keep_in_registers(registers, at[1])
