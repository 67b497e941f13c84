"""Products by warpgroups (sm_90a): tiles on their way to swizzled shared memory, which four warps together multiply from there.

    C[i, j] = sum over k of A[i, k] * B[k, j]      floats of 8 or 16 bits or TF32 added up in float32, int8 or uint8 in int32

    A.matrix, B.matrix: copies with zeros up to whole tiles; C.matrix: their product
    for blockIdx.z: batches   blockIdx.y, blockIdx.x: tiles of 128 x 128
      for k.outer:                                        # pipeline(4): three iterations ahead
        A.matrix[128, 64], B.matrix[64, 128]              # swizzled: no bank twice, by rows or by columns
        for threadIdx.y: four warps of 64 x 128
          sums[64 x 128] += A.matrix * B.matrix           # wgmma, of which no operand goes through registers
      C.matrix = sums                                     # in shared memory, of which whole rows are stored

Where both sides are matrices in memory, with rows at multiples of 16 bytes, the copy engine fetches the tiles by boxes: one thread asks,
or four more warps that do nothing else, which go on to the next tile while the others store theirs, where as many blocks as the GPU holds
take one tile after the other, in bands that the L2 cache holds. A side that is no such matrix (odd rows, windows) may be copied to one
first, by a kernel of its own; sides of TF32 are, which rounds them. A result that is such a matrix the engine stores too, some columns at
a time: they take less memory than a whole tile, which leaves room for one more stage, and nobody waits for their way out. Biases and
activations are computed by each thread of the sums that it has:

      for part in unrolled(4):                          # of 64 columns
        C.matrix[128, 64] = relu(sums + bias)           # swizzled, in place of the last part once the engine has read it
        C = C.matrix                                    # bulk_store
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

from ... import te
from ...base import dataclass, replace
from ...codegen.gpus import Gpu, target_gpu
from ...ir import Cast, IntImm, IterVar, ProducerLoad, post_order
from ...ir.analysis.warps import LINE, WORD
from ...ir.copies import BULK_STORE
from ...ir.fragments import LATE_STAGES, WARPGROUP_LANES, WGMMA_ROWS
from ...ir.passes.gpu.bulk_copies import MOST_DIMENSIONS, UNIT_BYTES
from ...ir.passes.gpu.narrow_results import NARROW_RESULTS
from ...ir.passes.gpu.swizzle import NARROW, PANEL_BYTES
from ...ir.passes.gpu.swizzle import ROWS as PANEL_ROWS
from ...schedule.model.inlining import expand_inlined
from ...te.axis import thread_axis
from ...te.intrinsics.tiles import SUMS
from ..accesses import load_axes, source
from ..cost.gpu import CLUSTER_LATENCY, DRAIN, ENGINE_LATENCY, FENCE, count_resident, estimate_works
from ..cost.kernels import KernelWork, Phase, fill_phase
from ..cost.tiles import DESCRIPTORS
from ..forms.contraction import Contraction, match_contraction, strip_conversion
from ..loops import fuse_axes
from ..matrices import declare_matrices, matrix_axes
from ..operations import is_expensive, iteration_count
from ..plan import Candidate
from .grids import BANDS, Grid, count_product, loaded_sides
from .online_fragments import bind_lanes
from .tensor_cores import (
    OF_PACKED,
    bind_tiles,
    count_copies,
    count_packs,
    elements_at_once,
    is_packable,
    is_theirs,
    pack_matrix,
    reason_in_matrices,
    result_bytes,
    shared_by_all,
    stored_by_blocks,
)

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["warpgroup_candidates"]

OWN = ((64, 256), (128, 128), (64, 192), (64, 128), (128, 64), (64, 64), (64, 32), (64, 16))
"""Results of four warps, rows and columns."""
GROUPS = (2, 1)
STAGES = (6, 4, 3, 2)
CLUSTERS = {2: 1.0, 4: 32 / 33}
"""Blocks of one, and of the multiprocessors those that clusters of them can use: an H100's lie in parts of 16 or 18, of which each
cluster has one."""
ACTIVATIONS = "exp", "exp2", "tanh", "erf"
"""Calls that each sum of a thread may take: their instructions stand in the kernel for all of its sums, one after the other."""
PARTS_STORED = (1, 2, 3, 4, 8)
"""Parts of the columns of a tile that are stored one after the other."""


@dataclass(frozen=True)
class Tile:
    """Tile of a product by warpgroups.

    own: rows and columns of four warps; groups: of four warps, one below the other; stages: of the pipeline. boxes: whether the
    copy engine fills it; roles: asked by warps of their own. band: rows of blocks that run at once. resident: blocks, which take
    one tile after the other; 0 for one each. cluster: of blocks that fetch together what both need. result: bytes of an element
    of the sums on their way out. packed: the sides that kernels of their own make matrices of first. stored: columns that
    the copy engine stores at once; 0 where threads store whole tiles. computed: of what threads compute from the sums that they have.
    """

    own: tuple[int, int]
    groups: int
    stages: int
    boxes: bool = False
    roles: bool = False
    band: int = 1
    resident: int = 0
    cluster: int = 1
    result: int = 4
    packed: tuple[bool, bool] = (False, False)
    stored: int = 0
    computed: bool = False

    @property
    def is_late(self) -> bool:
        """Return whether products that begin together end while the next ones run."""
        return self.roles and self.stages >= LATE_STAGES

    @property
    def rows(self) -> int:
        return self.own[0] * self.groups

    @property
    def columns(self) -> int:
        return self.own[1]

    @property
    def threads(self) -> tuple[int, ...]:
        return WARPGROUP_LANES, self.groups

    @property
    def all_threads(self) -> int:
        """Return the number of threads of a block, with those that ask the copy engine alone."""
        return WARPGROUP_LANES * (self.groups + self.roles)

    @property
    def registers(self) -> int:
        """Return the number of registers of a thread."""
        return self.own[0] * self.columns // WARPGROUP_LANES + DESCRIPTORS

    def __str__(self) -> str:
        return (
            f"warpgroups, tiles of {self.rows} x {self.columns}, {self.groups} x 4 warps of {self.own[0]} x {self.own[1]}, "
            f"{self.stages} stages{' of boxes' if self.boxes else ''}{' by warps of their own' if self.roles else ''}"
            f"{f', bands of {self.band}' if self.band > 1 else ''}{f', {self.resident} blocks' if self.resident else ''}"
            f"{f', clusters of {self.cluster}' if self.cluster > 1 else ''}"
            f"{f', stored by boxes of {self.stored}' if self.stored else ''}"
            f"{', of what threads make of their sums' if self.computed else ''}"
            f"{OF_PACKED if any(self.packed) else ''}"
        )


def warpgroup_candidates(group: Group) -> list[Candidate]:
    """The ways to compute a group's product by warpgroups, the quickest first; none where the architecture has no such
    instructions, or the dtypes are not theirs."""
    gpu, found = target_gpu(group.target), match_contraction(group.anchor, strip_conversion)
    if (
        not gpu.warpgroup
        or found is None
        or group.parts
        or not is_theirs(group, found)
        or found.a.dtype != found.b.dtype
    ):
        return []
    down = [
        load.dtype.bytes > 1 and not found.is_read_along_sum(load) for load in (found.a, found.b)
    ]  # columns of terms; bytes are turned
    rounded = found.a.dtype.bytes == WORD  # TF32, by kernels of their own: copies past the threads do not round
    if rounded and any(down):
        return []  # instructions take it along the sum alone
    packed = [rounded or not _comes_in_boxes(group, found, load) for load in (found.a, found.b)]
    fetched = [] if rounded else [(False, False, (False, False))]
    several = iteration_count(found.summed) > PANEL_BYTES // found.a.dtype.bytes
    if not any(packed) or several and is_packable(found, packed):
        fetched.append((True, True, (packed[0], packed[1])))
        if not any(packed):  # behind copies one thread of many asks never sooner
            fetched.insert(1, (True, False, (False, False)))
    out = _find_boxes_of_result(group, found)
    tiles = [
        each
        for tile in _tiles(found, gpu, down[1], result_bytes(group))
        for boxes, roles, first in fetched
        if (way := _fit_result(found, replace(tile, boxes=boxes, roles=roles, packed=first), out, gpu)) is not None
        for each in _cluster_tiles(found, _set_bands(found, way, gpu), gpu)
    ]
    reason = reason_in_matrices(group, found)
    candidates: list[Candidate] = []
    for tile in tiles:
        used = replace(gpu, processors=int(gpu.processors * CLUSTERS.get(tile.cluster, 1)))
        time = estimate_works(_count(found, tile, used), used)
        candidates.append(Candidate(str(tile), partial(_apply, group, found, tile, down), time, reason))
    return sorted(candidates, key=lambda candidate: candidate.seconds)


def _tiles(found: Contraction, gpu: Gpu, down: bool, result: int) -> Iterator[Tile]:
    """Return the tiles that fit the shared memory of a block, and are no more than twice as large as the result. down:
    B lies in rows of its columns, which are whole panels."""
    size = found.a.dtype.bytes
    rows, columns, terms, _ = found.sizes
    depth = PANEL_BYTES // size
    for shape in OWN:
        for groups in GROUPS:
            for stages in STAGES:
                tile = Tile(shape, groups, stages, result=result)
                sides = (tile.rows, rows, WGMMA_ROWS), (tile.columns, columns, 16), (depth, terms, depth // 4)
                fits = all(own < 2 * max(whole, least) for own, whole, least in sides)
                if fits and _shared_bytes(tile) <= gpu.block_shared and not (down and tile.columns % depth):
                    yield tile


def _comes_in_boxes(group: Group, found: Contraction, load: ProducerLoad) -> bool:
    """Return whether a tile of what a side reads is a box of a tensor in memory, whose rows the copy engine finds, and the sum has several
    parts."""
    tensor, size = source(load), load.dtype.bytes
    own = found.rows if load is found.a else found.columns
    indices = [index for index in load.indices if not isinstance(index, IntImm)]
    plain = all(isinstance(index, IterVar) for index in indices) and len({*indices}) == len(indices)
    if (
        not plain
        or tensor.op in group.heads
        or len(own) != 1
        or len(found.summed) != 1
        or len(tensor.shape) > MOST_DIMENSIONS
    ):
        return False
    if iteration_count(own) == 1:  # of which no dimension of the tensor is known by its index
        return False
    last, depth = load.indices[-1], PANEL_BYTES // size
    lies = last is found.summed[0] if size == 1 or found.is_read_along_sum(load) else last is own[0]
    extent = tensor.shape[-1]
    return (
        lies
        and isinstance(extent, IntImm)
        and extent.value * size % UNIT_BYTES == 0
        and iteration_count(found.summed) > depth
    )


def _find_boxes_of_result(group: Group, found: Contraction) -> dict[str, Any] | None:
    """Return the fields of a tile whose result is stored to a matrix whose rows the copy engine finds: as it comes, rounded, or computed
    from a thread's sums and what all rows have in common; None where it is not."""
    result, axes = group.output.output(0), group.anchor.axis
    extent, comes = result.shape[-1], _is_stored_as_it_comes(group)
    leaves = (
        found.columns == tuple(axes[-1:])
        and len(found.rows) == 1
        and not found.mirrored
        and len(axes) <= MOST_DIMENSIONS
        and isinstance(extent, IntImm)
        and extent.value > 1
        and iteration_count(found.rows) > 1
        and extent.value * result.dtype.bytes % UNIT_BYTES == 0
        and (comes or _is_computed_by_row(group))
    )
    return None if not leaves else {} if comes else {"computed": True, "result": result.dtype.bytes}


