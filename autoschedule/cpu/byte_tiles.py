"""Products of bytes by tile registers (AMX), or by dot products of four (AVX-512 VNNI): 32 rows by 32 columns of sums at once.

    A.matrix = A, padded: rows to 32, terms to 64                        # once
    for task (outer axes, as many columns as L2 holds; in parallel):
        B.matrix[j // 16, k // 4, j % 16 * 4 + k % 4] = B[j, k]          # of these columns, padded as well
        for rows, columns:
            C.tile = A.matrix[32 rows] * B.matrix[32 columns]            # in registers, all terms
            C[rows, columns] = C.tile ...                                # with what follows element by element

Where L2 holds all columns, B.matrix is made once, and rows are tasks. Sums of int32 are exact in any order. Where columns of B lie
side by side, 16 of four terms are loaded at once and take turns.
"""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from ... import te
from ...ir.expr import Cast, Expr
from ...te.factors import factors
from ...te.intrinsics.tile_dots import DOTS, GROUP, LANES, PANELS, ROWS, STEP, TILES
from ..contractions import Contraction, contraction_of, converted, in_matrices, matrix_axes
from ..estimate import Estimate
from ..loops import fused
from ..operations import size_of
from ..plan import Candidate
from .injective import worth_threads

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["byte_tiles"]

COLUMNS = PANELS * LANES
BYTES = ("int8", "uint8")
IN_TILES, BY_DOTS, TURNED_DOTS, BEGUN = 900, 110, 65, 300
"""Products of bytes a cycle in tile registers, of 1024 that there are units for; by dot products, of 128, and where both sides are
of one sign, one of which is turned round on the way. Cycles that a tile takes beside: its sums leave registers through memory."""
COPIED, TURNED, PACKED = 16, 4, 2
"""Bytes of A that are copied in a cycle; of B that are packed, 16 columns of four terms at once, or by the four of a lane."""
AT_ONCE = 16
"""Panels that are packed beside each other, so that few pages are read and written at a time."""
TASKS = 4
"""Of each thread, at least."""
OTHERWISE = 16
"""Products of bytes a cycle that other schedules come to at most."""


def byte_tiles(group: Group) -> list[Candidate]:
    """The one way to compute a group's sums of products of bytes by tiles; none where the target has no instructions for them, the
    sum is another one, or so small that other ways are quicker."""
    how = next((feature for feature in (TILES, DOTS) if group.target.backend.has(group.target, feature)), "")
    if group.parts or not how or not _is_of_bytes(group):
        return []
    found = contraction_of(group.anchor, converted)
    if found is None or not {str(found.a.dtype), str(found.b.dtype)} <= set(BYTES):
        return []
    time, machine = _time(group, found, how), group.machine
    products = size_of((*group.anchor.axis, *group.anchor.reduce_axis))
    if time.seconds > products / OTHERWISE / machine.clock / 1e9 / machine.cores:
        return []
    told = f"{'tile registers' if how == TILES else 'dot products'}, {ROWS} x {COLUMNS}"
    return [Candidate(told, partial(_apply, group, found), time)]


def _is_of_bytes(group: Group) -> bool:
    """Whether an anchor adds up products of two factors that are converted to int32."""
    def is_wide(factor: Expr) -> bool:
        return isinstance(factor, Cast) and str(factor.dtype) == "int32"

    return str(group.anchor.output(0).dtype) == "int32" and all(map(is_wide, factors(group.anchor) or (group.anchor.values[0],)))


