"""The loops of a product of matrices, or of what is one after its axes are taken together: those of what is stored, by panels and
tiles, and those of the sums, placed at a tile or at a panel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ...ir.expr import IntImm, IterVar, ProducerLoad
from ...schedule import Stage
from ...te.tensor import Tensor
from ..accesses import numeric_shape, source
from ..forms.contraction import Contraction, panel_width
from ..loops import share_loops
from ..matrices import upstream
from ..operations import fixed_extent, is_known, iteration_count
from .gemm_plan import Plan, Product
from .streams import LAST_CACHE, PASSES

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["passes_caches", "prefetch_panels", "prefetch_rows", "product_sizes", "result_stage", "sum_up", "tasks"]

PREFETCH = 8
"""Rows of B that are asked for ahead: they lie too far apart for the processor to guess."""
SHALLOW = 256
"""Sums up to which stores cost something beside them."""


def product_sizes(group: Group, found: Contraction) -> Product:
    """The sizes of the matrices."""
    width = panel_width(found.b, found.columns[0])
    return Product(
        iteration_count(found.rows),
        iteration_count(found.columns),
        iteration_count(found.summed),
        prod(fixed_extent(axis) or 1 for axis in found.outer),
        max(found.b.dtype.bits, group.anchor.output(0).dtype.bits),
        stride=numeric_shape(found.b.producer, 0)[-1],
        scattered=not width and not _has_rows_of_columns(group, found),
        in_place=width > 0,
        columns=width,
    )


def _has_rows_of_columns(group: Group, found: Contraction) -> bool:
    """Return whether B can be read where it lies: each of its rows along the columns, by a call's own elements."""
    columns, b = found.columns, found.b
    return (
        len(columns) == 1
        and b.indices[-1] is columns[0]
        and all(isinstance(index, (IterVar, IntImm)) for index in b.indices)
        and b not in found.guarded
        and not found.mirrored
        and not is_known(source(b))
        and not upstream(group, b)
    )


def result_stage(group: Group, chosen: Plan) -> Stage:
    """The stage of the sums, in the memory that they take: registers, or a panel of results."""
    s, anchor = group.s, group.anchor
    scope = "global" if chosen.depth else "local"
    if group.output is anchor:
        return s[s.cache_write(anchor.output(0), scope)]
    s[anchor].set_scope(scope)
    return s[anchor]


def tasks(stage: Stage, axes: Sequence[IterVar], chosen: Plan) -> tuple[IterVar, IterVar]:
    """The loops of what is stored, over these axes, the last two of which are rows and columns; returns the loop where
    panels are made and that of a tile."""
    *outer, i, j = axes
    rows, i = stage.split(i, factor=chosen.tile.rows)
    panels, j = stage.split(j, factor=chosen.tile.columns)
    if not chosen.row_tiles:  # sizes that the call decides: loops of sums, whose last tiles can be told from the others
        stage.reorder(*outer, panels, rows, i, j)
        stage.parallel(stage.fuse(*outer) if outer else panels)
        _unroll_tile(stage, chosen, i, j)
        return panels, rows
    some_rows, rows = stage.split(rows, factor=chosen.row_tiles)
    some_panels, panels = stage.split(panels, factor=chosen.panels)
    inside = (rows, panels) if chosen.together else (panels, rows)
    stage.reorder(*outer, some_rows, some_panels, *inside, i, j)
    task = share_loops(stage, [*outer, some_rows, some_panels], chosen.parallel)
    _unroll_tile(stage, chosen, i, j)
    return (task, panels) if chosen.together else (panels, rows)


def _unroll_tile(stage: Stage, chosen: Plan, i: IterVar, j: IterVar) -> None:
    if not chosen.depth:
        stage.unroll(i)
    stage.vectorize(j)


def sum_up(
    sums: Stage,
    summed: Sequence[IterVar],
    stage: Stage,
    per_panel: IterVar,
    per_tile: IterVar,
    chosen: Plan,
) -> tuple[Stage, IterVar]:
    """The loops of the sums, over rows and columns at last, and those of what is summed, one where that is
    cut; returns where the panel of B that they read is made."""
    sums.compute_at(stage, per_panel if chosen.depth else per_tile)
    *outer, i, j = sums.op.axis
    at = stage, per_panel
    if chosen.depth:
        rows, i = sums.split(i, factor=chosen.tile.rows)
        (k,) = summed
        blocks, k = sums.split(k, factor=chosen.depth)
        sums.reorder(*outer, blocks, rows, k, i, j)
        at = sums, blocks
    else:
        sums.reorder(*outer, *summed, i, j)
    sums.unroll(i)
    sums.vectorize(j)
    return at


def prefetch_panels(sums: Stage, panel: Tensor, chosen: Plan) -> None:
    """Panels that lie in memory come while the one before is multiplied, and not all at once before its first rows are."""
    if not chosen.depth and chosen.row_tiles >= PASSES:
        step = sums.leaf_iter_vars[-3]
        sums.prefetch(panel, step, 1, level=2, share=2 if chosen.panels > 1 else 3)  # or the next task's


def prefetch_rows(group: Group, stage: Stage, load: ProducerLoad, axis: IterVar) -> None:
    """Ask for rows ahead of those that a stage reads, where they lie in memory: what is inlined does not."""
    if group.s[source(load)].attach_type != "inline" and not upstream(group, load):
        stage.prefetch(source(load), axis, PREFETCH)


def passes_caches(group: Group, product: Product) -> bool:
    """Return whether the result is stored past the caches: it does not stay there, and memory is as busy as arithmetic."""
    element = group.output.output(0).dtype.bytes
    rows, depth, columns = product.m * product.batch, product.k, product.n
    moved = (rows * depth + depth * columns * product.batch + rows * columns) * element
    return (
        group.output in group.s.outputs
        and 0 < depth <= SHALLOW
        and columns * element % group.machine.line == 0
        and moved >= LAST_CACHE // 2
    )
