"""Scans: lanes and threads over the dimensions that no step mixes, a block of them from the first step to the last.

    sums along columns, y[i, t, j]                       sums along rows, y[i, t]

    for i, columns in parallel:                          for rows in parallel:                # as many as a vector has lanes
                                                             for t:  x.tile[t, lanes] = x[lanes, t]          # turned, in registers
        for t:  for j in lanes:                              for t:  for i in lanes:
            state[t, j] = state[t - 1, j] + x[i, t, j]           state[t, i] = state[t - 1, i] + x.tile[t, i]
        for t:  for j in lanes:  y[i, t, j] = state[t, j]    for t:  y[lanes, t] = state[lanes, t]             # turned back

The states of a block stay in the cache for what reads them, where that is one operation, which has them in another order. Scans after
and beside each other that share columns are computed in one block (forms/scans.py), whatever stands between them. Steps are taken in
their order, so that no bit depends on the schedule. Where steps hold reductions, as those of recurrent networks do, each is computed in
tiles that stay in registers, from weights that are copied once, before the first step, where that is quicker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ...base import dataclass, replace
from ...ir.expr import IterVar
from ...schedule import Stage
from ...schedule.model.inlining import expand_inlined
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.scan import ScanOp
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..accesses import contiguous_axes, dimension, max_reads, op_loads
from ..forms.scans import SharedColumns, share_columns
from ..loops import share_loops, split_longer
from ..operations import is_expensive, is_plain
from .lanes import floor_power, vectors_of_a_chain
from .streams import LINES
from .sums import sums_of_a_step
from .threads import worth_threads
from .transposes import MAX_TILE, find_readers, find_strided_reads, transpose_rows

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["scan"]


@dataclass(frozen=True)
class _Block:
    """Stages that are computed for a block of the output's columns. ends: what computes first and following steps of the scans.
    stored: what is computed element by element for a block, and for steps, and not where it is read."""

    scans: tuple[ScanOp, ...]
    ends: tuple[Operation, ...]
    stored: tuple[Operation, ...]
    shared: SharedColumns


def scan(group: Group) -> None:
    """The rule. The group's parts are what is computed step by step, with the scans that share the anchor's columns and what stands
    between them, its output what alone reads the states, or the scan."""
    op, s = group.anchor, group.s
    scans = tuple(cast("ScanOp", part) for part in (*group.parts, op) if part.is_stepwise)
    if any(constant_extent(axis) == 0 for each in scans for dims in each.dimensions for axis in dims):
        return
    steps = {step for each in scans for step in each.steps(group.parts)}
    if not all(map(is_plain, steps)) or group.output is op and op.num_outputs > 1:
        _schedule_steps(group)
        return
    ends = tuple(dict.fromkeys(tensor.op for each in scans for tensor in each.input_tensors))
    others = [part for part in group.parts if part not in ends and part not in scans]
    often = [part for part in others if _is_read_often(group.s[part], scans, part in steps)]
    stored = tuple(part for part in others if is_expensive(part) or part in often)
    for part in others:
        if part not in stored:
            s[part].compute_inline()
    if group.output is op:
        for end in ends if len(op.dimensions[0]) > 1 else ():
            _vectorize_step(group, s[end], len(end.axis) - 1)
        return  # which alone may write its states
    block = _Block(scans, ends, stored, share_columns(group.output, op, group.parts))
    if group.output.axis[-1] in block.shared.columns:
        _schedule_columns(group, block)
    else:
        _schedule_rows(group, block)


def _is_read_often(stage: Stage, scans: Sequence[ScanOp], in_step: bool) -> bool:
    """Return whether several stages but first steps read a stage, or one reads several of its elements, those of one step apart: inlined,
    one into the other, such would be computed more often with each."""
    first = {tensor.op for scan in scans for tensor in scan.init}
    readers = [reader.op for reader in stage.readers if reader.op not in first]
    return len(readers) > 1 or not in_step and bool(readers) and max_reads(stage.op, readers) > 1


def _schedule_steps(group: Group) -> None:
    """Schedule a scan whose steps hold reductions, or which has several states: in each step one operation after the
    other, reductions in tiles of registers, the others in lanes."""
    for part in group.parts:
        if is_plain(part):
            _vectorize_step(group, group.s[part], len(part.axis) - 1)
        elif part.reduction is not None and part.axis:
            sums_of_a_step(replace(group, anchor=part, output=part, parts=(), held=frozenset(part.axis[:1])))


def _schedule_columns(group: Group, block: _Block) -> None:
    """Schedule scans whose neighbouring elements are not steps."""
    s, stage, shared = group.s, group.s[group.output], block.shared
    *axes, last = stage.op.axis
    outer, lane = [axis for axis in axes if axis in shared.columns], last
    width = _columns(group, block)
    if width is not None:
        wide, lane = stage.split(lane, factor=width)
        outer.append(wide)
    if outer:
        _attach_scans(group, block, stage, outer, [*(axis for axis in axes if axis not in shared.columns), lane])
    stage.vectorize(split_longer(stage, lane, width or constant_extent(lane), _lanes(group))[1])
    for each in (*block.ends, *block.stored):
        _vectorize_step(group, s[each], shared.dimension(each, last))


def _columns(group: Group, block: _Block) -> int | None:
    """Return the number of columns that a block has; None for all."""
    element, extent = group.output.output(0).dtype.bytes, constant_extent(group.output.axis[-1])
    states = [constant_extent(dims[0]) or group.machine.l2 for each in block.scans for dims in each.dimensions]
    least = LINES * group.machine.line // element
    most = group.machine.l2 // 2 // (sum(states) * element)
    if extent is not None and extent <= max(most, least):
        return None
    width = max(most // least * least, least)
    return width if extent is None else -(-extent // (-(-extent // width) * least)) * least


def _schedule_rows(group: Group, block: _Block) -> None:
    """Schedule scans whose neighbouring elements are steps:

    as many rows at a time as a vector has lanes, turned on the way in and on the way out.
    """
    s, stage = group.s, group.s[group.output]
    size = min(floor_power(group.machine.lanes(group.anchor.output(0).dtype.bits)), MAX_TILE)
    *axes, last = stage.op.axis
    columns = block.shared.columns
    column = max(columns, key=lambda axis: (min(constant_extent(axis) or size, size), axes.index(axis)))
    if size < 2 or (constant_extent(column) or size) < size or (constant_extent(last) or size) < size:
        return
    places = {op: block.shared.dimension(op, column) for op in (*block.ends, *block.scans)}
    rows, row = stage.split(column, factor=size)
    outer = [*(axis for axis in columns if axis is not column), rows]
    steps, step = stage.split(last, factor=size)
    inner = [*(axis for axis in axes if axis not in columns), steps, row, step]
    loop = _attach_scans(group, block, stage, outer, inner)
    across = find_strided_reads(
        s,
        block.ends,
        {end: s[end].op.axis[places[end]] for end in block.ends},
        {end: s[end].op.axis[0] for end in block.ends},
    )
    for source, at in across.items():
        transpose_rows(s, source, at, block.ends, size).compute_at(stage, loop)
    for end in block.ends:
        _vectorize_step(group, s[end], places[end])
    for each in block.stored:
        _vectorize_step(group, s[each], len(each.axis) - 1)
    for tensor in _transposed_states(group, block, last):
        tile = s[s.cache_read(tensor, "local", find_readers(s, tensor, [group.output]))]
        tile.compute_at(stage, steps)
        lane = tile.op.axis[places[tensor.op]]
        tile.reorder(*(axis for axis in tile.op.axis if axis is not lane), lane)
        tile.unroll(tile.op.axis[0])
        tile.vectorize(lane)
    stage.unroll(row)
    stage.vectorize(step)


def _transposed_states(group: Group, block: _Block, last: IterVar) -> list[Tensor]:
    """The states of which the output reads, along its rows, one step after the other."""
    loads = list(collect_loads(expand_inlined(group.s[group.s[group.output].op])))
    tensors = [tensor for each in block.scans for tensor in each.outputs]
    transposed: list[Tensor] = []
    for tensor in tensors:
        steps = [dimension(load.indices[0]) for load in loads if load.producer is tensor]
        if len(steps) == 1 and abs(steps[0].steps.get(last, 0)) == 1 and not steps[0].rest:
            transposed.append(tensor)
    return transposed


def _attach_scans(
    group: Group, block: _Block, stage: Stage, outer: Sequence[IterVar], inner: Sequence[IterVar]
) -> IterVar:
    """Has scans, and what is stored between them, computed within each iteration of the outer loops, which threads share."""
    stage.reorder(*outer, *inner)
    loop = share_loops(stage, outer, worth_threads(group.output.axis, 1 + len(group.parts)))
    steps = {step for each in block.scans for step in each.steps(group.parts)}
    for op in (*block.scans, *(op for op in block.stored if op not in steps)):
        group.s[op].compute_at(stage, loop)
    return loop


def _vectorize_step(group: Group, stage: Stage, dimension: int) -> None:
    """A stage of a step, in vectors over a dimension of the states whose neighbours lie side by side in what it reads."""
    axes = list(stage.op.axis)
    lane = axes[dimension]
    if not any(lane in contiguous_axes(load) for load in op_loads(stage.op)):
        return
    stage.reorder(*(axis for axis in axes if axis is not lane), lane)
    stage.vectorize(split_longer(stage, lane, constant_extent(lane), _lanes(group))[1])


def _lanes(group: Group) -> int:
    """Columns of a step."""
    return group.machine.lanes(group.anchor.output(0).dtype.bits) * vectors_of_a_chain(group.machine)