def _time(group: Group, found: Contraction, how: str) -> Estimate:
    rows, columns, terms, outer = (size_of(axes) for axes in (found.rows, found.columns, found.summed, found.outer))
    tiles, steps = outer * ceil(rows / ROWS) * ceil(columns / COLUMNS), ceil(terms / STEP)
    machine = group.machine
    cycle = 1 / (machine.clock * 1e9)
    threads = machine.cores if worth_threads((*group.anchor.axis, *group.anchor.reduce_axis)) else 1
    at_once = IN_TILES if how == TILES else TURNED_DOTS if found.a.dtype == found.b.dtype else BY_DOTS
    sums = tiles * (steps * ROWS * COLUMNS * STEP / at_once + BEGUN) / threads
    turned = TURNED if not found.is_along(found.b) else PACKED
    copies = outer * terms * (rows / COPIED + columns / turned) / threads
    return Estimate((("products of bytes", sums * cycle), ("copies", copies * cycle),
                     ("fork-join", machine.fork * cycle if threads > 1 else 0.0)))


def _apply(group: Group, found: Contraction) -> None:
    s, anchor = group.s, group.anchor
    threads = worth_threads((*anchor.axis, *anchor.reduce_axis))
    a, b, whole = in_matrices(group, found, (ROWS, COLUMNS, STEP), (False, True))
    _copied(s[a], threads)
    sums = s[s.cache_write(whole, "local")]
    sums.transform_layout(lambda *at: [*at[:-1], at[-1] // LANES, at[-1] % LANES])
    stage = s[group.output]
    if len(found.rows) == len(found.columns) == 1:
        s[whole].compute_inline()
        outer, i, j = matrix_axes(stage, found, anchor)
    else:   # several axes are one for the tiles: places of a tile are no box of the result
        *some, last = stage.op.axis
        stage.vectorize(last)
        if threads and some:
            stage.parallel(fused(stage, some))
        stage = s[whole]
        *outer, i, j = stage.op.axis
    rows, i = stage.split(i, factor=ROWS)
    columns, j = stage.split(j, factor=COLUMNS)
    stage.vectorize(j)
    width = _width(group, found, threads)
    if width is not None:
        wide, columns = stage.split(columns, factor=width)
        stage.reorder(*outer, wide, rows, columns, i, j)
        task = fused(stage, [*outer, wide])
        s[b].compute_at(stage, task)
    else:
        stage.reorder(*outer, rows, columns, i, j)
        task = columns = fused(stage, [*outer, rows, columns])
    if threads:
        stage.parallel(task)
    _packed(s[b], found.is_along(found.b), threads and width is None)
    sums.compute_at(stage, columns)
    terms = ceil(size_of(found.summed) / STEP) * STEP
    row = sums.op.axis[-3]
    sums.tensorize(row, te.intrinsics.get("x86.tile_dot_32x32", terms, str(found.a.dtype), str(found.b.dtype)))


def _width(group: Group, found: Contraction, threads: bool) -> int | None:
    """Tiles of columns that a task has: as many as half of L2 holds, if all threads have their tasks; None where it holds all."""
    tiles = ceil(size_of(found.columns) / COLUMNS)
    held = max(group.machine.l2 // 2 // (COLUMNS * ceil(size_of(found.summed) / STEP) * STEP), 1)
    if held >= tiles:
        return None
    tasks = TASKS * group.machine.cores if threads else 1
    return max(min(held, tiles * size_of(found.outer) // tasks), 1)


def _copied(stage: Stage, threads: bool) -> None:
    """The rows, which lie along the sum."""
    *outer, k = stage.op.axis
    _, k = stage.split(k, factor=STEP)
    stage.vectorize(k)
    if threads:
        stage.parallel(fused(stage, outer))


def _packed(stage: Stage, along: bool, threads: bool) -> None:
    """The columns, four terms of one side by side, those of 16 behind each other. along: whether terms lie side by side before."""
    stage.transform_layout(lambda *at: [*at[:-2], at[-2] // LANES, at[-1] // GROUP, at[-2] % LANES * GROUP + at[-1] % GROUP])
    *outer, panel, four, lanes = stage.op.axis
    if along:
        _, lanes = stage.split(lanes, factor=GROUP)
    else:
        panel, inner = stage.split(panel, factor=AT_ONCE)
        stage.reorder(*outer, panel, four, inner, lanes)
    stage.vectorize(lanes)
    if threads:
        stage.parallel(fused(stage, [*outer, panel]))
