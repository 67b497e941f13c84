"""Products on tensor cores: tiles that are on their way to shared memory, fragments in registers, instructions of a whole warp.

C[i, j] = sum over k of A[i, k] * B[k, j]      floats of 8 or 16 bits or TF32 added up in float32, int8 in int32

A.matrix, B.matrix: copies with zeros up to whole tiles; C.matrix: their product
for blockIdx.z: batches   blockIdx.y, blockIdx.x: tiles of 128 x 64
  for k.outer:                                        # pipeline(3): two iterations ahead, by asynchronous copies
    A.matrix[128, 32], B.matrix[32, 64]               # shared; rows 16 bytes longer, so that ldmatrix meets no bank twice
    for k in 2:
      a[4 tiles], b[4 tiles] = fragments              # ldmatrix
      sums[4 x 4 tiles] += a * b                      # mma.sync
  C.matrix = sums                                     # in shared memory, of which whole rows are stored

A side of which less than 16 bytes can be copied at once (odd rows) may be copied to a matrix of whole rows first, by a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil, gcd, prod
from typing import TYPE_CHECKING, Any, Protocol

from ... import te
from ...base import dataclass, replace
from ...codegen.gpus import Gpu, target_gpu
from ...ir import Cast, IterVar, ProducerLoad, children, post_order
from ...ir.analysis.warps import LINE, WORD
from ...ir.fragments import K_BYTES, M, N
from ...ir.passes.gpu.narrow_results import NARROW_RESULTS
from ...ir.rounding import FLOAT8
from ...ir.tf32 import unwrap_tf32
from ...schedule.model.inlining import expand_inlined
from ...te.axis import thread_axis
from ...te.factors import factors
from ...te.intrinsics.tiles import SUMS
from ..accesses import source
from ..cost.gpu import OF_COPIES, estimate_works
from ..cost.kernels import RESULT, SLOTS_OF_TRANSFER, KernelWork, Phase, Unique, fill_phase
from ..cost.tiles import ROUNDED
from ..forms.contraction import Contraction, match_contraction, strip_conversion
from ..loops import fuse_axes
from ..matrices import declare_matrices, matrix_axes
from ..operations import iteration_count
from ..plan import Candidate
from .elements import vectors_a_thread
from .grids import BlockTile, Grid, bind_blocks, count_product, loaded_sides
from .split_k import list_splits, sum_in_parts
from .threads import THREADS, VECTOR, WARP, count_lanes, explain_width

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = [
    "OF_PACKED",
    "bind_tiles",
    "count_copies",
    "count_packs",
    "count_work",
    "elements_at_once",
    "is_packable",
    "is_theirs",
    "pack_matrix",
    "tensor_core_candidates",
    "reason_in_matrices",
    "result_bytes",
    "shared_by_all",
    "stored_by_blocks",
    "tensorize_tiles",
]

OWN = ((64, 64), (64, 32), (32, 64), (32, 32), (32, 16), (16, 16))
"""Results of a warp, rows and columns."""
WARPS = ((2, 4), (2, 2), (4, 2), (1, 2), (1, 1))
STAGES = (4, 3, 2)
OF_PACKED = ", of copies in whole rows"
"""Said of products of which a side is copied first."""


class PackedTile(BlockTile, Protocol):
    """Tile of a product of which kernels of their own may copy the sides to matrices first."""

    @property
    def packed(self) -> tuple[bool, bool]: ...


@dataclass(frozen=True)
class Tile:
    """Tile of a product on tensor cores.

    own: rows and columns of a warp; warps: of a block, along rows and along columns; depth: terms of the sum in shared memory;
    stages: of the pipeline. splits: blocks that share each sum. band: rows of blocks that run at once. packed: the sides that kernels
    of their own make matrices of first.
    """

    own: tuple[int, int]
    warps: tuple[int, int]
    depth: int
    stages: int
    splits: int = 1
    band: int = 1
    packed: tuple[bool, bool] = (False, False)

    @property
    def rows(self) -> int:
        return self.own[0] * self.warps[0]

    @property
    def columns(self) -> int:
        return self.own[1] * self.warps[1]

    @property
    def threads(self) -> tuple[int, ...]:
        return WARP, self.warps[1], self.warps[0]

    def __str__(self) -> str:
        return (
            f"tensor cores, tiles of {self.rows} x {self.columns} x {self.depth}, {self.warps[0]} x {self.warps[1]} warps of "
            f"{self.own[0]} x {self.own[1]}, {self.stages} stages"
            f"{f', sums in {self.splits} parts' if self.splits > 1 else ''}"
            f"{f', bands of {self.band}' if self.band > 1 else ''}"
            f"{OF_PACKED if any(self.packed) else ''}"
        )


def tensor_core_candidates(group: Group) -> list[Candidate]:
    """The ways to compute a group's product on tensor cores, the quickest first; none where its dtypes are not theirs."""
    found = match_contraction(group.anchor, strip_conversion)
    if found is None or group.parts or not is_theirs(group, found):
        return []
    gpu, size, reason = target_gpu(group.target), found.a.dtype.bytes, reason_in_matrices(group, found)
    narrow = [elements_at_once(found, load) < count_lanes(load.dtype) for load in (found.a, found.b)]
    ways = [(False, False), *([(narrow[0], narrow[1])] if any(narrow) and is_packable(found, narrow) else [])]
    tiles = [replace(tile, packed=packed) for tile in _tiles(found, gpu, size) for packed in ways]
    candidates = [
        Candidate(
            str(tile), partial(_apply, group, found, tile), estimate_works(count_work(found, tile, gpu), gpu), reason
        )
        for tile in tiles
    ]
    return sorted(candidates, key=lambda candidate: candidate.seconds)


