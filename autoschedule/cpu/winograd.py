"""Winograd's convolution: the squares' products as matrix products in registers, the transforms around them in vectors.

for task (image, band of tile rows; in parallel):          # or (image, chunk of channels, band), squares at root
    for c:                                                 # lanes along the row
        squares[a, b, c, tiles] = B^T d B
    for chunk of output channels:                          # lanes along channels
        for a, b:  for tile of tiles:
            for c:  products += squares[a, b, c, tile] * weights[a, b, chunk, c]
        for vector of channels:  for tile row:
            results = A^T products A
            y[channel, row] = results ...                  # turned, with what follows element by element
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from ...ir.expr import IterVar
from ...schedule import Stage
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..accesses import ASSUMED
from ..loops import unroll_loops
from .conv_plan import Layer, Tile, channel_tile
from .gemm import gemm
from .injective import sweep
from .threads import worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["conv2d_winograd"]


def conv2d_winograd(group: Group) -> None:
    """The rule of conv2d_winograd."""
    parts = {op.algorithm.removeprefix("conv2d_winograd."): op for op in group.parts if op.values}
    products = parts["products"]
    if any(constant_extent(axis) == 0 for axis in (*group.anchor.axis, *products.axis, *products.reduce_axis)):
        for part in group.parts:
            (gemm if part is products else sweep_part)(replace(group, anchor=part, output=part, heads=(), parts=()))
        sweep(group, group.output)
        return
    group.choose("conv2d_winograd", group.draft_candidates([("its one way", partial(_schedule, parts=parts))]))


def _schedule(group: Group, parts: dict[str, Operation]) -> None:
    """All of its stages."""
    _Winograd(group, parts).run()


def sweep_part(group: Group) -> None:
    """A part by itself."""
    sweep(group, group.anchor)


class _Winograd:
    def __init__(self, group: Group, parts: dict[str, Operation]) -> None:
        self.group, self.s, self.parts = group, group.s, parts
        size, _, batch, blocks, down, across, lanes = (constant_extent(axis) or 0 for axis in parts["products"].axis)
        bits = max(group.anchor.output(0).dtype.bits, 8)
        (inputs,) = (constant_extent(axis) or 0 for axis in parts["products"].reduce_axis)
        self.size, self.m, self.block, self.blocks = size, size - 2, lanes, blocks
        self.layer = Layer(
            batch, 1, blocks * lanes, inputs, down, across, (1, 1), (1, 1), group.machine.lanes(bits), bits, block=lanes
        )
        self.tile = channel_tile(self.layer, group.machine)
        self.threads = worth_threads((*parts["products"].axis, *parts["products"].reduce_axis))
        self.lanes = group.machine.lanes(bits)

    def run(self) -> None:
        s, group = self.s, self.group
        group.inline_anchor()
        banded = self._prefers_bands()
        stage = s[group.output]
        task, chunk, row = self._store(stage, banded)
        self._results(stage, row)
        self._products(stage, chunk)
        squares = s[self.parts["squares"]]
        inner = self._squares(squares)
        if banded:
            squares.compute_at(stage, task)
        else:
            outer = squares.fuse(*inner)
            if self.threads:
                squares.parallel(outer)

    def _bytes(self, *extents: int) -> int:
        return prod(extents) * self.layer.bits // 8 * self.size**2

    def _prefers_bands(self) -> bool:
        """Return whether a band's squares stay in the cache while all channels pass by, or a chunk's weights while all bands do. Where
        there is one chunk, each band's squares are computed once in any case."""
        weights = self._bytes(self.layer.inputs, self.layer.outputs)
        bands = (self.layer.batch or 1) * -(-(self.layer.height or ASSUMED) // self.tile.rows)
        whole = self.layer.height % self.tile.rows == 0
        return whole and (
            self._vectors >= self.blocks or weights <= self.group.machine.l2 and bands >= 2 * self.group.machine.cores
        )

    @property
    def _vectors(self) -> int:
        """The blocks of output channels that are computed together."""
        return max(self.tile.vectors * self.lanes // self.block, 1)

    def _store(self, stage: Stage, banded: bool) -> tuple[IterVar, IterVar, IterVar]:
        """The loops of the result: of tasks, of chunks of channels, of rows of tiles."""
        batch, channels, rows, columns = stage.op.axis
        chunk, lane = stage.split(channels, factor=self.block)
        chunk, vector = stage.split(chunk, factor=self._vectors)
        whole = self.layer.height % self.tile.rows != 0
        band, rows = stage.split(
            rows, factor=self.m * (-(-self.layer.height // self.tile.rows) if whole else 1) * self.tile.rows
        )
        tile_row, rows = stage.split(rows, factor=self.m)
        piece, columns = stage.split(columns, factor=self.lanes)
        lane_outer, lane = stage.split(lane, factor=self.lanes)
        order = [vector, tile_row, rows, piece, lane_outer, lane, columns]
        if banded:
            stage.reorder(batch, band, chunk, *order)
            task = stage.fuse(batch, band)
        else:
            stage.reorder(batch, chunk, band, *order)
            task = chunk = stage.fuse(batch, chunk, band)
        if self.threads:
            stage.parallel(task)
        stage.unroll(lane)
        stage.vectorize(columns)
        return task, chunk, tile_row

    def _results(self, stage: Stage, at: IterVar) -> None:
        """Results of a row of tiles, for a vector of channels: each tile by itself."""
        results, columns = self.s[self.parts["results"]], self.s[self.parts["columns"]]
        results.compute_at(stage, at)
        batch, block, row, column, lane = results.op.axis
        tile, column = results.split(column, factor=self.m)
        results.reorder(batch, block, tile, row, column, lane)
        results.unroll(row)
        results.unroll(column)
        results.vectorize(lane)
        columns.compute_at(results, tile)
        columns.set_scope("local")
        batch, block, row, place, tile, lane = columns.op.axis
        columns.reorder(batch, block, tile, place, row, lane)
        columns.unroll(place)
        columns.unroll(row)
        columns.vectorize(lane)

    def _products(self, stage: Stage, at: IterVar) -> None:
        products = self.s[self.parts["products"]]
        products.compute_at(stage, at)
        a, b, batch, block, row, column, lane = products.op.axis
        op = products.op
        tile: Tile = self.tile
        rows, row = products.split(row, factor=tile.rows)
        columns, column = products.split(column, factor=tile.columns)
        blocks, block = products.split(block, factor=self._vectors)
        products.reorder(a, b, batch, blocks, rows, columns, *op.reduce_axis, row, column, block, lane)
        unroll_loops(products, (row, column, block))
        products.vectorize(lane)

    def _squares(self, squares: Stage) -> list[IterVar]:
        """The transform of the image, a channel at a time; returns its outer loops."""
        image, rows = self.s[self.parts["image"]], self.s[self.parts["rows"]]
        a, b, batch, c, y, x = squares.op.axis
        piece, x = squares.split(x, factor=self.lanes)
        squares.reorder(batch, c, y, piece, a, b, x)
        squares.unroll(b)
        squares.vectorize(x)
        rows.compute_at(squares, y)
        batch_, c_, y_, a, w = rows.op.axis
        piece, w = rows.split(w, factor=self.lanes)
        rows.reorder(batch_, c_, y_, piece, a, w)
        rows.unroll(a)
        rows.vectorize(w)
        image.compute_at(squares, c)
        image.vectorize(image.split(image.op.axis[3], factor=4 * self.lanes)[1])
        return [batch, c]
