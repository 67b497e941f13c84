"""Chains of stencils and of small windows, tile by tile, as chain_plan chose it.

for tiles of the output (in parallel):
    for rows, vectors of the region:  across = ...              # with what the tile reads around it; it stays in the cache
    for rows, vectors of the tile:
        down = ...                                              # what is read in the same columns: in registers, for some rows
        sharp = ...
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import lcm, prod
from typing import TYPE_CHECKING

from ...ir.expr import IterVar
from ...schedule import Stage
from ...te.shape import constant_extent
from ..accesses import ASSUMED
from ..cost.chains import CUT_ROWS
from ..cost.cpu import Lines
from ..cost.doubts import TILED_WINDOWS
from ..cost.estimate import pad_estimate
from ..drafts.draft import Drafts
from ..loops import fuse_axes
from ..operations import LIGHT, find_inlined, weight
from ..plan import Candidate
from .injective import sweep
from .threads import worth_threads
from .windows import window_ways

if TYPE_CHECKING:
    from ..groups import Group
    from ..partition import Tile

__all__ = ["chain"]

STEPS = 2
"""Vectors in a step of the inner loop of a light expression; rows, in one of a heavy one, which share what they read."""
MOST_WRITTEN = 16
"""Taps of a window that are written out for several rows: more take longer to compile than they gain."""


def chain(group: Group) -> None:
    """The rule. The group's parts are what is stored for each tile."""
    windows = [] if group.tiles[0].beside else window_ways(group, group.parts)
    drafts, lines, flat = Drafts(), Lines(), group.tiles[0].flat[group.output]
    row, ways = constant_extent(group.output.axis[flat]) or ASSUMED, list[Candidate]()
    for tile in group.tiles:
        apply = partial(_schedule_separately if tile.at_root else _tile_by_tile, tile=tile)
        is_cut = not tile.at_root and tile.sizes[flat] < row
        time = pad_estimate(group.draft(apply, drafts, lines), (CUT_ROWS - 1) * is_cut)
        ways.append(Candidate(str(tile), partial(apply, group), pad_estimate(time, TILED_WINDOWS * bool(windows))))
    group.choose("chain", [*ways, *windows])


def _schedule_separately(group: Group, tile: Tile) -> None:
    """Each stage at root, its rows in parallel."""
    for op in (*group.parts, group.output):
        if group.s[op].op.reduction is None:
            sweep(group, op)
            continue
        stage = group.s[op]
        axes = list(stage.op.axis)
        rows, inside = axes[: tile.flat[op]], axes[tile.flat[op] :]
        _loops(group, stage, inside, 0, before=rows)
        if rows and worth_threads(axes, weight(op)):
            stage.parallel(fuse_axes(stage, rows))


def _tile_by_tile(group: Group, tile: Tile) -> None:
    s, stage = group.s, group.s[group.output]
    blocks, vector = _output(group, stage, tile)
    rolls = tile.rolled > 0
    for part in tile.beside:
        _output(group, s[part], tile)
        if blocks is not None:
            s[part].compute_with(stage, blocks)
    for part in (part for part in group.parts if part not in tile.beside):
        own = s[part]
        if part in tile.near:
            own.compute_at(stage, vector)
            _unroll_rows(own, tile.flat[part])
        else:
            _loops(group, own, list(own.op.axis), tile.flat[part], rows=1 if rolls else 0)
            if blocks is not None:
                own.compute_at(stage, blocks)
            if part in tile.rings:
                own.rolling_buffer(strict=False)


def _output(group: Group, stage: Stage, tile: Tile) -> tuple[IterVar | None, IterVar]:
    """The loops of the output: that in which its parts are computed, over tiles, or over the steps through one, and that over
    vectors."""
    axes = list(stage.op.axis)
    blocks: list[IterVar] = []
    steps: list[IterVar] = []
    inside: list[IterVar] = []
    for at, (axis, size) in enumerate(zip(axes, tile.sizes, strict=True)):
        if size < (constant_extent(axis) or ASSUMED):
            outer, axis = stage.split(axis, factor=size) if size > 1 else (axis, None)
            blocks.append(outer)
        if axis is not None and tile.rolled and at == tile.along:
            step, axis = stage.split(axis, factor=tile.rolled)
            steps.append(step)
        if axis is not None:
            inside.append(axis)
    count = len(axes) - tile.flat[group.output]
    vector = _loops(group, stage, inside, len(inside) - count, tile.rows, before=[*blocks, *steps])
    if not blocks:
        return (steps[0] if steps else None), vector
    operators = sum(
        weight(op) for member in (group.output, *group.parts) for op in (member, *find_inlined(group.s, member))
    )
    block = fuse_axes(stage, blocks)
    if worth_threads(group.output.axis, operators):
        stage.parallel(block)
    return (steps[0] if steps else block), vector


def _loops(
    group: Group,
    stage: Stage,
    axes: Sequence[IterVar],
    flat: int,
    rows: int = 0,
    before: Sequence[IterVar] = (),
) -> IterVar:
    """The loops over these axes of a stage, those from `flat` on in vectors, and `rows` of the others' last together (0: as many as
    its expression is worth); returns the loop over vectors."""
    outer, last = list(axes[:flat]), list(axes[flat:])
    op = stage.op
    heavy = sum(map(weight, (op, *find_inlined(group.s, op)))) > LIGHT
    lanes = group.machine.lanes(max(member.output(0).dtype.bits for member in (group.output, *group.parts)))
    step = lcm(lanes, *(constant_extent(axis) or 1 for axis in last[1:]))
    reduced = list(op.reduce_axis)
    taps = prod(constant_extent(axis) or 1 for axis in reduced)
    together = rows or (STEPS if heavy or 1 < taps <= MOST_WRITTEN // STEPS else 1)
    single = heavy or rows > 1 or lanes > group.machine.lanes(32)
    vector, lane = stage.split(fuse_axes(stage, last), factor=step * (1 if single else STEPS))
    written: list[IterVar] = []
    if together > 1 and outer:
        extent = constant_extent(outer[-1])
        if extent is not None and extent <= together:
            written = [outer.pop()]
        else:
            outer[-1], row = stage.split(outer[-1], factor=together)
            written = [row]
    stage.reorder(*before, *outer, vector, *reduced, *written, lane)
    for axis in (*reduced, *written):
        stage.unroll(axis)
    stage.vectorize(lane)
    return vector


def _unroll_rows(stage: Stage, flat: int) -> None:
    """The loops of what stays in registers: rows of one vector."""
    rows, last = list(stage.op.axis[:flat]), fuse_axes(stage, stage.op.axis[flat:])
    stage.reorder(*rows, *stage.op.reduce_axis, last)
    for axis in (*rows, *stage.op.reduce_axis):
        stage.unroll(axis)
    stage.vectorize(last)
