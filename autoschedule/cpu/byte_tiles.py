"""Products of bytes by the best instruction that the target has for them, a row of te/intrinsics/byte_units.py (tile registers, rows by
columns, dot products of four bytes), or by pairs of 16 bits: a tile of sums at once.

    A.matrix = A, padded: rows to 32, terms to 64                        # once
    for task (outer axes, as many columns as L2 holds; in parallel):
        B.matrix[j // 16, k // 4, j % 16 * 4 + k % 4] = B[j, k]          # of these columns, padded as well
        for rows, columns:
            C.tile = A.matrix[32 rows] * B.matrix[32 columns]            # in registers, all terms
            C[rows, columns] = C.tile ...                                # with what follows element by element

Where L2 holds all columns, B.matrix is made once, and rows are tasks. Sums of int32 are exact in any order. Where columns of B lie
side by side, 16 of four terms are loaded at once and take turns. For pairs both matrices are widened to 16 bits, terms come by two,
and a tile is what registers hold. Instructions on two rows have A.matrix[i // 2, k // 8, i % 2 * 8 + k % 8], eight terms of each in turn.
"""

from __future__ import annotations

from functools import partial
from math import ceil, gcd
from typing import TYPE_CHECKING

from ... import te
from ...base import dataclass, replace
from ...codegen.machine import Machine
from ...ir.expr import Cast, Expr
from ...te.factors import factors
from ...te.intrinsics.byte_units import PAIRS, UNITS, ByteUnit
from ...te.intrinsics.tile_dots import LANES, PANELS, ROWS, STEP
from ..cost.byte_tiles import BEGUN_PAIRS, is_worth_tiles, time_of_tiles
from ..cost.estimate import Estimate
from ..forms.contraction import Contraction, match_contraction, strip_conversion
from ..loops import fuse_axes
from ..matrices import declare_matrices, matrix_axes
from ..operations import iteration_count
from ..plan import Candidate
from .injective import sweep
from .integer_dots import PAIR, dots_in_registers, register_tile
from .quotient_axes import find_digits, split_digits
from .threads import TASKS, worth_threads

if TYPE_CHECKING:
    from ...ir.expr import IterVar
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["byte_tiles"]

BYTES = ("int8", "uint8")
AT_ONCE = 16
"""Panels that are packed beside each other, so that few pages are read and written at a time."""


@dataclass(frozen=True)
class _Tile:
    """Tile of a product of bytes.

    unit: the instruction that a tile is made by; None for pairs of 16 bits. rows, columns: of a tile; step: of which terms are a
    multiple; group: terms that lie side by side for a lane. bytes: of an element of a matrix. products: a cycle. begun: cycles that
    a tile takes beside.
    """

    unit: ByteUnit | None
    rows: int
    columns: int
    step: int
    group: int
    bytes: int
    products: float
    begun: float

    def __str__(self) -> str:
        return f"{self.unit.name if self.unit else 'pairs of 16 bits'}, {self.rows} x {self.columns}"


def byte_tiles(group: Group) -> list[Candidate]:
    """The one way to compute a group's sums of products of bytes by tiles; none where the target has no instructions for them, the
    sum is another one, or so small that other ways are quicker."""

    def has(feature: str) -> bool:
        return group.target.backend.has(group.target, feature)

    unit = next((unit for unit in UNITS if has(unit.feature)), None)
    if group.parts or not (unit or has(PAIRS)) or not _is_of_integers(group):
        return []
    found = match_contraction(group.anchor, strip_conversion)
    if found is None:
        return _tiles_in_digits(group)
    kinds = BYTES if unit else (*BYTES, "int16")
    if not {str(found.a.dtype), str(found.b.dtype)} <= set(kinds):
        return []
    tile = _tile(group.machine, found, unit)
    time, others = _time(group, found, tile), iteration_count((*found.outer, *found.rows, *found.summed))
    if not is_worth_tiles(time, others, iteration_count(found.columns), _threads(group), group.machine):
        return []
    return [Candidate(str(tile), partial(_apply, group, found, tile), time)]


