"""Products by warpgroups (sm_90a): tiles on their way to swizzled shared memory, which four warps together multiply from there.

    C[i, j] = sum over k of A[i, k] * B[k, j]      float16 or bfloat16 added up in float32, int8 or uint8 in int32

    A.matrix, B.matrix: copies with zeros up to whole tiles; C.matrix: their product
    for blockIdx.z: batches   blockIdx.y, blockIdx.x: tiles of 128 x 128
      for k.outer:                                        # pipeline(4): three iterations ahead
        A.matrix[128, 64], B.matrix[64, 128]              # swizzled: no bank twice, by rows or by columns
        for threadIdx.y: four warps of 64 x 128
          sums[64 x 128] += A.matrix * B.matrix           # wgmma, of which no operand goes through registers
      C.matrix = sums                                     # in shared memory, of which whole rows are stored

Where both sides are matrices in memory, with rows at multiples of 16 bytes, the copy engine fetches the tiles by boxes: one thread
asks, or four more warps that do nothing else. A side that is no such matrix (odd rows, windows) may be copied to one first, by a
kernel of its own. These go on to the next tile while the others store theirs, where as many blocks as
the GPU holds take one tile after the other, in bands that the L2 cache holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from ... import te
from ...codegen.gpus import Gpu, target_gpu
from ...ir.expr import IntImm, IterVar, ProducerLoad
from ...ir.fragments import LATE_STAGES
from ...te.axis import thread_axis
from ..accesses import source
from ..cost.gpu import CLUSTER_LATENCY, DRAIN, ENGINE_LATENCY, FENCE, count_resident, estimate_works
from ..cost.kernels import KernelWork, Phase
from ..forms.contraction import Contraction, match_contraction, strip_conversion
from ..loops import fuse_axes
from ..matrices import declare_matrices
from ..operations import iteration_count
from ..plan import Candidate
from .grids import LINE, Grid, count_product, loaded_sides
from .tensor_cores import (
    OF_PACKED,
    SUMS,
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
from .threads import WARP

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["warpgroup_candidates"]

WIDE = {**SUMS, "uint8": "int32"}
"""By the dtype of both sides, that of the sums."""
GROUP = 4 * WARP
"""Threads that multiply together."""
ROWS, PANEL_BYTES, PANEL_ROWS = 64, 128, 8
"""Of one instruction's sums; of a row in shared memory, and of the terms that are there at once; after which the exchange of rows
repeats, so that a tile begins at multiples of as many."""
OWN = ((64, 256), (128, 128), (64, 192), (64, 128), (128, 64), (64, 64), (64, 32), (64, 16))
"""Results of four warps, rows and columns."""
GROUPS = (2, 1)
STAGES = (6, 4, 3, 2)
DESCRIPTORS = 24
"""Registers of a thread that say where tiles and parts of the result lie."""
CLUSTERS = {2: 1.0, 4: 32 / 33}
"""Blocks of one, and of the multiprocessors those that clusters of them can use: an H100's lie in parts of 16 or 18, of which each
cluster has one."""
BAND = 16
"""Rows of blocks in a band that is there for clusters alone."""
MOST_DIMENSIONS, ROW_BYTES = 5, 16
"""Of a box; what rows of a tensor begin at multiples of."""


@dataclass(frozen=True)
class Tile:
    """Tile of a product by warpgroups.

    own: rows and columns of four warps; groups: of four warps, one below the other; stages: of the pipeline. boxes: whether the
    copy engine fills it; roles: asked by warps of their own. band: rows of blocks that run at once. resident: blocks, which take
    one tile after the other; 0 for one each. cluster: of blocks that fetch together what both need. result: bytes of an element
    of the sums on their way out. packed: the sides that kernels of their own make matrices of first.
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
        return GROUP, self.groups

    @property
    def all_threads(self) -> int:
        """Return the number of threads of a block, with those that ask the copy engine alone."""
        return GROUP * (self.groups + self.roles)

    @property
    def registers(self) -> int:
        """Return the number of registers of a thread."""
        return self.own[0] * self.columns // GROUP + DESCRIPTORS

    def __str__(self) -> str:
        return (
            f"warpgroups, tiles of {self.rows} x {self.columns}, {self.groups} x 4 warps of {self.own[0]} x {self.own[1]}, "
            f"{self.stages} stages{' of boxes' if self.boxes else ''}{' by warps of their own' if self.roles else ''}"
            f"{f', bands of {self.band}' if self.band > 1 else ''}{f', {self.resident} blocks' if self.resident else ''}"
            f"{f', clusters of {self.cluster}' if self.cluster > 1 else ''}"
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
        or not is_theirs(group, found, WIDE)
        or found.a.dtype != found.b.dtype
    ):
        return []
    down = [
        load.dtype.bytes > 1 and not found.is_read_along_sum(load) for load in (found.a, found.b)
    ]  # columns of terms; bytes are turned
    packed = not _comes_in_boxes(group, found, found.a), not _comes_in_boxes(group, found, found.b)
    fetched = [(False, False, (False, False))]
    several = iteration_count(found.summed) > PANEL_BYTES // found.a.dtype.bytes
    if not any(packed) or several and is_packable(found, packed):
        fetched.append((True, True, packed))
        if not any(packed):  # behind copies one thread of many asks never sooner
            fetched.insert(1, (True, False, packed))
    tiles = [
        each
        for tile in _tiles(found, gpu, down[1], result_bytes(group))
        for boxes, roles, first in fetched
        if _shared_bytes(way := replace(tile, boxes=boxes, roles=roles, packed=first)) <= gpu.block_shared
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
                sides = (tile.rows, rows, ROWS), (tile.columns, columns, 16), (depth, terms, depth // 4)
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
        and extent.value * size % ROW_BYTES == 0
        and iteration_count(found.summed) > depth
    )


def _set_bands(found: Contraction, tile: Tile, gpu: Gpu) -> Tile:
    """Return the tile with the bands that memory needs; with roles, as many blocks as the GPU holds, where there are more tiles."""
    grid, held = Grid.of(found, tile, gpu), gpu.processors * _resident_blocks(tile, gpu)
    return replace(tile, band=grid.band(), resident=held if tile.roles and grid.down * grid.across > held else 0)


def _cluster_tiles(found: Contraction, tile: Tile, gpu: Gpu) -> list[Tile]:
    """A tile, and the same for blocks in clusters, where there are whole ones that share their rows, or in bands their columns, which
    are more to share where a tile is wide."""
    grid = Grid.of(found, tile, gpu)
    wide = tile.band == 1 and tile.columns > tile.rows and grid.down >= BAND
    clusters: list[Tile] = []
    for way in (tile, *([replace(tile, band=BAND)] if wide else [])):
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
    tiles, result = (
        tile.stages * (tile.rows + tile.columns) * PANEL_BYTES,
        tile.rows * (tile.columns + (8 - tile.columns) % 32) * tile.result,
    )
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
        accessed=parts * tile.rows // ROWS * (ROWS + tile.columns) * PANEL_BYTES / LINE,
        alone=parts * (DRAIN * (not tile.is_late) + FENCE * (not tile.boxes)),
    )
    copies = 0 if tile.boxes else parts * depth * count_copies(found, tile) / tile.all_threads
    fill = Phase(
        parts,
        tile.stages - tile.is_late,
        not tile.roles,
        copies * tile.all_threads / WARP * 4,
        copies * 4,
        accessed=filled / LINE,
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
    )
    return [*count_packs(found, tile, parts * depth), *product]


def _apply(group: Group, found: Contraction, tile: Tile, down: Sequence[bool]) -> None:
    s, dtype = group.s, str(found.a.dtype)
    depth, sums_dtype = PANEL_BYTES // found.a.dtype.bytes, WIDE[dtype]
    a, b, whole = declare_matrices(group, found, (tile.rows, tile.columns, depth), (down[0], not down[1]))
    sums = s[s.cache_write(whole, "wgmma_c")]
    rows = _stage_result(s[whole], stored_by_blocks(group, found, tile, tile.band, tile.resident), tile, sums_dtype)
    sums.compute_at(s[whole], rows)
    i, j = sums.op.axis[-2:]
    outer, inner = sums.split(sums.op.reduce_axis[0], factor=depth)
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
    i = stage.op.axis[-2]
    stage.storage_align(i, 32, 8)  # neighbouring rows are 8 banks apart
    group, rows = stage.split(i, factor=tile.own[0])
    stage.reorder(*stage.op.axis[:-2], group, rows)
    stage.bind(group, thread_axis((0, tile.groups), "threadIdx.y"))
    stage.tensorize(rows, te.intrinsics.get("cuda.wgmma_store", *tile.own, dtype, "shared"))
    return group