def reason_in_matrices(group: Group, found: Contraction) -> str:
    """Return the reason for which less than 16 bytes are moved at once; empty where they are not."""
    turned = [
        f"{source(load).name} by 1 byte: no instruction turns bytes"
        for load in (found.a, found.b)
        if load.dtype.bytes == 1 and not found.is_read_along_sum(load)
    ]
    return "; ".join([*turned, *filter(None, [explain_width(found, group.output.output(0).dtype)])])


def result_bytes(group: Group) -> int:
    """Return the bytes of an element of the sums on their way out: of float16 or bfloat16 where all that reads them converts them."""
    sums, kinds = group.anchor.output(0), set[str]()
    for node in post_order(expand_inlined(group.s[group.output])):
        if any(isinstance(child, ProducerLoad) and source(child) is sums for child in children(node)):
            kinds.add(str(node.dtype) if isinstance(node, Cast) else "")
    return 2 if len(kinds) == 1 and kinds <= {*NARROW_RESULTS} else sums.dtype.bytes


def elements_at_once(found: Contraction, load: ProducerLoad) -> int:
    """Return the number of elements of a matrix that a thread may copy at once; bytes that are turned come one by one."""
    return (
        gcd(count_lanes(load.dtype), found.neighbours(load))
        if load.dtype.bytes > 1 or found.is_read_along_sum(load)
        else 1
    )


def is_packable(found: Contraction, packed: Sequence[bool]) -> bool:
    """Return whether copies of sides lie in memory as the sides do."""
    loads = [load for load, is_packed in zip((found.a, found.b), packed, strict=True) if is_packed]
    return all(load.dtype.bytes > 1 or found.is_read_along_sum(load) for load in loads)


def count_copies(found: Contraction, tile: PackedTile) -> float:
    """Count the copies of threads for a term of a tile's rows and columns."""
    return sum(
        extent / (count_lanes(load.dtype) if is_packed else elements_at_once(found, load))
        for load, extent, is_packed in zip((found.a, found.b), (tile.rows, tile.columns), tile.packed, strict=True)
    )


def count_packs(found: Contraction, tile: PackedTile, terms: int, rounded: bool = False) -> list[KernelWork]:
    """Count the work of the kernels that copy sides to matrices of so many terms, 16 bytes a thread. rounded: to TF32."""
    size = found.a.dtype.bytes
    lanes, moved = VECTOR // size, 2.0 * THREADS * VECTOR
    each = SLOTS_OF_TRANSFER * (lanes + 1) + ROUNDED * lanes * rounded
    copy = Phase(1.0, issued=THREADS / WARP * each, of_thread=each, accessed=moved / LINE, loads=lanes)
    works: list[KernelWork] = []
    for load, extent, own, is_packed in zip(
        (found.a, found.b), found.sizes[:2], (tile.rows, tile.columns), tile.packed, strict=True
    ):
        if is_packed:
            stored = float(found.sizes[3] * ceil(extent / own) * own * terms * size)
            unique: Unique = {(load.producer, False): stored, (RESULT, True): stored}
            blocks = ceil(stored / VECTOR / THREADS)
            works.append(KernelWork(blocks, THREADS, lanes, 0, moved, moved, unique, 0.0, [copy]))
    return works


