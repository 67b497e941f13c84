"""Windows: what is read at several places around each result, loaded once by a block, into shared memory.

    C[c, y, x] = sum over r, q of P[c, y + r, x + q] * W[c, r, q]          depthwise convolutions, pools, stencils

    for blockIdx.x: c, tiles of 32 x 32 of y and x
      P[34, 40] = the block's window                   # shared; by all threads, 16 bytes each, as its source lies in memory
      for threadIdx.y in 8:  for threadIdx.x in 32:
        for 4 of y:  C[c, y, x] = ..                   # of P; what rows of a thread share is loaded once

It is told by what is read where, not by what an operator is called. A padded image is padded on its way. (Micikevicius, 3D finite
difference computation on GPUs using CUDA, 2009, keeps the tile of a stencil with its halo so.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import gcd
from typing import TYPE_CHECKING

from ...base.dataclass import dataclass
from ...codegen.gpus import Gpu, target_gpu
from ...ir.analysis.warps import BANKS
from ...ir.expr import Expr, FloatImm, IfThenElse, IntImm, IterVar
from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..accesses import dimension, numeric_shape, op_loads
from ..drafts.draft import Drafts
from ..forms.window import Window, match_windows
from ..loops import fuse_axes, unroll_loops
from ..operations import data_extents, fixed_extent, is_expensive, is_plain, iteration_count
from ..plan import Candidate
from .elements import DECLARED, element_a_thread
from .threads import count_lanes

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["windows"]

THREADS = ((8, 32), (16, 16), (8, 8), (1, 128))
"""Along the last axis but one, and along the last."""
OWN = (4, 1)
"""Neighbours of a thread along the last axis but one."""
UNROLLED = 128
"""Terms of a thread's sums up to which all of its loops are unrolled."""


@dataclass(frozen=True)
class Tile:
    """Tile of a window kernel.

    threads: along the last axis but one, and along the last; own: neighbours of each along the former.
    """

    threads: tuple[int, int]
    own: int

    @property
    def rows(self) -> int:
        return self.threads[0] * self.own

    def extents(self, op: Operation) -> dict[IterVar, int]:
        """Return the number of values of each axis that a block has."""
        sizes = [*[1] * max(len(op.axis) - 2, 0), *(self.rows, self.threads[1])[-len(op.axis) :]]
        return {axis: min(size, fixed_extent(axis)) for axis, size in zip(op.axis, sizes, strict=True)}

    def __str__(self) -> str:
        own = f", {self.own} rows a thread" if self.own > 1 else ""
        return f"windows of {self.rows} x {self.threads[1]} in shared memory{own}"


def windows(group: Group) -> bool:
    """Blocks load what they read around their results once. Does nothing and returns False where nothing is read so."""
    op = group.s[group.anchor].op
    if group.parts or len(op.outputs) > 1 or not op.axis or not all(map(fixed_extent, (*op.axis, *op.reduce_axis))):
        return False
    if data_extents(group.output) != data_extents(op) or fixed_extent(op.axis[-1]) < 2:
        return False
    found = match_windows(op)
    tiles = list(_tiles(op, found, target_gpu(group.target)))
    if not tiles:
        return False
    reason, drafts = _reason(group, op, found), Drafts()
    candidates = [
        Candidate(
            str(tile), partial(_apply, found, tile, group), group.draft(partial(_apply, found, tile), drafts), reason
        )
        for tile in tiles
    ]
    candidates.sort(key=lambda candidate: candidate.seconds)
    alone = group.draft(element_a_thread, drafts)
    candidates.append(Candidate(DECLARED, partial(element_a_thread, group), alone, "windows lie anywhere"))
    group.choose("windows", candidates)
    return True


def _tiles(op: Operation, found: Sequence[Window], gpu: Gpu) -> Iterator[Tile]:
    """Return the tiles that fit the shared memory of a block twice, and are no more than twice as large as the result."""
    if not found:
        return
    columns = fixed_extent(op.axis[-1])
    rows = fixed_extent(op.axis[-2]) if len(op.axis) > 1 else 1
    for threads in THREADS:
        for own in OWN:
            tile = Tile(threads, own)
            fits = tile.rows < 2 * rows and threads[1] < 2 * max(columns, 8)
            if fits and 2 * _shared_bytes(op, found, tile) <= gpu.block_shared:
                yield tile


def _shared_bytes(op: Operation, found: Sequence[Window], tile: Tile) -> int:
    return sum((window.elements(tile.extents(op)) + 8 * tile.rows) * window.tensor.dtype.bytes for window in found)


def _reason(group: Group, op: Operation, found: Sequence[Window]) -> str:
    """Return the reason for which less than 16 bytes come at once, or lanes meet in banks."""
    said = (
        ["windows begin within sectors"]
        if any(len(window.steps[-1]) > 1 or window.spread[-1] for window in found)
        else []
    )
    for window in found:
        lanes, _ = _lanes(group, window.tensor)
        if lanes < count_lanes(window.tensor.dtype):
            said.append(
                f"{window.tensor.name} by {lanes * window.tensor.dtype.bytes} bytes: its rows are not whole vectors"
            )
        step = abs(window.steps[-1][op.axis[-1]])
        if step > 1:
            said.append(f"neighbours read {window.tensor.name} {step} apart, so that {gcd(step, BANKS)} meet in a bank")
    return "; ".join(said)


