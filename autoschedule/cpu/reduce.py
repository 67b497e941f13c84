"""Sums, products, extrema and their places over any axes, at the rate of memory.

    neighbours are reduced (row sums)                    neighbours are kept (column sums)

    for i in parallel:                                   for chunk of k in parallel:
        for k.outer:                                         for k.outer:
            for lanes:  part += x[i, k]                          for j.outer:  for k.inner in 8, unrolled:
        part, across lanes                                           for lanes:  sum[j] += x[k, j]
                                                         for j:  for chunk:  y[j] += sum of the chunk

Whole rows are read as they lie, eight side by side, and each sum is loaded and stored once for the eight. Where too few
elements are kept for threads to share, the reduction is cut into chunks, whose results are reduced in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...base.dataclass import dataclass
from ...codegen.machine import WAYS, Machine
from ...ir.expr import IterVar
from ...schedule import Stage
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..accesses import contiguous_axes, find_axes, op_loads
from ..forms.rows import full_load
from ..loops import fuse_axes, share_loops, split_longer
from ..operations import find_inlined
from .lanes import ROUNDS, VECTORS, length, move_lane_last, reduce_lanes, vectors_of_a_chain
from .streams import prefetch_pages
from .threads import PARTS, TASKS, WORTH_THREADS, worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["add_rows", "choose_layout", "places", "reads_once", "reduce", "too_few_rows"]

SHORT = 16
"""Rows up to which a few vectors of results stay in registers for all of them."""


@dataclass(frozen=True)
class Layout:
    """Access pattern of a reduction: `reduced` are the reduce axes, `kept` the data axes, last in order, whose neighbours lie side by
    side; one of them is empty, or both. rows: elements of the last dimension that reduced ones go through, one step after the
    other, where that is known."""

    reduced: tuple[IterVar, ...]
    kept: tuple[IterVar, ...]
    rows: int | None = None


def reads_once(group: Group) -> bool:
    """Return whether a group's anchor is a reduction without reuse: each term reads elements that no other does, side by side, so that
    memory bounds it."""
    op = group.anchor
    load = full_load(op)
    if load is None or group.parts:
        return False
    layout = choose_layout(group, op)
    if layout.kept:
        return True
    reduced = set(op.reduce_axis)
    data = {axis for axis in op.axis if constant_extent(axis) != 1}
    alone = all(
        data.issubset(each.indices)
        for each in op_loads(op)
        if any(not reduced.isdisjoint(find_axes(index)) for index in each.indices)
    )
    row = length(layout.reduced) if layout.reduced else 0
    long = 4 * ROUNDS * group.machine.lanes(op.output(0).dtype.bits)
    return alone and (row is None or row >= long or bool(row) and len(layout.reduced) == len(op.reduce_axis))


def reduce(group: Group) -> None:
    """The rule. Heads that cost little are inlined, the others stay stages of their own."""
    s, anchor = group.s, group.anchor
    group.inline_cheap_heads()
    if any(constant_extent(axis) == 0 for axis in (*anchor.axis, *anchor.reduce_axis)):
        return
    threads = worth_threads((*anchor.axis, *anchor.reduce_axis), 1 + len(find_inlined(s, anchor)))
    chunks = _chunks(anchor, choose_layout(group, anchor)) if threads else 1
    if chunks > 1:
        _schedule_chunks(group, anchor, chunks)
        return
    _one_step(group, anchor, group.output, threads)


def places(group: Group) -> None:
    """The rule of places that are found in two steps: the best of each block, then the place within the best block."""
    s, stage = group.s, group.s[group.output]
    group.inline_cheap_heads()
    group.inline_anchor()
    axes = list(stage.op.axis)
    if any(constant_extent(axis) == 0 for axis in axes):
        return
    best = group.parts[0]
    threads = worth_threads((*best.axis, *best.reduce_axis))
    at_rows = bool(axes) and (length(axes) or PARTS) >= PARTS
    row = share_loops(stage, axes, threads and at_rows) if axes else None
    for part in group.parts:
        stages = reduce_lanes(s, part, part.reduce_axis, group.machine)
        if part is best and not at_rows:
            loop = share_loops(s[part], list(s[part].op.axis), threads)
            for item in stages[:-1]:
                item.compute_at(s[part], loop)
        elif row is not None:
            for each in stages:
                each.compute_at(stage, row)


def choose_layout(group: Group, op: Operation) -> Layout:
    """See Layout. Kept ones have to fill a vector; reduced ones are read in the order of their loops."""
    reduced = set(op.reduce_axis)  # numbers of rows are read once, whatever they are read along
    loads = [load for load in op_loads(op) if any(not reduced.isdisjoint(find_axes(index)) for index in load.indices)]
    along = {axis for load in loads for axis in contiguous_axes(load)}
    if op.axis and op.axis[-1] in along:
        lanes = group.machine.lanes(op.output(0).dtype.bits)
        size = constant_extent(op.axis[-1])
        if size is None or size * 2 > lanes or not op.reduce_axis:
            return Layout((), (op.axis[-1],))
    last = op.reduce_axis[-1:]
    if not last or last[0] not in along:
        return Layout((), ())
    together = 1
    while together < len(op.reduce_axis) and all(
        _has_suffix(load.indices, op.reduce_axis[-together - 1 :]) for load in loads
    ):
        together += 1
    return Layout(tuple(op.reduce_axis[len(op.reduce_axis) - together :]), (), constant_extent(last[0]))


def _has_suffix(indices: Sequence[object], axes: Sequence[IterVar]) -> bool:
    return len(indices) >= len(axes) and all(
        a is b for a, b in zip(indices[len(indices) - len(axes) :], axes, strict=True)
    )


def too_few_rows(group: Group, op: Operation, rows: int | None) -> bool:
    """Return whether threads would better share a reduction by parts of its sums than by `rows` tasks."""
    few = rows is not None and rows < group.machine.cores
    return few and worth_threads((*op.axis, *op.reduce_axis)) and _chunks(op, choose_layout(group, op)) > 1


def _chunks(op: Operation, layout: Layout) -> int:
    """Return the number of chunks that the reduction is cut into."""
    kept, size = length(op.axis), length((*op.axis, *op.reduce_axis))
    if kept is None or size is None:
        return 1
    tasks = kept if not layout.kept else max(kept // (constant_extent(layout.kept[0]) or 1), 1)
    axes = _chunk_axes(op, layout)
    longest = (length(axes) or 1) // (4 * WAYS)
    # what is just worth threads has one task's worth for each that they should have
    return 1 if tasks >= PARTS else max(min(-(-PARTS // tasks), size * TASKS // WORTH_THREADS // tasks, longest), 1)


def _chunk_axes(op: Operation, layout: Layout) -> tuple[IterVar, ...]:
    """The reduce axes that are cut: the outermost, and those that lie side by side with it."""
    return layout.reduced if len(layout.reduced) == len(op.reduce_axis) else tuple(op.reduce_axis[:1])


def _schedule_chunks(group: Group, op: Operation, chunks: int) -> None:
    """The chunks at once, each into results of its own, then those of all chunks."""
    s, layout = group.s, choose_layout(group, op)
    axes = _chunk_axes(op, layout)
    size = length(axes)
    assert size is not None
    unit = 8 * group.machine.lanes(op.output(0).dtype.bits) if layout.reduced else WAYS
    factor = -(-size // (chunks * unit)) * unit
    chunk = s[op].split(fuse_axes(s[op], axes), factor=factor)[0]
    partial = s.rfactor(list(s[op].op.outputs), chunk, factor_axis=0)[0].op
    within = partial.reduce_axis[-1:] if layout.reduced else ()
    _one_step(group, partial, partial, True, Layout(tuple(within), _same_axis(layout.kept, op, partial), layout.rows))
    final = s[op].op
    _one_step(group, final, group.output, False)


def _same_axis(kept: tuple[IterVar, ...], op: Operation, partial: Operation) -> tuple[IterVar, ...]:
    return tuple(partial.axis[op.axis.index(axis) + 1] for axis in kept)


def _one_step(group: Group, op: Operation, output: Operation, threads: bool, layout: Layout | None = None) -> None:
    """Schedules a reduction, and the elementwise output behind it, at root."""
    loops = choose_layout(group, op) if layout is None else layout
    if loops.kept:
        _columns(group, op, output, threads)
    else:
        _rows(group, op, output, threads, loops)


def _rows(group: Group, op: Operation, output: Operation, threads: bool, layout: Layout) -> None:
    """One result after the other, in lanes over what is reduced."""
    s = group.s
    stage = s[output]
    stages = reduce_lanes(s, op, layout.reduced, group.machine) if layout.reduced else [s[op]]
    if len(stages) > 1:
        _fetch_steps(stages[0], layout)
    if not stage.op.axis:
        return
    row = share_loops(stage, list(stage.op.axis), threads)
    for each in stages:
        if each is not stage:
            each.compute_at(stage, row)


def _fetch_steps(stage: Stage, layout: Layout) -> None:
    """Let the steps of partial sums ask ahead, where each reads neighbours."""
    step = length(stage.op.axis[-1:])
    loop = next(
        (axis for axis in stage.leaf_iter_vars if axis not in stage.op.axis and stage.attr(axis).kind == "serial"), None
    )
    if loop is not None and step and layout.rows is not None and layout.rows % step == 0:
        prefetch_pages(stage, loop, step)


def _columns(group: Group, op: Operation, output: Operation, threads: bool) -> None:
    """Blocks of results that stay in the L1 cache while rows are added to them."""
    s = group.s
    own = output is op or s[output].op is s[op].op
    inner = s[s.cache_write(list(s[op].op.outputs), "local")[0].op if own else op]
    stage = s[output]
    lanes = group.machine.lanes(max(tensor.dtype.bits for tensor in op.outputs))
    *outer, last = stage.op.axis
    extent, block = constant_extent(last), group.machine.l1 // 2 // max(tensor.dtype.bytes for tensor in op.outputs)
    if (length(op.reduce_axis) or SHORT + 1) <= SHORT:  # which stay in registers until they are stored
        block = VECTORS * lanes
    if extent is None or extent > block:
        wide, last = stage.split(last, factor=block if extent is not None else 4 * lanes)
        outer.append(wide)
    if outer:
        at = share_loops(stage, outer, threads)
        inner.compute_at(stage, at)
    stage.vectorize(last)
    add_rows(inner, group.machine, extent)


def add_rows(stage: Stage, machine: Machine, extent: int | None) -> None:
    """The loops of a reduction whose results stay in the L1 cache while rows are added to them. extent: of a row that the stage
    computes."""
    lanes = machine.lanes(max(tensor.dtype.bits for tensor in stage.op.outputs)) * vectors_of_a_chain(machine)
    *data, lane = move_lane_last(stage.op.axis)
    *slow, row = stage.op.reduce_axis
    rows, row = split_longer(stage, row, constant_extent(row), WAYS)
    wide, lane = split_longer(stage, lane, extent, lanes)
    stage.reorder(*data, *slow, *rows, *wide, row, lane)
    stage.unroll(row)
    stage.vectorize(lane)
