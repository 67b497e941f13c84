"""Softmax, norms and whatever else looks at each row several times: rows in parallel, each of them while it is in the cache.

    rows that lie side by side                       rows across (softmax over the channels of an image)

    for row in parallel (the other axes, fused):     for i, j.outer in parallel:
        largest, across lanes                            for k:  for j.inner in lanes:  largest[j.inner] = max(...)
        for k in vectors:  e[k] = exp(x - largest)       for k:  for j.inner in lanes:  e[k, j.inner] = ...
        sum, across lanes                                for k:  for j.inner in lanes:  sum[j.inner] += ...
        for k in vectors:  y = e[k] / sum                for k:  for j.inner in lanes:  y = ...

The parts of such an operator are numbers for each row and functions of each element of it; those of which a row does not fit
into the cache are computed again where they are read. Of rows that are declared in blocks, each block is such a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ...ir.expr import Call, IterVar
from ...ir.visit import post_order
from ...schedule import Stage
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..operations import elements, inlined_into
from .injective import worth_threads
from .lanes import across_lanes, fused, length
from .streams import stream, streams

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["rows"]

VECTORS = 4
"""Vectors side by side where rows lie across."""
BLOCK = 4096
"""Elements of a result that is stored in blocks, for threads to share."""


def rows(group: Group) -> None:
    """The rule. The anchor's attribute row_axes says which axes a row has; that of a part, block, that it
    is made for each block of a row."""
    s, anchor, stage = group.s, group.anchor, group.s[group.output]
    group.inline_cheap_heads()
    if group.output is not anchor:
        s[anchor].compute_inline()
    places: Sequence[int] = anchor.attrs["row_axes"]
    inside = [stage.op.axis[at] for at in places]
    block = next((part for part in group.parts if "block" in part.attrs), None)
    if any(constant_extent(axis) == 0 for axis in stage.op.axis):
        return
    if block is not None:
        _in_blocks(group, block)
    elif inside == list(stage.op.axis[len(stage.op.axis) - len(inside):]):
        _side_by_side(group, inside)
    else:
        _across(group, inside)


def _side_by_side(group: Group, inside: Sequence[IterVar]) -> None:
    stage = group.s[group.output]
    outer = [axis for axis in stage.op.axis if axis not in inside]
    threads = _worth(group)
    row = fused(stage, outer) if outer else None
    if row is not None and threads:
        stage.parallel(row)
    for part in group.parts:
        stages = _part_of_row(group, part, len(outer))
        if row is not None:
            for each in stages:
                each.compute_at(stage, row)
            _ask_ahead(group, part, stages[0])
    if streams(group.output):
        last = fused(stage, inside)
        stage.vectorize(last)
        stream(stage, last)
    else:
        _vectors(group, stage, inside)


def _part_of_row(group: Group, part: Operation, outer: int) -> list[Stage]:
    """The stages of a part, in order, their loops in vectors. outer: how many of its axes say which row it is."""
    stage = group.s[part]
    if part.reduce_axis:
        return across_lanes(group.s, part, part.reduce_axis, group.machine)
    if len(part.axis) > outer:
        _vectors(group, stage, part.axis[outer:])
    return [stage]


def _ask_ahead(group: Group, part: Operation, stage: Stage) -> None:
    """Where a part is slow to compute, memory would be idle meanwhile: lets each step of it ask for its part of the next row."""
    size = elements(group.output)
    bits = _bits(group)
    if size is None or size * bits // 8 <= group.machine.l2 or not _is_slow(part):
        return
    step = next((axis for axis in stage.leaf_iter_vars if axis not in stage.op.axis and stage.attr(axis).kind == "serial"), None)
    for tensor in stage.op.input_tensors:
        if step is not None and tensor.op.is_given and len(tensor.shape) == len(group.output.axis):
            stage.prefetch(tensor, step, 1, around=True)


def _is_slow(part: Operation) -> bool:
    """Whether an element of it takes a function of mathematics, under a reduction too."""
    nodes = (node for value in part.values for node in post_order(value))
    return any(isinstance(node, Call) and node.name in ("exp", "tanh", "erf", "sigmoid", "log", "pow") for node in nodes)


def _across(group: Group, inside: Sequence[IterVar]) -> None:
    """Lanes over the last axis, which is none of the row's."""
    s, stage = group.s, group.s[group.output]
    lanes = group.machine.lanes(_bits(group)) * VECTORS
    threads = _worth(group)
    *outer, last = [axis for axis in stage.op.axis if axis not in inside]
    if (constant_extent(last) or lanes + 1) > lanes:
        wide, last = stage.split(last, factor=lanes)
        outer.append(wide)
    stage.reorder(*outer, *inside, last)
    row = fused(stage, outer) if outer else None
    if row is not None and threads:
        stage.parallel(row)
    stage.vectorize(last)
    size = prod(constant_extent(axis) or group.machine.l2 for axis in inside) * lanes * _bits(group) // 8
    for part in group.parts:
        own, whole = s[part], len(part.axis) == len(stage.op.axis)
        if whole and size > group.machine.l2 // 2:
            own.compute_inline()
            continue
        if row is not None:
            own.compute_at(stage, row)
        places: Sequence[int] = group.anchor.attrs["row_axes"]
        within = [part.axis[at] for at in places] if whole else list(part.reduce_axis)
        *which, lane = [axis for axis in part.axis if axis not in within]
        own.reorder(*which, *within, lane)
        own.vectorize(lane)


def _in_blocks(group: Group, block: Operation) -> None:
    """The blocks of all rows are shared by threads, then the elements of the result. block: what is known of each."""
    s, stage, home = group.s, group.s[group.output], group.s[block]
    loop = fused(home, home.op.axis)
    home.parallel(loop)
    for part in group.parts:
        if not part.reduce_axis:
            continue
        stages = across_lanes(s, part, part.reduce_axis, group.machine)
        if home.reads(s[part]):
            for each in stages:
                each.compute_at(home, loop)
    outer, inner = stage.split(stage.op.axis[-1], factor=BLOCK)
    stage.parallel(fused(stage, [*stage.op.axis[:-1], outer]))
    stage.vectorize(inner)
    stream(stage, inner)


def _vectors(group: Group, stage: Stage, axes: Sequence[IterVar]) -> None:
    """All of these axes in vectors, several at a time."""
    axis, size, several = fused(stage, axes), length(axes), VECTORS * group.machine.lanes(_bits(group))
    if size is None or size > several:
        axis = stage.split(axis, factor=several)[1]
    stage.vectorize(axis)


def _bits(group: Group) -> int:
    return max(op.output(0).dtype.bits for op in (*group.parts, group.output))


def _worth(group: Group) -> bool:
    return worth_threads(group.output.axis, 1 + len(group.parts) + len(inlined_into(group.s, group.output)))
