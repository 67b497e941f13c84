"""The order of a product's blocks, so that those that run at once read the same panels while the L2 cache has them.

blocks that run at once, of 128 x 128 of them on 108 multiprocessors:
  row by row             1 row and 108 columns of blocks: 109 panels
  in bands of 8 rows     8 rows and 14 columns: 22 panels              blockIdx.x = (band, column, row of the band)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Protocol

from ...base.dataclass import dataclass
from ...codegen.gpus import Gpu
from ...ir.analysis.warps import LINE
from ...ir.expr import IterVar
from ...ir.passes.gpu.hardware import RESIDENT
from ...te.axis import thread_axis
from ..cost.gpu import ENGINE_LATENCY, KEPT
from ..cost.kernels import PARTS, RESULT, KernelWork, Phase, Unique
from ..forms.contraction import Contraction
from .threads import THREADS, VECTOR, WARP

if TYPE_CHECKING:
    from ...schedule import Stage

__all__ = [
    "BANDS",
    "BlockTile",
    "Grid",
    "bind_blocks",
    "count_merge",
    "count_product",
    "loaded_sides",
]

BANDS = (4, 8, 16)


class BlockTile(Protocol):
    """The part of a result, or of an online sum rows and terms, that a block computes at once; its threads along x, y and z; the
    stages of the pipelines that fill what it reads."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def threads(self) -> tuple[int, ...]: ...
    @property
    def stages(self) -> int: ...


@dataclass(frozen=True)
class Grid:
    """Grid of blocks.

    down, across: how many blocks; panels: bytes of what a row of them reads, and of what a column does; batch: how often.
    """

    gpu: Gpu
    down: int
    across: int
    panels: tuple[float, float]
    batch: int = 1

    @staticmethod
    def of(found: Contraction, tile: BlockTile, gpu: Gpu) -> Grid:
        """The blocks of a product."""
        rows, columns, terms, batch = found.sizes
        panels = tile.rows * terms * found.a.dtype.bytes, tile.columns * terms * found.b.dtype.bytes
        return Grid(gpu, ceil(rows / tile.rows), ceil(columns / tile.columns), panels, batch)

    def loaded(self, band: int) -> float:
        """Bytes from memory where the blocks are in bands of so many rows; 1: row by row."""
        whole = self.down * self.panels[0] + self.across * self.panels[1]
        if whole <= KEPT * self.gpu.l2:
            return self.batch * whole
        at_once = min(self.gpu.processors, self.down * self.across)
        rows = min(band, self.down) if band > 1 else ceil(at_once / self.across)
        columns = min(ceil(at_once / rows), self.across)
        return self.batch * max(
            self.down * self.across / at_once * (rows * self.panels[0] + columns * self.panels[1]), whole
        )

    def band(self) -> int:
        """The band that loads least."""
        return min((1, *(band for band in BANDS if self.down % band == 0)), key=self.loaded)


def loaded_sides(found: Contraction, tile: BlockTile) -> int:
    """Rows and columns that a block loads: beyond the result there is nothing."""
    rows, columns, _, _ = found.sizes
    return min(tile.rows, rows) + min(tile.columns, columns)


def count_product(
    found: Contraction,
    tile: BlockTile,
    gpu: Gpu,
    phases: Sequence[Phase],
    *,
    threads: int,
    registers: float,
    shared: int,
    read: float,
    item: int,
    band: int,
    splits: int = 1,
    boxes: int = 0,
) -> list[KernelWork]:
    """Count the work of a product's kernel, and of the one that adds up parts of its sums. phases, threads: of a block; registers: of a
    thread's arrays; shared: bytes of a block; read: those that it loads; item: bytes of a sum; band: rows of blocks that run at
    once. boxes: parts of the result that the copy engine stores one after the other."""
    rows, columns, _, batch = found.sizes
    grid, results = Grid.of(found, tile, gpu), batch * rows * columns * item
    stored = tile.rows * tile.columns * item
    end = (
        Phase(boxes, is_synchronized=True, accessed=stored / LINE, alone=(boxes - 1) * ENGINE_LATENCY)
        if boxes
        else Phase(1.0, accessed=stored / LINE, issued=2 * stored / VECTOR / WARP)
    )
    blocks = batch * grid.down * grid.across * splits
    unique: Unique = {
        (found.a.producer, False): grid.loaded(band),
        (PARTS if splits > 1 else RESULT, True): float(results * splits),
    }
    work = KernelWork(blocks, threads, registers, shared, read + stored, read + stored, unique, 0.0, [*phases, end])
    return [work] if splits == 1 else [work, count_merge(results, splits)]


def count_merge(results: float, splits: int, values: int = 1, width: int = VECTOR) -> KernelWork:
    """Count the work of the kernel that adds up parts. results: bytes of the sums; values: that each part has for one of them; width:
    bytes of the sums of a thread."""
    moved, loads = THREADS * width * (values * splits + 1), values * splits * width / VECTOR
    adds = Phase(1.0, issued=THREADS / WARP * 3 * loads, of_thread=3 * loads, accessed=moved / LINE, loads=loads)
    added: Unique = {(PARTS, False): float(values * results * splits), (RESULT, True): float(results)}
    return KernelWork(ceil(results / THREADS / width), THREADS, 4, 0, moved, moved, added, 0.0, [adds])


def bind_blocks(stage: Stage, down: IterVar, across: IterVar, band: int, resident: int = 0) -> IterVar:
    """Blocks for the two loops, which stand side by side; returns the inner one, or that over both. resident: so many blocks, or
    as many as the GPU at hand holds, which take one part after the other, where it is not 0."""
    if band == 1 and not resident:
        stage.bind(down, thread_axis("blockIdx.y"))
        stage.bind(across, thread_axis("blockIdx.x"))
        return across
    bands, row = stage.split(down, factor=band)
    stage.reorder(bands, across, row)
    block = stage.fuse(bands, across, row)
    if resident:
        parts, block = stage.split(block, factor=resident)
        stage.pragma(parts, RESIDENT)
    stage.bind(block, thread_axis("blockIdx.x"))
    return block