def is_theirs(group: Group, found: Contraction) -> bool:
    """Return whether both factors are elements of one dtype, or both bytes, each converted to that of the sums, or rounded to TF32 where
    it is the same."""
    dtype, other = str(found.a.dtype), str(found.b.dtype)
    if found.a.dtype.kind in FLOAT8 and "mma_float8" not in target_gpu(group.target).features:
        return False
    if {SUMS.get(dtype), SUMS.get(other)} != {
        str(group.anchor.output(0).dtype)
    } or found.a.dtype.bytes != found.b.dtype.bytes:
        return False
    if dtype != other and found.a.dtype.bytes > 1:
        return False
    return dtype != SUMS[dtype] or all(
        unwrap_tf32(factor) is not factor for factor in factors(group.s[group.anchor].op) or ()
    )


def _tiles(found: Contraction, gpu: Gpu, size: int) -> Iterator[Tile]:
    """Return the tiles that fit the shared memory of a block, and are no more than twice as large as the result."""
    rows, columns, terms, batch = found.sizes
    depth = (LINE if terms * size > LINE // 2 else LINE // 2) // size
    for own in OWN:
        for warps in WARPS:
            for stages in STAGES:
                tile = Tile(own, warps, depth, stages)
                sides = ((tile.rows, rows, M), (tile.columns, columns, N), (depth, terms, K_BYTES // size))
                fits = all(own < 2 * max(whole, least) for own, whole, least in sides)
                if fits and _shared_bytes(tile, size) <= gpu.block_shared:
                    blocks = batch * ceil(rows / tile.rows) * ceil(columns / tile.columns)
                    band = Grid.of(found, tile, gpu).band()
                    yield from (
                        replace(tile, splits=splits, band=band) for splits in list_splits(blocks, terms // depth, gpu)
                    )


def _shared_bytes(tile: Tile, size: int) -> int:
    """Shared memory of the tiles in all stages of the pipeline, or of the result on its way out, in their place; either way of a
    side to lie."""
    longest = max(
        (tile.depth * size + VECTOR) * (tile.rows + tile.columns),
        tile.depth * ((tile.rows + tile.columns) * size + 2 * _pad_bytes(size)),
    )
    return max(tile.stages * longest, tile.rows * (tile.columns + 8) * 4)


def _pad_bytes(size: int) -> int:
    """Bound the bytes of padding after each row of elements that are read down their columns: 4 rows of 8 words then meet no bank
    twice."""
    return VECTOR if size < WORD else 24 * WORD


def count_work(found: Contraction, tile: Tile, gpu: Gpu) -> Sequence[KernelWork]:
    """Count the work of a product: of each part of the sum the warps of a block load fragments and multiply them."""
    warps, (tiles_down, tiles_across) = prod(tile.warps), (tile.own[0] // M, tile.own[1] // N)
    size = found.a.dtype.bytes
    parts = ceil(found.sizes[2] / (tile.depth * tile.splits))
    steps = parts * tile.depth * size / K_BYTES
    rounded = ROUNDED * (4 * tiles_down + 2 * tiles_across) if size == WORD else 0
    own = steps * (tiles_down * tiles_across + tiles_down + tiles_across + rounded)
    read = (tile.rows + tile.columns) * parts * tile.depth * size
    main = Phase(
        parts,
        issued=warps * own,
        of_thread=own,
        mma=tile.rows * tile.columns * tile.depth * parts * size / 2,
        accessed=warps * (tile.own[0] + tile.own[1]) * tile.depth * parts * size / LINE,
    )
    copies = parts * tile.depth * count_copies(found, tile) / WARP / warps
    fill = fill_phase(parts, tile.stages, warps * WARP, copies, read)
    product = count_product(
        found,
        tile,
        gpu,
        [main, fill],
        threads=prod(tile.threads),
        registers=tile.own[0] * tile.own[1] / WARP + sum(tile.own) / 4 + 2 * OF_COPIES,
        shared=_shared_bytes(tile, size),
        read=loaded_sides(found, tile) * parts * tile.depth * size,
        item=4,
        band=tile.band,
        splits=tile.splits,
    )
    return [*count_packs(found, tile, parts * tile.depth * tile.splits), *product]


def _apply(group: Group, found: Contraction, tile: Tile) -> None:
    s, dtypes = group.s, (str(found.a.dtype), str(found.b.dtype))
    size = found.a.dtype.bytes
    down = [
        size > 1 and not found.is_read_along_sum(load) for load in (found.a, found.b)
    ]  # columns of terms: ldmatrix turns no bytes
    a, b, whole = declare_matrices(
        group, found, (tile.rows, tile.columns, tile.depth * tile.splits), (down[0], not down[1])
    )
    layouts = "km" if down[0] else "mk", "kn" if down[1] else "nk"
    made = sum_in_parts(group, whole, tile.splits) if tile.splits > 1 else whole
    sums = s[s.cache_write(made, "mma_c")]
    tiles = [
        pack_matrix(s[matrix], sums, "shared") if is_packed else s[matrix]
        for matrix, is_packed in zip((a, b), tile.packed, strict=True)
    ]
    fragments = [
        s[s.cache_read(each.op.output(0), scope, [sums])]
        for each, scope in zip(tiles, ("mma_at" if down[0] else "mma_a", "mma_b" if down[1] else "mma_bt"), strict=True)
    ]
    inners = (
        _bind_partial_sums(s[made], tile)
        if tile.splits > 1
        else _stage_result(s[whole], stored_by_blocks(group, found, tile, tile.band))
    )
    warp = _bind_warps(s[made], inners, tile, SUMS[dtypes[0]], "global" if tile.splits > 1 else "shared")
    outer, inner = _sum_fragments(sums, (s[made], warp), tile, size, layouts, dtypes)
    loads = "cuda.mma_load_a", "cuda.mma_load_b"
    for stage, layout, load, dtype in zip(fragments, layouts, loads, dtypes, strict=True):
        sizes = {"m": M, "n": N, "k": K_BYTES // size}
        stage.compute_at(sums, inner)
        shape = sizes[layout[0]], sizes[layout[1]]
        arguments = ("shared", *shape, layout, dtype) if "m" in layout else (layout, "shared", *shape, dtype)
        tensorize_tiles(stage, shape, [load, *arguments])
    for stage, load, is_packed in zip(tiles, (found.a, found.b), tile.packed, strict=True):
        lanes = count_lanes(load.dtype) if is_packed else elements_at_once(found, load)
        _fetch_tile(stage, (sums, outer), tile, lanes)


def pack_matrix(stage: Stage, sums: Stage, scope: str) -> Stage:
    """Have a kernel of its own compute a matrix, 16 bytes a thread; return the copy of it that its product reads."""
    matrix = stage.op.output(0)
    vectors_a_thread(stage, count_lanes(matrix.dtype))
    return stage.schedule[stage.schedule.cache_read(matrix, scope, [sums])]


def stored_by_blocks(
    group: Group, found: Contraction, tile: BlockTile, band: int = 1, resident: int = 0
) -> tuple[Stage, IterVar]:
    """The loops of what is stored, the blocks in bands of so many rows, or so many blocks that stay; returns the stage and the loop
    of a block."""
    anchor, stage = group.anchor, group.s[group.output]
    beside = iteration_count(found.columns) if anchor.axis[-len(found.columns) :] == found.columns else 1
    lanes = gcd(count_lanes(stage.op.output(0).dtype), beside)
    at, inners = bind_tiles(stage, *matrix_axes(stage, found, anchor), tile, band, resident)
    shared_by_all(stage, inners, tile, lanes, (4, 2) if tile.columns * 4 < LINE else (1, 1))
    return stage, at


def bind_tiles(
    stage: Stage,
    outer: Sequence[IterVar],
    row: IterVar,
    column: IterVar,
    tile: BlockTile,
    band: int,
    resident: int = 0,
) -> tuple[IterVar, tuple[IterVar, IterVar]]:
    """A block for each tile; returns the loop of a block, and those over the rows and columns of one."""
    down, i = stage.split(row, factor=tile.rows)
    across, j = stage.split(column, factor=tile.columns)
    stage.reorder(*outer, down, across, i, j)
    if outer:
        stage.bind(fuse_axes(stage, outer), thread_axis("blockIdx.z"))
    return bind_blocks(stage, down, across, band, resident), (i, j)


def _bind_partial_sums(stage: Stage, tile: Tile) -> tuple[IterVar, IterVar]:
    """The loops of parts of sums, which blocks store from their registers; returns those over rows and columns of one."""
    *outer, row, column = stage.op.axis
    return bind_tiles(stage, outer, row, column, tile, tile.band)[1]


def _stage_result(stage: Stage, at: tuple[Stage, IterVar]) -> tuple[IterVar, IterVar]:
    """The result of a block in shared memory, of which whole rows are stored; returns its rows and columns."""
    stage.set_scope("shared")
    stage.compute_at(*at)
    i, j = stage.op.axis[-2:]
    stage.storage_align(i, 32, 8)  # neighbouring rows are 8 banks apart
    return i, j


def _bind_warps(stage: Stage, axes: tuple[IterVar, IterVar], tile: Tile, dtype: str, scope: str) -> IterVar:
    """The result of a block, of which each warp stores its part; returns the loop of a warp."""
    warps, inners = zip(*(stage.split(axis, factor=own) for axis, own in zip(axes, tile.own, strict=True)), strict=True)
    stage.reorder(*warps, *inners)
    for axis, name, count in zip(warps, "zy", tile.warps, strict=True):
        stage.bind(axis, thread_axis((0, count), f"threadIdx.{name}"))
    tensorize_tiles(stage, (M, N), ["cuda.mma_store", M, N, dtype, scope], inners)
    return warps[1]


def _sum_fragments(
    sums: Stage,
    at: tuple[Stage, IterVar],
    tile: Tile,
    size: int,
    layouts: tuple[str, str],
    dtypes: tuple[str, str],
) -> tuple[IterVar, IterVar]:
    """The fragments of a warp; returns the loop over what is in shared memory, and that over what is in registers."""
    sums.compute_at(*at)
    i, j = sums.op.axis[-2:]
    outer, inner = sums.split(sums.op.reduce_axis[0], factor=tile.depth)
    some, term = sums.split(inner, factor=K_BYTES // size)
    sums.reorder(*sums.op.axis[:-2], outer, some, i, j, term)
    sums.unroll(some)
    shape = M, N, K_BYTES // size
    intrinsic = (
        ("cuda.mma_m16n8k16", layouts[1], *shape, dtypes[0], layouts[0])
        if size == 2
        else (f"cuda.mma_m16n8k{shape[2]}", layouts[1], *shape, layouts[0], *(dtypes if size == 1 else ()))
    )
    tensorize_tiles(sums, (M, N), intrinsic)
    return outer, some


def tensorize_tiles(
    stage: Stage, sizes: tuple[int, int], intrinsic: Sequence[Any], axes: Sequence[IterVar] = ()
) -> None:
    """The last two dimensions by unrolled tiles, each by an instruction; what a reduction adds up stays inside."""
    pairs = [stage.split(axis, factor=size) for axis, size in zip(axes or stage.op.axis[-2:], sizes, strict=True)]
    (outer, row), (over, column) = pairs
    stage.reorder(outer, over, row, column, *(stage.leaf_iter_vars[-1:] if stage.op.reduce_axis else ()))
    stage.unroll(outer)
    stage.unroll(over)
    stage.tensorize(row, te.intrinsics.get(*intrinsic))


def _fetch_tile(stage: Stage, at: tuple[Stage, IterVar], tile: Tile, together: int) -> None:
    """A tile in shared memory, by all threads."""
    stage.set_scope("shared")
    stage.compute_at(*at)
    dtype, (row, column) = stage.op.output(0).dtype, stage.op.axis[-2:]
    lanes = count_lanes(dtype)
    down = dtype.bytes == WORD and column.name != "k"  # read down its columns, 4 rows of 8 words at once
    stage.storage_align(row, *((32, 8) if down else (2 * lanes, lanes)))
    whole = column.name == "k" or (tile.rows if column.name == "i" else tile.columns) * dtype.bytes >= LINE
    outer = fuse_axes(stage, stage.op.axis[:-1]) if len(stage.op.axis) > 2 else row
    shared_by_all(
        stage, (outer, column), tile, together, (1, 1) if whole or together < lanes else (4, 2) if down else (8, 1)
    )
    stage.pipeline(tile.stages)


def shared_by_all(
    stage: Stage, axes: tuple[IterVar, IterVar], tile: BlockTile, lanes: int, near: tuple[int, int]
) -> None:
    """The iterations of a loop over rows and one over columns by all threads of a block, `lanes` neighbours by each. near: rows,
    and places in each, that threads beside each other take where a row is shorter than all banks: of these none meets another."""
    rows, columns = axes
    columns, vector = stage.split(columns, factor=lanes)
    stage.vectorize(vector)
    rest = stage.fuse(rows, columns) if near == (1, 1) else _interleave_rows(stage, rows, columns, near)
    for count, name in zip(tile.threads, "xyz", strict=False):
        rest, thread = stage.split(rest, factor=count)
        stage.bind(thread, thread_axis((0, count), f"threadIdx.{name}"))


def _interleave_rows(stage: Stage, rows: IterVar, columns: IterVar, near: tuple[int, int]) -> IterVar:
    """The loop over some rows and places in them, and others after these."""
    some, row = stage.split(rows, factor=near[0])
    parts, part = stage.split(columns, factor=near[1])
    stage.reorder(some, parts, row, part)
    return stage.fuse(some, parts, row, part)
