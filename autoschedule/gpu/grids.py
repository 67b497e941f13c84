"""The order of a product's blocks, so that those that run at once read the same panels while the L2 cache has them.

blocks that run at once, of 128 x 128 of them on 108 multiprocessors:
  row by row             1 row and 108 columns of blocks: 109 panels
  in bands of 8 rows     8 rows and 14 columns: 22 panels              blockIdx.x = (band, column, row of the band)
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from ...codegen.gpus import Gpu
from ...ir.expr import IterVar
from ...ir.passes.gpu.hardware import RESIDENT
from ...te.axis import thread_axis

if TYPE_CHECKING:
    from ...schedule import Stage

__all__ = ["Grid", "bind_blocks"]

BANDS = (4, 8, 16)
KEPT = 0.5
"""The part of the L2 cache that the panels of a product can have."""


class Grid:
    """down, across: how many blocks; panels: bytes of what a row of them reads, and of what a column does; batch: how often."""

    def __init__(self, gpu: Gpu, blocks: tuple[int, int], panels: tuple[float, float], batch: int = 1) -> None:
        self.gpu, (self.down, self.across), self.panels, self.batch = gpu, blocks, panels, batch

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

    def band(self, work: float) -> int:
        """The band that loads least, where memory would take longer than half the `work`, cycles of arithmetic; else 1."""
        if self.loaded(1) / self.gpu.memory_rate < work / 2:
            return 1
        return min((1, *(band for band in BANDS if self.down % band == 0)), key=self.loaded)


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