def _tiles_in_digits(group: Group) -> list[Candidate]:
    """The way of a group whose axes are read as digits, if there are any: the groups of a convolution are outer axes of its product."""
    digits = find_digits(group.anchor)
    if not digits:
        return []

    def apply() -> None:
        split = split_digits(group, digits)
        for candidate in byte_tiles(split):
            candidate.apply()
        if split.output is not group.output:
            sweep(group, group.output)

    with group.s.attempt() as attempt:
        found = byte_tiles(split_digits(group, digits))
        group.s.undo(attempt)
    return [replace(each, apply=apply) for each in found]


def _is_of_integers(group: Group) -> bool:
    """Return whether an anchor adds up products of two factors that are converted to int32."""

    def is_wide(factor: Expr) -> bool:
        return isinstance(factor, Cast) and str(factor.dtype) == "int32"

    return str(group.anchor.output(0).dtype) == "int32" and all(
        map(is_wide, factors(group.anchor) or (group.anchor.values[0],))
    )


def _tile(machine: Machine, found: Contraction, unit: ByteUnit | None) -> _Tile:
    if unit is not None:
        is_turned = (found.a.dtype == found.b.dtype) == unit.turns
        rate = getattr(machine, unit.rate) if unit.rate else 1
        products = (unit.turned_products if is_turned else unit.products) * rate
        return _Tile(unit, ROWS, PANELS * LANES, STEP, unit.group, 1, products, unit.begun)
    best = register_tile(machine, iteration_count(found.rows), iteration_count(found.columns))
    pairs = (
        machine.instructions.mul.rate / 2
    )  # some processors have one multiplier of integers where they have two of floats
    return _Tile(None, best.rows, best.columns, machine.lanes(32), PAIR, 2, machine.lanes(16) * pairs, BEGUN_PAIRS)


def _time(group: Group, found: Contraction, tile: _Tile) -> Estimate:
    rows, columns, terms, outer = (
        iteration_count(axes) for axes in (found.rows, found.columns, found.summed, found.outer)
    )
    tiles, steps = outer * ceil(rows / tile.rows) * ceil(columns / tile.columns), ceil(terms / tile.step)
    cycles = steps * tile.rows * tile.columns * tile.step / tile.products + tile.begun
    beside, is_turned = gcd(_piece(found, tile), found.neighbours(found.a)), not found.is_read_along_sum(found.b)
    sizes = outer * terms * rows, beside, outer * terms * columns
    return time_of_tiles(tiles, cycles, *sizes, is_turned, _threads(group), group.machine)


def _piece(found: Contraction, tile: _Tile) -> int:
    """Terms of a row that are copied at once: those that lie side by side before, where a lane has more than one of these."""
    beside = gcd(found.neighbours(found.a), tile.step) if found.is_read_along_sum(found.a) else 1
    return beside if beside >= tile.group else tile.step


def _threads(group: Group) -> int:
    return group.machine.cores if worth_threads((*group.anchor.axis, *group.anchor.reduce_axis)) else 1


