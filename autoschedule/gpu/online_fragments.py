"""The loops of online sums in fragments, whose rows warps, or four of them together, have alone: each thread computes its own elements."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from ...base.dataclass import dataclass
from ...ir.expr import IterVar
from ...ir.fragments import LANES, WARP_LANES, WARPGROUP_LANES, M, N
from ...ir.passes.gpu.accumulated_parts import ACCUMULATE
from ...ir.passes.gpu.flushed_powers import FLUSH
from ...te.axis import thread_axis
from ..accesses import domain_axes
from ..forms.online import OnlineForm, Rows, product_heads
from ..loops import fuse_axes
from ..operations import fixed_extent
from .grids import BlockTile
from .tensor_cores import shared_by_all
from .threads import count_lanes

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage
    from ...te.tensor import Tensor

__all__ = [
    "FragmentTile",
    "Place",
    "bind_lanes",
    "distribute_lanes",
    "distribute_numbers",
    "inline_factors",
    "matricize_scores",
    "schedule_merge",
    "schedule_store",
    "share_rows",
]

Place: TypeAlias = "tuple[Stage, IterVar]"
"""Where stages are computed."""


@dataclass(frozen=True)
class FragmentTile:
    """Tile of an online sum in fragments.

    own: rows of a warp, or of four together; warps: of these, in a block; terms: of a part of the sum; stages: of the pipelines that
    fill what is read of each part. splits: blocks that share the terms; cluster: of blocks of one head, which fetch a part together.
    scope: where sums are.
    """

    own: int
    warps: int
    terms: int
    stages: int
    splits: int = 1
    cluster: int = 1
    scope: str = "mma_c"

    @property
    def is_of_groups(self) -> bool:
        """Return whether four warps multiply together."""
        return self.scope == "wgmma_c"

    @property
    def rows(self) -> int:
        return self.own * self.warps

    @property
    def columns(self) -> int:
        return self.terms

    @property
    def threads(self) -> tuple[int, ...]:
        return LANES[0], LANES[1] * (WARPGROUP_LANES // WARP_LANES if self.is_of_groups else 1), self.warps

    def __str__(self) -> str:
        name, several = ("warpgroups", f"{self.warps} x 4") if self.is_of_groups else ("tensor cores", f"{self.warps}")
        filled = " of boxes by warps of their own" if self.is_of_groups else ""
        return (
            f"{name}, {self.rows} rows a block, {self.terms} terms at a time, {several} warps of {self.own} rows"
            f"{f', {self.stages} stages{filled}' if self.stages > 1 else ''}"
            f"{f', clusters of {self.cluster}' if self.cluster > 1 else ''}"
            f"{f', terms in {self.splits} parts' if self.splits > 1 else ''}; scores are not stored"
        )


def schedule_store(s: Schedule, form: OnlineForm, tile: FragmentTile) -> tuple[Place, Place]:
    """The loops of what is stored, from shared memory that warps fill; returns those over blocks, and over the warps of one."""
    stage = s[form.output]
    filled = s[s.cache_write(stage.op.output(0), "shared")]
    outer, row, e = form.of_output.order_loops(stage)
    lanes = gcd(count_lanes(stage.op.output(0).dtype), fixed_extent(e))
    block, rows = stage.split(row, factor=tile.rows)
    stage.reorder(*outer, block, rows, e)
    if outer:
        stage.bind(fuse_axes(stage, outer), thread_axis("blockIdx.y"))
    stage.bind(block, thread_axis("blockIdx.x"))
    shared_by_all(stage, (rows, e), tile, lanes, (1, 1))
    filled.compute_at(stage, block)
    whole = count_lanes(filled.op.output(0).dtype)
    filled.storage_align(filled.op.axis[-2], 2 * whole, whole)
    _, _, warp = share_rows(filled, form.of_output, tile)
    return (stage, block), (filled, warp)


def share_rows(stage: Stage, at: Rows, tile: FragmentTile) -> tuple[list[IterVar], IterVar, IterVar]:
    """Share the rows of a stage among warps, and their elements among lanes; return the outer loops, that over blocks, and over
    warps."""
    outer, row, e = at.order_loops(stage)
    rest, rows = stage.split(row, factor=tile.own)
    block, warp = stage.split(rest, factor=tile.warps)
    stage.reorder(*outer, block, warp, rows, e)
    stage.bind(warp, thread_axis((0, tile.warps), "threadIdx.z"))
    bind_lanes(stage, rows, e, tile, together=True)
    return outer, block, warp


def schedule_merge(
    stage: Stage, at: Place, form: OnlineForm, tile: FragmentTile, slice_columns: int
) -> tuple[Place, Place]:
    """Merge the partial results in fragments, chunk by chunk, so many columns at once; return the loops over chunks, and over slices of
    the columns."""
    stage.set_scope(tile.scope)
    stage.compute_at(*at)
    chunk = stage.op.reduce_axis[0]
    outer = domain_axes(chunk)
    *others, row, column = stage.op.axis
    several, column = stage.split(column, factor=slice_columns)
    stage.reorder(
        *(axis for axis in others if axis in outer),
        chunk,
        *(axis for axis in others if axis not in outer),
        several,
        row,
        column,
    )
    stage.unroll(several)
    bind_lanes(stage, row, column, tile)
    if tile.is_of_groups:  # parts in fragments of single warps lie apart, and stay
        stage.pragma(chunk, ACCUMULATE)
    if form.value.algorithm.startswith("attention."):  # whose error says so; of others each power is as they wrote it
        stage.pragma(chunk, FLUSH)
    return (stage, chunk), (stage, several)


def distribute_lanes(stage: Stage, row: IterVar, column: IterVar, at: Place, tile: FragmentTile, scope: str) -> None:
    """Compute in each lane the elements that it has in a fragment, or its rows."""
    stage.set_scope(scope)
    stage.compute_at(*at)
    bind_lanes(stage, row, column, tile)


def distribute_numbers(made: dict[str, Stage], form: OnlineForm, chunk: Place, tile: FragmentTile) -> None:
    """Compute scores, weights, and the numbers of their rows in the lanes that have these."""
    for name in ("scores", "weight"):
        axes = made[name].op.axis
        distribute_lanes(made[name], axes[1 + form.row], axes[-1], chunk, tile, tile.scope)
    for name in ("peak", "total"):
        op = made[name].op
        distribute_lanes(made[name], op.axis[1 + form.row], op.reduce_axis[0], chunk, tile, "local")


def matricize_scores(s: Schedule, form: OnlineForm, padding: tuple[int, int, int]) -> list[Tensor]:
    """The product that scores are of, as one of matrices, of elements as they are stored."""
    product = s[form.product]
    for head in product_heads(s, product.op):
        s[head].compute_inline()
    row, term = (product.op.axis[place] for place in form.of_product)
    made = s.matricize(product.op.output(0), [row], [term], padding, (False, True))
    product.compute_inline()
    return made


def inline_factors(made: dict[str, Stage]) -> None:
    """Inline what lies between weights, or what they are multiplied with, and the matrices of a part's product."""
    for name in ("rounded", "factor", "part"):
        made[name].compute_inline()


def bind_lanes(stage: Stage, row: IterVar, column: IterVar, tile: BlockTile, together: bool = False) -> None:
    """The loops over rows and columns of a fragment by the lanes that have them. together: whether what a lane has side by side is
    stored at once."""
    down, group = stage.split(row, factor=LANES[1])
    over, inner = stage.split(column, factor=N)
    place, beside = stage.split(inner, factor=N // LANES[0])
    lanes = tile.threads[0]
    if max(lanes, tile.threads[1]) > LANES[1]:  # warps of a group have rows of their own
        warp, down = stage.split(down, factor=M // LANES[1])
        stage.reorder(warp, group, down)
        group = stage.fuse(warp, group)
    stage.reorder(group, down, over, place, beside) if column.kind == "reduce" else stage.reorder(
        group, place, down, over, beside
    )
    if lanes > LANES[0]:
        stage.bind(stage.fuse(group, place), thread_axis((0, lanes), "threadIdx.x"))
    else:
        stage.bind(group, thread_axis((0, tile.threads[1]), "threadIdx.y"))
        stage.bind(place, thread_axis((0, lanes), "threadIdx.x"))
    for axis in (down, over, *(() if together else (beside,))):
        stage.unroll(axis)
    if together:
        stage.vectorize(beside)