def _is_stored_as_it_comes(group: Group) -> bool:
    """Return whether a result is its sums, or these rounded."""
    if group.output is group.anchor:
        return True
    value = expand_inlined(group.s[group.output])
    if isinstance(value, Cast) and str(value.dtype) in NARROW_RESULTS:
        value = value.value
    return isinstance(value, ProducerLoad) and _is_own_sum(group, value)


def _is_own_sum(group: Group, load: ProducerLoad) -> bool:
    return source(load) is group.anchor.output(0) and load.indices == tuple(group.output.axis)


def _is_computed_by_row(group: Group) -> bool:
    """Return whether a result takes a few instructions of its sum, and of what no two of its rows read from different places: biases,
    scales of columns. Matrices beside it are read in whole rows, by threads that have these."""
    value, row = expand_inlined(group.s[group.output]), group.output.axis[-2]
    loads = [node for node in post_order(value) if isinstance(node, ProducerLoad)]
    expensive = any(is_expensive(op, *ACTIVATIONS) for op in (*group.between, group.output))
    return not expensive and all(_is_own_sum(group, load) or row not in load_axes(load) for load in loads)


def _fit_result(found: Contraction, tile: Tile, out: dict[str, Any] | None, gpu: Gpu) -> Tile | None:
    """Return the tile, of which the copy engine stores as many columns at once as there is room for, where the result leaves in boxes
    and is no smaller; None where there is no room. out: the fields of a tile whose result does."""
    parts = [0]
    if out is not None and tile.boxes and tile.rows <= found.sizes[0] and tile.columns <= found.sizes[1]:
        tile, parts = replace(tile, **out), [tile.columns // part for part in PARTS_STORED if tile.columns % part == 0]
    fitting = [
        way
        for part in parts
        if part * tile.result % PANEL_BYTES == 0 or part * tile.result in NARROW
        if _shared_bytes(way := replace(tile, stored=part)) <= gpu.block_shared
    ]
    return fitting[0] if fitting else None


def _set_bands(found: Contraction, tile: Tile, gpu: Gpu) -> Tile:
    """Return the tile with the bands that memory needs; with roles, as many blocks as the GPU holds, where there are more tiles."""
    grid, held = Grid.of(found, tile, gpu), gpu.processors * _resident_blocks(tile, gpu)
    return replace(tile, band=grid.band(), resident=held if tile.roles and grid.down * grid.across > held else 0)


def _cluster_tiles(found: Contraction, tile: Tile, gpu: Gpu) -> list[Tile]:
    """A tile, and the same for blocks in clusters, where there are whole ones that share their rows, or in bands their columns, which
    are more to share where a tile is wide."""
    grid = Grid.of(found, tile, gpu)
    wide = tile.band == 1 and tile.columns > tile.rows and grid.down >= BANDS[-1]
    clusters: list[Tile] = []
    for way in (tile, *([replace(tile, band=BANDS[-1])] if wide else [])):
        neighbours = way.band if way.band > 1 else grid.across
        for blocks, used in CLUSTERS.items():
            resident = int(tile.resident * used) // blocks * blocks
            if (
                tile.roles
                and neighbours % blocks == 0
                and bool(resident) == bool(tile.resident)
                and (_shared_lines(way) // blocks % PANEL_ROWS == 0)
            ):
                clusters.append(replace(way, cluster=blocks, resident=resident))
    return [tile, *clusters]


def _shared_lines(tile: Tile) -> int:
    """Rows, or columns, of the side that neighbouring blocks have in common."""
    return tile.columns if tile.band > 1 else tile.rows


def _resident_blocks(tile: Tile, gpu: Gpu) -> int:
    """Blocks of a multiprocessor."""
    return count_resident(gpu, tile.all_threads, tile.registers, _shared_bytes(tile))


def _shared_bytes(tile: Tile) -> int:
    """Bound the shared memory: of the tiles in all stages of the pipeline, and of barriers before them; and of the result on its way out,
    in the tiles' place where no warps of their own fill these meanwhile."""
    across = tile.stored or tile.columns + (8 - tile.columns) % 32
    tiles, result = tile.stages * (tile.rows + tile.columns) * PANEL_BYTES, tile.rows * across * tile.result
    return (tiles + result if tile.roles else max(tiles, result)) + PANEL_ROWS * PANEL_BYTES * tile.boxes


def _count(found: Contraction, tile: Tile, gpu: Gpu) -> Sequence[KernelWork]:
    """Count the work of a product: what is multiplied comes from shared memory once for each of the instructions, and what began
    together ends before the next begins, which blocks beside it fill. The copy engine takes no instructions of threads, and longer
    for the first bytes."""
    _, _, terms, batch = found.sizes
    size, grid = found.a.dtype.bytes, Grid.of(found, tile, gpu)
    depth = PANEL_BYTES // size
    parts = ceil(terms / depth)
    filled = parts * (tile.rows + tile.columns) * PANEL_BYTES
    main = Phase(
        parts,
        wgmma=tile.rows * tile.columns * depth * parts * size / 2,
        accessed=parts * tile.rows // WGMMA_ROWS * (WGMMA_ROWS + tile.columns) * PANEL_BYTES / LINE,
        alone=parts * (DRAIN * (not tile.is_late) + FENCE * (not tile.boxes)),
    )
    copies = 0 if tile.boxes else parts * depth * count_copies(found, tile) / tile.all_threads
    fill = replace(
        fill_phase(parts, tile.stages - tile.is_late, tile.all_threads, copies, filled),
        is_synchronized=not tile.roles,
        loads=max(copies, parts),
        late=ENGINE_LATENCY * tile.boxes + CLUSTER_LATENCY * (tile.cluster - 1),
        begins=min(tile.resident / (batch * grid.down * grid.across), 1.0) if tile.resident else 1.0,
    )
    product = count_product(
        found,
        tile,
        gpu,
        [main, fill],
        threads=tile.all_threads,
        registers=tile.registers,
        shared=_shared_bytes(tile),
        read=parts * loaded_sides(found, tile) * PANEL_BYTES
        - parts * _shared_lines(tile) * (1 - 1 / tile.cluster) * PANEL_BYTES,  # less what another block fetches
        item=tile.result,
        band=tile.band,
        boxes=tile.columns // tile.stored if tile.stored else 0,
    )
    return [*count_packs(found, tile, parts * depth, size == WORD), *product]


def _apply(group: Group, found: Contraction, tile: Tile, down: Sequence[bool]) -> None:
    s, dtype = group.s, str(found.a.dtype)
    depth, sums_dtype = PANEL_BYTES // found.a.dtype.bytes, SUMS[dtype]
    a, b, whole = declare_matrices(group, found, (tile.rows, tile.columns, depth), (down[0], not down[1]))
    sums = s[whole if tile.computed else s.cache_write(whole, "wgmma_c")]
    sums.set_scope("wgmma_c")
    i, j = sums.op.axis[-2:]
    outer, inner = sums.split(sums.op.reduce_axis[0], factor=depth)
    if tile.stored:
        sums.compute_at(*_store_boxes(group, found, s[whole], tile, sums_dtype))
        groups, i = _bind_groups(sums, i, tile)
        sums.reorder(*sums.op.axis[:-2], outer, groups, i, j, inner)
    else:
        at = stored_by_blocks(group, found, tile, tile.band, tile.resident)
        sums.compute_at(s[whole], _stage_result(s[whole], at, tile, sums_dtype))
        sums.reorder(*sums.op.axis[:-2], outer, i, j, inner)
    layouts = "kn" if down[1] else "nk", "km" if down[0] else "mk"
    sums.tensorize(i, te.intrinsics.get("cuda.wgmma", layouts[0], *tile.own, depth, dtype, layouts[1]))
    for tensor, load, is_packed in zip((a, b), (found.a, found.b), tile.packed, strict=True):
        stage = s[tensor]
        if is_packed:
            stage = pack_matrix(stage, sums, "swizzled")
        stage.set_scope("swizzled")
        stage.compute_at(sums, outer)
        if tile.boxes:
            stage.pipeline(tile.stages, by="tma", warp_specialize=tile.roles, cluster=tile.cluster)
            continue
        axes = fuse_axes(stage, stage.op.axis[:-1]), stage.op.axis[-1]
        shared_by_all(stage, axes, tile, elements_at_once(found, load), (1, 1))
        stage.pipeline(tile.stages)


def _stage_result(stage: Stage, at: tuple[Stage, IterVar], tile: Tile, dtype: str) -> IterVar:
    """The result of a block in shared memory, of which four warps store their part; returns their loop."""
    stage.set_scope("shared")
    stage.compute_at(*at)
    stage.storage_align(stage.op.axis[-2], 32, 8)  # neighbouring rows are 8 banks apart
    return _store_sums(stage, tile, tile.columns, dtype, "shared")


def _store_boxes(group: Group, found: Contraction, stage: Stage, tile: Tile, dtype: str) -> tuple[Stage, IterVar]:
    """Columns of the result of a block in shared memory, which the copy engine stores; returns the loop of a block. stage: the sums on
    their way out, or, where the result is computed from these, those in registers."""
    output = group.s[group.output]
    filled = group.s[group.s.cache_write(output.op.output(0), "swizzled")] if tile.computed else stage
    at, (rows, columns) = bind_tiles(output, *matrix_axes(output, found, group.anchor), tile, tile.band, tile.resident)
    part, column = output.split(columns, factor=tile.stored)
    output.reorder(part, rows, column)
    output.unroll(part)  # registers have no index
    output.pragma(rows, BULK_STORE)
    filled.set_scope("swizzled")
    filled.compute_at(output, part)
    if tile.computed:
        _compute_elements(filled, tile)
    else:
        _store_sums(stage, tile, tile.stored, dtype, "swizzled")
    return output, at


def _store_sums(stage: Stage, tile: Tile, columns: int, dtype: str, scope: str) -> IterVar:
    """The sums of four warps to shared memory; returns their loop."""
    group, rows = _bind_groups(stage, stage.op.axis[-2], tile)
    stage.reorder(*stage.op.axis[:-2], group, rows)
    stage.tensorize(rows, te.intrinsics.get("cuda.wgmma_store", tile.own[0], columns, dtype, scope))
    return group


def _compute_elements(stage: Stage, tile: Tile) -> None:
    """The result of four warps in shared memory, of sums in the registers of the threads that compute it."""
    row, column = stage.op.axis[-2:]
    rest, own = stage.split(row, factor=tile.own[0])
    some, own = stage.split(own, factor=WGMMA_ROWS)
    stage.reorder(*stage.op.axis[:-2], rest, some, own, column)
    stage.bind(rest, thread_axis((0, tile.groups), "threadIdx.y"))
    stage.unroll(some)
    bind_lanes(stage, own, column, tile, together=True)


def _bind_groups(stage: Stage, rows: IterVar, tile: Tile) -> tuple[IterVar, IterVar]:
    """Four warps for each part of the rows; returns their loop, and that over the rows of a part."""
    group, inner = stage.split(rows, factor=tile.own[0])
    stage.bind(group, thread_axis((0, tile.groups), "threadIdx.y"))
    return group, inner