def _apply(group: Group, found: Contraction, tile: _Tile) -> None:
    s, anchor = group.s, group.anchor
    threads = worth_threads((*anchor.axis, *anchor.reduce_axis))
    widened = False if tile.unit else "int16"
    a, b, whole = declare_matrices(group, found, (tile.rows, tile.columns, tile.step), (False, True), widened)
    _copy_rows(s[a], tile, _piece(found, tile), threads)
    sums = s[s.cache_write(whole, "local")]
    sums.transform_layout(lambda *at: [*at[:-1], at[-1] // LANES, at[-1] % LANES])
    stage = s[group.output]
    if len(found.rows) == len(found.columns) == 1 and len(stage.op.axis) == len(anchor.axis):
        s[whole].compute_inline()
        outer, i, j = matrix_axes(stage, found, anchor)
    else:  # several axes are one for the tiles: places of a tile are no box of the result
        *some, last = stage.op.axis
        stage.vectorize(last)
        if threads and some:
            stage.parallel(fuse_axes(stage, some))
        stage = s[whole]
        *outer, i, j = stage.op.axis
    rows, i = stage.split(i, factor=tile.rows)
    columns, j = stage.split(j, factor=tile.columns)
    stage.vectorize(j)
    width = _width(group, found, tile, threads)
    if width is not None:
        wide, columns = stage.split(columns, factor=width)
        stage.reorder(*outer, wide, rows, columns, i, j)
        task = fuse_axes(stage, [*outer, wide])
        s[b].compute_at(stage, task)
    else:
        stage.reorder(*outer, rows, columns, i, j)
        task = columns = fuse_axes(stage, [*outer, rows, columns])
    if threads:
        stage.parallel(task)
    _pack_columns(s[b], tile, found.is_read_along_sum(found.b), threads and width is None)
    _sum_up(sums, stage, columns, found, tile)


def _sum_up(sums: Stage, stage: Stage, at: IterVar, found: Contraction, tile: _Tile) -> None:
    """The sums of a tile, within the loop `at`."""
    if tile.unit is None:
        dots_in_registers(sums, stage, at)
        return
    sums.compute_at(stage, at)
    terms = ceil(iteration_count(found.summed) / STEP) * STEP
    row = sums.op.axis[-3]
    sums.tensorize(row, te.intrinsics.get(tile.unit.intrinsic, terms, str(found.a.dtype), str(found.b.dtype)))


def _width(group: Group, found: Contraction, tile: _Tile, threads: bool) -> int | None:
    """Tiles of columns that a task has: as many as half of L2 holds, if all threads have their tasks; None where it holds all."""
    tiles = ceil(iteration_count(found.columns) / tile.columns)
    held = max(
        group.machine.l2
        // 2
        // (tile.columns * ceil(iteration_count(found.summed) / tile.step) * tile.step * tile.bytes),
        1,
    )
    if held >= tiles:
        return None
    tasks = TASKS * group.machine.cores if threads else 1
    return max(min(held, tiles * iteration_count(found.outer) // tasks), 1)


def _copy_rows(stage: Stage, tile: _Tile, piece: int, threads: bool) -> None:
    """The rows, which lie along the sum, or some of which take turns."""
    if tile.unit and tile.unit.together > 1:
        rows, group = tile.unit.together, tile.group
        stage.transform_layout(
            lambda *at: [*at[:-2], at[-2] // rows, at[-1] // group, at[-2] % rows * group + at[-1] % group]
        )
        *outer, k = stage.op.axis
        row, k = stage.split(k, factor=group)
        stage.unroll(row)
    else:
        *outer, k = stage.op.axis
        _, k = stage.split(k, factor=piece)
    stage.vectorize(k)
    if threads:
        stage.parallel(fuse_axes(stage, outer))


def _pack_columns(stage: Stage, tile: _Tile, along: bool, threads: bool) -> None:
    """The columns, the terms of a group side by side, those of 16 behind each other. along: whether terms lie side by side
    before."""
    group = tile.group
    if tile.unit is None:
        stage.transform_layout(lambda *at: [*at[:-2], at[-2] // LANES, at[-1] // group, at[-2] % LANES, at[-1] % group])
        *outer, panel, some, lane, term = stage.op.axis
        lanes = stage.fuse(lane, term)
    else:
        stage.transform_layout(
            lambda *at: [*at[:-2], at[-2] // LANES, at[-1] // group, at[-2] % LANES * group + at[-1] % group]
        )
        *outer, panel, some, lanes = stage.op.axis
    if along:
        _, lanes = stage.split(lanes, factor=group)
    else:
        panel, inner = stage.split(panel, factor=AT_ONCE)
        stage.reorder(*outer, panel, some, inner, lanes)
    stage.vectorize(lanes)
    if threads:
        stage.parallel(fuse_axes(stage, [*outer, panel]))
