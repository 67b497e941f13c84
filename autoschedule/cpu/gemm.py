"""The rule of products of matrices: which of them are contractions, and those whose sizes the call decides, or whose B is packed
by who declares it.

    for panel:                                           # in parallel; as many columns of B as a tile has
        B.panel = B[:, panel]                            # packed, where its columns do not lie side by side
        for tile of rows:
            C.tile = 0                                   # in registers
            for k:
                for row (unrolled):  for column in lanes:  C.tile += A[row, k] * B.panel[k, column]
            C[rows, panel] = C.tile ...                  # with what follows element by element

(Goto and van de Geijn 2008; Van Zee and van de Geijn 2015, for the registers.)
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ...ir.expr import ProducerLoad
from ...te.factors import factors
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..accesses import source
from ..matrices import upstream
from ..operations import is_known
from ..plan import Candidate
from .byte_tiles import byte_tiles
from .factors import Sides, are_widened, find_sides, matricize_factors, sweep_factors
from .gemm_nest import PREFETCH, passes_caches, prefetch_panels, result_stage, sum_up, tasks
from .gemm_plan import Plan, plans
from .gemv import gemv, thin
from .operands import Operands, is_product, operands, reduce_axes
from .reduction_dispatch import contraction_or_sums, reduction

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["apply", "gemm"]

WIDENED = 16
"""Rows and columns from which on numbers of 16 bits are converted before they are multiplied."""


def gemm(group: Group) -> None:
    """The rule of matmul, batch_matmul, dense and packed_dense, and of reductions that no tag has a rule for: many are products
    without saying so. What is none is scheduled as any reduction."""
    tiles = byte_tiles(group)
    if tiles:
        group.choose("byte_tiles", [*tiles, Candidate("as other products", partial(_products, group))])
    else:
        _products(group)


def _products(group: Group) -> None:
    """Products of numbers that vectors multiply one by one."""
    anchor = group.anchor
    if not is_product(anchor):
        reduction(group)
    elif (sides := _find_narrow_sides(group)) is not None:
        wide = matricize_factors(group, sides)
        _products(wide)
        sweep_factors(group, wide)
    elif all(map(constant_extent, (*anchor.axis, *reduce_axes(anchor)))) and not operands(group).product.in_place:
        contraction_or_sums(group)
    elif all(constant_extent(axis) != 0 for axis in (*anchor.axis, *reduce_axes(anchor))):
        product = operands(group)
        kept = is_known(source(product.b)) and not product.product.in_place
        shape = thin(group, product)
        sizes = replace(product.product, in_place=True) if kept else product.product  # panels that no call packs
        ways = [Candidate(str(way), partial(apply, group, product, way, kept)) for way in plans(sizes, group.machine)]
        if shape is not None and not (kept and shape.outer and not _is_widened(group, product.b)):
            ways.insert(0, Candidate("a matrix and few vectors", partial(gemv, group, product, shape)))
        group.choose("gemm", [*ways, Candidate("as any reduction", partial(reduction, group))])


def _find_narrow_sides(group: Group) -> Sides | None:
    """The sides of a product of narrow floats, each of which is converted once: where enough rows and columns use it again, and B
    is neither packed nor known before the call."""
    anchor = group.anchor
    both = factors(anchor)
    if both is None or not are_widened(both) or min(constant_extent(axis) or 0 for axis in anchor.axis[-2:]) < WIDENED:
        return None
    product = operands(group)
    return None if product.product.in_place or is_known(source(product.b)) else find_sides(anchor)


def apply(group: Group, found: Operands, chosen: Plan, kept: bool = False) -> None:
    """Schedules the group as `chosen` says. kept: B is packed for all tasks and calls, being known when the kernel is built."""
    s, anchor, tile = group.s, group.anchor, chosen.tile
    panel = _packed_panel(group, found.b, tile.columns) if chosen.packed or kept else None
    if found.a.indices[-1] is not reduce_axes(anchor)[0]:
        _pack_rows(group, found.a, tile.rows)
    stage, sums = s[group.output], result_stage(group, chosen)
    per_panel, per_tile = tasks(stage, stage.op.axis, chosen)
    if passes_caches(group, found.product):
        stage.pragma(stage.leaf_iter_vars[-1], "nontemporal_store")
    at = sum_up(sums, reduce_axes(sums.op), stage, per_panel, per_tile, chosen)
    if panel is not None and kept:
        s[panel].parallel(s[panel].op.axis[0])
        prefetch_panels(sums, panel, chosen)
    elif panel is not None:
        s[panel].compute_at(*at)
    elif not found.product.in_place and found.product.stride > tile.columns:
        sums.prefetch(source(found.b), sums.leaf_iter_vars[-3], PREFETCH)


def _is_widened(group: Group, b: ProducerLoad) -> bool:
    """Return whether B is computed from fewer bytes than it has: packed, it would be more to read, where reading is all there is."""
    return any(tensor.dtype.bits < b.dtype.bits for head in upstream(group, b) for tensor in head.input_tensors)


def _packed_panel(group: Group, b: ProducerLoad, columns: int) -> Tensor:
    """B in panels, not placed yet; what it is computed from element by element is inlined into it."""
    s, anchor = group.s, group.anchor
    *_, j = anchor.axis
    side_by_side = b.indices[-1] is j
    panel = s.cache_read(source(b), "global", [anchor])
    heads = upstream(group, b)
    for head in heads:
        s[head].compute_inline()
    tiled = s[panel].transform_layout(
        (lambda *at: [*at[:-2], at[-1] // columns, at[-2], at[-1] % columns])
        if side_by_side
        else (lambda *at: [*at[:-2], at[-2] // columns, at[-1], at[-2] % columns]),
        0,
    )
    assert tiled is not None
    stage, lane = s[panel], tiled[-1]
    if not side_by_side:  # as many rows of B as there are lanes: loaded along the sum, and transposed in registers
        lanes = group.machine.lanes(b.dtype.bits)
        steps, step = stage.split(tiled[-2], factor=lanes)
        vectors, lane = stage.split(lane, factor=lanes)
        stage.reorder(steps, vectors, step, lane)
        stage.unroll(step)
    elif not heads:
        stage.prefetch(source(b), tiled[-2], PREFETCH)
    stage.vectorize(lane)
    return panel


def _pack_rows(group: Group, a: ProducerLoad, rows: int) -> None:
    """A, whose rows are columns in memory, once for all tasks: the elements that a tile takes at a step side by side."""
    s = group.s
    packed = s.cache_read(source(a), "global", [group.anchor])
    for head in upstream(group, a):
        s[head].compute_inline()
    tiled = s[packed].transform_layout(lambda *at: [*at[:-2], at[-1] // rows, at[-2], at[-1] % rows], 0)
    assert tiled is not None
    *outer, _, lane = tiled
    s[packed].parallel(s[packed].fuse(*outer))
    s[packed].vectorize(lane)
