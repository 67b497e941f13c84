"""Sums into cells that data chooses: each element adds to its own cell, rather than each cell asking all elements.

    H[b] = sum over i of w[i], where place[i] == b

    for chunk (in parallel):                           # each has cells of its own
        for i:  for b:  if place[i] == b:  H.rf[chunk, b] += w[i]
    for b:  for chunk:  H[b] += H.rf[chunk, b]

The loop over b inside is none (ir/passes/common/solved_loops.py): place[i] is what b is. In a chunk elements are added in their
order, as declared.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...ir.combine import is_sum
from ...ir.expr import EQ, Expr, IfThenElse, IterVar, ProducerLoad, Reduce, Select
from ...ir.ops import conjuncts, is_const
from ...ir.visit import post_order
from ...te.operation import Operation
from ..accesses import find_axes
from ..operations import fixed_extent
from .injective import sweep, worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["cells_of", "into_cells"]

FEW = 16
"""Cells that may as well ask all elements, in vectors."""
ELEMENTS = 4
"""Elements for each cell of a chunk below which adding up the chunks costs as much as what they share."""


def cells_of(op: Operation) -> list[IterVar]:
    """The data axes of a reduction whose value the condition gives, for each element, in terms of data."""
    reduction = op.reduction
    cells: list[IterVar] = []
    for part in _conditions(reduction) if reduction is not None else ():
        for axis, value in ((part.a, part.b), (part.b, part.a)) if isinstance(part, EQ) else ():
            from_data = any(isinstance(node, ProducerLoad) for node in post_order(value))
            if (
                isinstance(axis, IterVar)
                and axis in op.axis
                and axis not in find_axes(value)
                and from_data
                and axis not in cells
            ):
                cells.append(axis)
    return cells


def _conditions(reduction: Reduce) -> list[Expr]:
    """What has to hold for a term to change anything: the sum's own condition, or that of a choice between a whole number and 0."""
    source, choice = reduction.sources[0], list[Expr]()
    if (
        isinstance(source, IfThenElse | Select)
        and source.dtype.is_integer
        and is_const(source.false_value, 0)
        and is_sum(reduction)
    ):
        choice = conjuncts(source.condition)
    return [*conjuncts(reduction.condition), *choice]


def into_cells(group: Group) -> bool:
    """Schedules a group whose anchor is such a sum; returns whether it is one."""
    s, anchor = group.s, group.anchor
    cells = cells_of(anchor)
    size = prod(map(fixed_extent, cells))
    if not cells or size <= FEW or group.parts or anchor.num_outputs > 1:
        return False
    group.inline_cheap_heads()
    first, chunks = anchor.reduce_axis[0], group.machine.cores
    summed, in_order = anchor, 0
    many = prod(map(fixed_extent, anchor.reduce_axis)) >= ELEMENTS * chunks * size and fixed_extent(first) >= chunks
    if chunks > 1 and many and worth_threads(anchor.reduce_axis, ELEMENTS):
        chunk, _ = s[anchor].split(first, nparts=chunks)
        summed, in_order = s.rfactor(anchor.output(0), chunk).op, 1  # whose reduce axes end with the rest of the first
        s[summed].parallel(s[summed].op.axis[0])
        *data, last = s[anchor].op.axis
        s[anchor].reorder(*data, *s[anchor].op.reduce_axis, last)
        s[anchor].vectorize(last)
    stage = s[summed]
    places = [at - len(anchor.axis) for at, axis in enumerate(anchor.axis) if axis in cells]
    chosen = [stage.op.axis[at] for at in places]
    others = [axis for axis in stage.op.axis[len(stage.op.axis) - len(anchor.axis) :] if axis not in chosen]
    reduced = stage.op.reduce_axis
    stage.reorder(*reduced[len(reduced) - in_order :], *reduced[: len(reduced) - in_order], *others, *chosen)
    if group.output is not anchor:
        sweep(group, group.output)
    return True
