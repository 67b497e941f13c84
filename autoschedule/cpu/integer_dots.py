"""Products and convolutions of bytes, by an instruction that multiplies pairs of 16 bits and adds them up.

    x.taken = x less its zero, in 16 bits                            # once, and padded
    for task (images, blocks of rows; in parallel):
        for columns (a few panels of weights):
            for row of the block:
                for places (a few of a row):
                    sums = 0                                         # in registers
                    for tap:  for pair of channels:
                        for place:  for panel:  sums += dot2(x.taken[place + tap, pair], packed[panel, tap, pair])
                    y[row, places, columns] = sums ...               # with what follows element by element: bias, scales, bytes

A product of matrices has rows only, which tasks share; where they are few, tasks share the panels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, prod
from typing import TYPE_CHECKING

from ... import te
from ...codegen.machine import Machine, RegisterTile, register_tiles
from ...ir.expr import IterVar
from ...schedule import Stage
from ...te.intrinsics.byte_units import DENSE_DOTS, PAIR_DOTS
from ...te.intrinsics.dot_i16 import GROUP as PAIR
from ...te.intrinsics.dots import LANES as PANEL
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..accesses import ASSUMED, op_loads, source
from ..loops import fuse_axes, share_loops, unroll_loops
from .depthwise import windows
from .threads import TASKS, worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["PAIR", "dots_in_registers", "integer_depthwise", "integer_dots", "prepare_dots", "register_tile"]

BESIDE = 3
"""Registers beside sums and columns: a pair of a row, what is multiplied, and one without which LLVM now and then stores a sum."""
FEW = 4
"""Pairs of channels up to which their loop is written out."""


def integer_dots(group: Group) -> None:
    """The rule."""
    s, anchor, summed = group.s, group.anchor, prepare_dots(group, _take)
    if summed is None:
        return
    *_, m, n = (constant_extent(axis) or ASSUMED for axis in anchor.axis)
    tile = register_tile(group.machine, m, n)
    stage = s[group.output]
    *outer, i, j = stage.op.axis
    places, i = stage.split(i, factor=tile.rows)
    columns, j = stage.split(j, factor=tile.columns)
    if outer:
        *outer, row = outer
        rows, row = stage.split(row, factor=_block(group, summed))
        some, inner = (*outer, rows), (row, places)
    else:
        rows, places = stage.split(places, factor=_row_tiles(group, tile))
        some, inner = (rows,), (places,)
    stage.reorder(*some, columns, *inner, i, j)
    share_loops(stage, [*some, columns], worth_threads((*anchor.axis, *summed.reduce_axis)))
    stage.vectorize(j)
    x, packed = op_loads(summed)
    unit = DENSE_DOTS["uint8"] if x.dtype == "uint8" else (PAIR_DOTS[str(packed.dtype)], PAIR)
    dots_in_registers(s[summed], stage, places, unit)


def prepare_dots(group: Group, take: Callable[[Group, Operation], None]) -> Operation | None:
    """Have what is multiplied taken once, and what follows inlined; return the sums, or None where there is nothing to sum up."""
    parts = {part.algorithm.rpartition(".")[2]: part for part in group.parts}
    summed, anchor = parts["sums"], group.anchor
    group.inline_cheap_heads()
    take(group, parts["x"])
    if any(constant_extent(axis) == 0 for axis in (*anchor.axis, *summed.reduce_axis)):
        return None
    group.inline_anchor()
    return summed


def integer_depthwise(group: Group) -> None:
    """The rule of a channel for itself: x in 16 bits is made once, since every tap of a window reads it."""
    windows(replace(group, heads=()))


def dots_in_registers(
    sums: Stage, stage: Stage, at: IterVar, unit: tuple[str, int] = (PAIR_DOTS["int16"], PAIR)
) -> None:
    """A tile of sums, rows by panels by lanes, within the loop `at` of the output. unit: the intrinsic, and how many terms it takes."""
    intrinsic, step = unit
    sums.set_scope("local")
    sums.compute_at(stage, at)
    *outer, i, panel, lane = sums.op.axis
    *taps, c = sums.op.reduce_axis
    few = (constant_extent(c) or ASSUMED) <= FEW * step
    c, inner = sums.split(c, factor=step)
    sums.reorder(*outer, *taps, c, i, panel, lane, inner)
    unroll_loops(sums, (*([c] if few else []), i, panel))
    sums.tensorize(lane, te.intrinsics.get(intrinsic))


def register_tile(machine: Machine, m: int, n: int, beside: int = BESIDE) -> RegisterTile:
    """Return the tile for m rows and n columns: the one with most products for each load, its rows so that all tiles of a row of places
    have about as many. beside: registers beside sums and columns."""
    vectors = max(PANEL // machine.lanes(32), 1)
    best = next((tile for tile in register_tiles(machine, 32) if tile.vectors % vectors == 0), None)
    best = best or RegisterTile(max(machine.registers // vectors - 2, 1), vectors, PANEL)
    panels = min(best.vectors // vectors, ceil(n / PANEL))
    most = max((machine.registers - panels * vectors - beside) // (panels * vectors), 1)
    rows = ceil(m / ceil(m / most))
    return RegisterTile(rows, panels * vectors, panels * PANEL)


def _block(group: Group, summed: Operation) -> int:
    """Return the number of rows of an image of a task: what they read stays in the second cache, and all threads have some."""
    *outer, row, _, _ = group.anchor.axis
    extent = constant_extent(row) or ASSUMED
    *_, places, channels = (constant_extent(axis) or ASSUMED for axis in source(op_loads(summed)[0]).op.axis)
    fits = max(group.machine.l2 // 2 // (places * channels * PAIR), 1)
    images = prod(constant_extent(axis) or 1 for axis in outer)
    return max(min(fits, extent, ceil(extent * images / group.machine.cores)), 1)


def _row_tiles(group: Group, tile: RegisterTile) -> int:
    """Return the number of tiles of rows of a task of a product of matrices."""
    m, n = (constant_extent(axis) or ASSUMED for axis in group.anchor.axis)
    tiles, columns = ceil(m / tile.rows), ceil(n / tile.columns)
    return max(ceil(tiles / max(ceil(group.machine.cores * TASKS / columns), 1)), 1)


def _take(group: Group, op: Operation) -> None:
    """x once for all tasks."""
    stage = group.s[op]
    *outer, k = stage.op.axis
    if worth_threads(stage.op.axis, 1) and outer:
        stage.parallel(fuse_axes(stage, outer[:-1] or outer))
    _, k = stage.split(k, factor=group.machine.vector_bytes * 8 // op.values[0].dtype.bits)
    stage.vectorize(k)