# Schedules


def _apply(found: Sequence[Window], tile: Tile, group: Group) -> None:
    s, anchor = group.s, group.anchor
    kept = {window.tensor: s[window.tensor] for window in found if _is_padded_here(group, window.tensor)}
    lanes = {window.tensor: _lanes(group, window.tensor) for window in found}
    stages = set(kept.values())
    for head in group.heads:
        if head.values and s[head] not in stages and not is_expensive(head) and s[head].attach_type != "inline":
            s[head].compute_inline()
    if anchor is group.output and anchor.reduction is not None:
        sums: Stage | None = s[s.cache_write(list(anchor.outputs), "local")[0]]
    else:
        sums = s[anchor] if anchor is not group.output else None
    reader = sums or s[group.output]
    copies = [
        (
            kept.get(window.tensor)
            or s[s.cache_read(s[window.tensor].op.output(window.tensor.value_index), "shared", [reader])],
            lanes[window.tensor],
        )
        for window in found
    ]
    stage = s[group.output]
    block, thread = _result(stage, tile)
    if sums is not None:
        _sum(sums, stage, thread, tile)
    for copy, (vector, shift) in copies:
        _fill(copy, (stage, block), tile, vector, shift)


def _is_padded_here(group: Group, tensor: Tensor) -> bool:
    """Return whether a tensor is computed for this group alone, and cheaply enough to be computed where windows meet once more."""
    return tensor.op in group.heads and bool(tensor.op.values) and is_plain(tensor.op) and not is_expensive(tensor.op)


def _lanes(group: Group, tensor: Tensor) -> tuple[int, int]:
    """Return the number of neighbours of a row that come at once, and how far before the first of them a vector of their source begins."""
    lanes, last = count_lanes(tensor.dtype), numeric_shape(tensor, 1)[-1]
    if not _is_padded_here(group, tensor):
        return gcd(lanes, last), 0
    op, shifts = group.s[tensor].op, set[int]()
    for load in op_loads(op):
        last = dimension(load.indices[-1])
        if not last.is_axis(op.axis[-1]) or load.dtype != tensor.dtype:
            return 1, 0
        lanes = gcd(lanes, numeric_shape(load.producer, 1)[-1])
        shifts.add(last.offset)
    return (lanes, shifts.pop() % lanes) if len(shifts) == 1 else (1, 0)


def _find_padding(op: Operation) -> Expr | int:
    """Return the value beyond a padded image: that no vector is of two kinds, it is also what stands where there is no element."""
    value = op.values[0]
    return (
        value.false_value if isinstance(value, IfThenElse) and isinstance(value.false_value, (IntImm, FloatImm)) else 0
    )


def _result(stage: Stage, tile: Tile) -> tuple[IterVar, IterVar]:
    """The loops of what is stored; returns that of a block and that of a thread."""
    *outer, x = stage.op.axis
    columns, column = stage.split(x, factor=tile.threads[1])
    blocks, threads, own = [columns], [column], list[IterVar]()
    if outer:
        rows, row = stage.split(outer.pop(), factor=tile.rows)
        row, rest = stage.split(row, factor=tile.own)
        blocks.insert(0, rows)
        threads.insert(0, row)
        own.append(rest)
    stage.reorder(*outer, *blocks, *threads, *own)
    block = fuse_axes(stage, [*outer, *blocks])
    stage.bind(block, thread_axis("blockIdx.x"))
    for thread, name in zip(reversed(threads), "xy", strict=False):
        stage.bind(thread, thread_axis(f"threadIdx.{name}"))
    unroll_loops(stage, own)
    return block, column


def _sum(sums: Stage, stage: Stage, thread: IterVar, tile: Tile) -> None:
    """The sums of a thread in registers, which take up their terms in their order."""
    sums.set_scope("local")
    sums.compute_at(stage, thread)
    reduced, axes = list(sums.op.reduce_axis), list(sums.op.axis)
    sums.reorder(*reduced, *axes)
    inner = iteration_count(reduced) * tile.own
    for axis in reversed([*reduced, *axes]):
        if inner > UNROLLED and axis in reduced[:-1]:
            return
        sums.unroll(axis)


def _fill(copy: Stage, at: tuple[Stage, IterVar], tile: Tile, lanes: int, shift: int) -> None:
    """A block's window in shared memory, by all of its threads."""
    axes: Sequence[IterVar] = copy.op.axis
    if lanes > 1:
        moved = copy.transform_layout(
            lambda *index: [*index[:-1], (index[-1] + shift) // lanes, (index[-1] + shift) % lanes],
            _find_padding(copy.op),
        )
        assert moved is not None, "the stage computes"
        copy.vectorize(moved[-1])
        axes = moved[:-1]
        if tile.threads[1] < BANKS and len(moved) > 2 and tile.threads[1] // tile.own >= lanes:
            copy.storage_align(moved[-3], BANKS, tile.threads[1] // tile.own)  # rows of a warp lie in other banks
    copy.set_scope("shared")
    copy.compute_at(*at)
    rest = fuse_axes(copy, axes)
    for count, name in zip(reversed(tile.threads), "xy", strict=True):
        if count > 1 or name == "x":
            rest, thread = copy.split(rest, factor=count)
            copy.bind(thread, thread_axis((0, count), f"threadIdx.{name}"))
