"""Winograd's convolution of channels in blocks: transforms in vectors of channels, products as tiles in registers.

    for task (image, band of rows of tiles; in parallel):      # or (image, chunk of channels), squares at root, bands inside
        for block of channels, tile:
            squares[a, b, tile] = B^T d B                       # from registers
        for chunk of output channels:
            for a, b:  for some tiles:                          # of the band, one after another
                for c:  products += squares[a, b, c, tile] * weights[a, b, chunk, c]
            for tile:
                y[tile] = A^T products A ...                    # with what follows element by element

The fewer bands, the less often weights come from beyond the second cache; the lower they are, the more of one stays there.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

from ...base import dataclass, replace
from ...codegen.machine import Machine
from ...ir.expr import IterVar
from ...schedule import Stage
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..loops import unroll_loops
from .conv_plan import Layer, Tile, channel_tile
from .gemm import gemm
from .injective import sweep
from .threads import worth_threads
from .winograd import sweep_part

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["conv2d_winograd_NCHWc"]


@dataclass(frozen=True)
class _Plan:
    """Plan of a Winograd convolution in blocks of channels.

    rows: of tiles in a band. tile: of products, its columns tiles of the image. banded: whether bands are tasks, with their
    squares in the cache, or chunks of channels are, with the squares of all.
    """

    rows: int
    tile: Tile
    banded: bool


def conv2d_winograd_NCHWc(group: Group) -> None:
    """The rule of conv2d_winograd_NCHWc."""
    parts = {op.algorithm.rpartition(".")[2]: op for op in group.parts if op.values}
    axes = (*group.output.axis, *parts["products"].axis, *parts["products"].reduce_axis)
    if not all(map(constant_extent, axes)):
        for part in group.parts:
            (gemm if part is parts["products"] else sweep_part)(
                replace(group, anchor=part, output=part, heads=(), parts=())
            )
        sweep(group, group.output)
        return
    layer = _layer(group, parts["products"])
    ways = [
        (
            f"{plan.rows} rows of tiles at once, {'tasks' if plan.banded else 'chunks'} outside",
            partial(_schedule, parts=parts, layer=layer, plan=plan),
        )
        for plan in _plans(layer, group.machine)
    ]
    group.choose("conv2d_winograd_NCHWc", group.draft_candidates(ways))


def _layer(group: Group, products: Operation) -> Layer:
    """The products as a convolution of one tap, whose places are tiles."""
    size, _, batch, blocks, down, across, block = (constant_extent(axis) or 0 for axis in products.axis)
    inputs = prod(constant_extent(axis) or 0 for axis in products.reduce_axis)
    bits = max(products.output(0).dtype.bits, 8)
    return Layer(
        batch,
        1,
        blocks * block,
        inputs,
        down,
        across,
        (size, size),
        (1, 1),
        group.machine.lanes(bits),
        bits,
        block=block,
    )


def _plans(layer: Layer, machine: Machine) -> list[_Plan]:
    """The two highest bands that the second cache may hold, and the highest of which each core has one."""
    heights = [rows for rows in range(layer.height, 0, -1) if layer.height % rows == 0]
    held = [rows for rows in heights if _held_bytes(layer, rows) <= machine.l2] or [1]
    shared = [rows for rows in held if layer.batch * layer.height // rows >= machine.cores]
    tiles = {
        rows: channel_tile(replace(layer, height=1, width=rows * layer.width), machine)
        for rows in (*held[:2], *shared[:1])
    }
    plans = [_Plan(rows, tile, True) for rows, tile in tiles.items()]
    if shared and layer.weights <= machine.l2 // 2:
        return plans
    # chunks of channels are more tasks than bands, and read the weights once
    return [*plans, replace(plans[0], banded=False)]


def _held_bytes(layer: Layer, rows: int) -> int:
    """Bytes that so many rows of tiles need: squares, as many products at least, the image and the results."""
    numbers = 2 * prod(layer.taps) * layer.inputs + 4 * (layer.inputs + layer.outputs)
    return numbers * rows * layer.width * layer.bits // 8


def _schedule(group: Group, parts: dict[str, Operation], layer: Layer, plan: _Plan) -> None:
    s, stage = group.s, group.s[group.output]
    group.inline_anchor()
    products = s[parts["products"]]
    threads = worth_threads((*products.op.axis, *products.op.reduce_axis))
    task, inner, tile = _store(stage, layer, plan)
    columns = s[parts["columns"]]
    columns.compute_at(stage, tile)
    columns.set_scope("local")
    _unroll_block(columns, columns.op.axis[:-1])
    products.compute_at(stage, inner)
    _products(products, plan)
    squares = s[parts["squares"]]
    outer = _schedule_squares(group, squares, parts)
    if plan.banded:
        squares.compute_at(stage, task)
    elif threads:
        squares.parallel(squares.fuse(*outer))
    if threads:
        stage.parallel(task)


def _store(stage: Stage, layer: Layer, plan: _Plan) -> tuple[IterVar, IterVar, IterVar]:
    """The loops of the result; returns those of tasks, of a band's chunk of channels, and of tiles."""
    m = layer.taps[0] - 2
    batch, blocks, rows, columns, lane = stage.op.axis
    chunk, block = stage.split(blocks, factor=max(plan.tile.vectors * layer.lanes // layer.block, 1))
    band, rows = stage.split(rows, factor=plan.rows * m)
    down, row = stage.split(rows, factor=m)
    across, column = stage.split(columns, factor=m)
    outer = [band, chunk] if plan.banded else [chunk, band]
    stage.reorder(batch, *outer, block, down, across, row, column, lane)
    task = stage.fuse(batch, outer[0])
    stage.unroll(row)
    stage.unroll(column)
    stage.vectorize(lane)
    return task, outer[1], across


def _unroll_block(stage: Stage, axes: list[IterVar] | tuple[IterVar, ...]) -> None:
    """A small stage written out, in vectors of channels."""
    unroll_loops(stage, axes)
    stage.vectorize(stage.op.axis[-1])


def _products(stage: Stage, plan: _Plan) -> None:
    a, b, batch, blocks, down, across, lane = stage.op.axis
    places = stage.fuse(down, across)
    tiles, place = stage.split(places, factor=plan.tile.columns)
    stage.reorder(a, b, batch, tiles, *stage.op.reduce_axis, place, blocks, lane)
    stage.unroll(place)
    stage.unroll(blocks)
    stage.vectorize(lane)


def _schedule_squares(group: Group, squares: Stage, parts: dict[str, Operation]) -> list[IterVar]:
    """The transform of the image, a tile of a block of channels at a time; returns its outer loops."""
    rows, image = group.s[parts["rows"]], group.s[parts["image"]]
    a, b, batch, chunk, down, across, lane = squares.op.axis
    squares.reorder(batch, chunk, down, across, a, b, lane)
    squares.unroll(a)
    squares.unroll(b)
    squares.vectorize(lane)
    rows.compute_at(squares, across)
    rows.set_scope("local")
    _unroll_block(rows, rows.op.axis[2:-1])
    image.compute_at(squares, chunk)
    image.vectorize(image.op.axis[-1])
    return [batch, chunk]
