"""The rule of products of matrices: of bytes by instructions for them, of narrow floats that are converted once, and all others as
contractions.

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

from functools import partial
from typing import TYPE_CHECKING

from ...te.factors import factors
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..accesses import source
from ..forms.contraction import match_product, panel_width
from ..operations import is_known
from ..plan import Candidate
from .byte_tiles import byte_tiles
from .factors import Sides, are_widened, find_sides, matricize_factors, sweep_factors
from .reduction_dispatch import contraction_or_sums, reduction

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["gemm"]

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
    anchor, found = group.anchor, match_product(group.anchor)
    if found is None:
        reduction(group)
        return
    known = is_known(source(found.b)) or panel_width(found.b, found.columns[0])
    if not known and (sides := _find_narrow_sides(anchor)) is not None:
        wide = matricize_factors(group, sides)
        _products(wide)
        sweep_factors(group, wide)
    elif all(constant_extent(axis) != 0 for axis in (*anchor.axis, *anchor.reduce_axis)):
        contraction_or_sums(group)


def _find_narrow_sides(anchor: Operation) -> Sides | None:
    """The sides of a product of narrow floats, each of which is converted once: where enough rows and columns use it again."""
    both = factors(anchor)
    if both is None or not are_widened(both) or min(constant_extent(axis) or 0 for axis in anchor.axis[-2:]) < WIDENED:
        return None
    return find_sides(anchor)
