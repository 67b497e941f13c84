"""Sums into cells that data chooses: each element adds to its own cell, rather than each cell asking all elements.

    H[b] = sum over i of w[i], where place[i] == b

    for chunk (in parallel):                           # each has cells of its own
        for i:  for b:  if place[i] == b:  H.rf[chunk, b] += w[i]
    for b:  for chunk:  H[b] += H.rf[chunk, b]

The condition may be that of a choice, too, (w[i] if place[i] == b else 0). The loop over b inside is none
(ir/passes/common/solved_loops.py): place[i] is what b is. In a chunk elements are added in their order, as declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from ...ir import EQ, Expr, IterVar, ProducerLoad, Reduce, post_order
from ...ir.analysis.conditional_values import value_or_zero
from ...ir.combine import is_sum
from ...ir.ops import conjuncts
from ...te.operation import Operation
from ..accesses import find_axes
from ..operations import fixed_extent
from ..plan import Candidate
from .injective import sweep
from .threads import worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["find_cells", "schedule_cells"]

FEW = 16
"""Cells that may as well ask all elements, in vectors."""
ELEMENTS = 4
"""Elements for each cell of a chunk below which adding up the chunks costs as much as what they share."""


def find_cells(op: Operation) -> list[IterVar]:
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
    """Return the conditions under which a term changes anything: the sum's own condition, and that of a choice between
    its term and 0. Floats are never -0 in a sum that begins at 0."""
    source, conditions = reduction.sources[0], conjuncts(reduction.condition)
    choice = value_or_zero(source) if is_sum(reduction) and not (source.dtype.is_float and reduction.init) else None
    return conditions if choice is None else [*conditions, *conjuncts(choice[0])]


def schedule_cells(group: Group) -> bool:
    """Schedules a group whose anchor is such a sum; returns whether it is one."""
    anchor = group.anchor
    cells = find_cells(anchor)
    if not cells or prod(map(fixed_extent, cells)) <= FEW or group.parts or anchor.num_outputs > 1:
        return False
    group.choose("cells", [Candidate("a step for each element", partial(_steps, group, cells))])
    return True


def _side_by_side(anchor: Operation, cells: Sequence[IterVar]) -> IterVar | None:
    """The last axis, where it says nothing of which cell is meant: an element adds to several cells in lanes."""
    assert anchor.reduction is not None
    last = anchor.axis[-1]
    asked = {axis for condition in _conditions(anchor.reduction) for axis in find_axes(condition)}
    return last if last not in cells and last not in asked else None


def _steps(group: Group, cells: Sequence[IterVar]) -> None:
    """Schedules the group."""
    s, anchor = group.s, group.anchor
    group.inline_cheap_heads()
    size, first, chunks = prod(map(fixed_extent, cells)), anchor.reduce_axis[0], group.machine.cores
    summed, in_order = anchor, 0
    many = prod(map(fixed_extent, anchor.reduce_axis)) >= ELEMENTS * chunks * size and fixed_extent(first) >= chunks
    if chunks > 1 and many and worth_threads(anchor.reduce_axis, ELEMENTS):
        chunk, _ = s[anchor].split(first, nparts=chunks)
        summed, in_order = s.rfactor(anchor.output(0), chunk).op, 1  # whose reduce axes end with the rest of the first
        s[summed].parallel(s[summed].op.axis[0])
        *data, last = s[anchor].op.axis
        s[anchor].reorder(*data, *s[anchor].op.reduce_axis, last)
        s[anchor].vectorize(last)
    stage, reduced = s[summed], s[summed].op.reduce_axis
    ordered = [*reduced[len(reduced) - in_order :], *reduced[: len(reduced) - in_order]]
    own = stage.op.axis[len(stage.op.axis) - len(anchor.axis) :]
    chosen = [axis for axis, declared in zip(own, anchor.axis, strict=True) if declared in cells]
    lanes = [own[-1]] if _side_by_side(anchor, cells) is not None else []
    others = [axis for axis in own if axis not in chosen and axis not in lanes]
    stage.reorder(*ordered, *others, *chosen, *lanes)
    if lanes:
        stage.vectorize(lanes[0])
    if group.output is not anchor:
        sweep(group, group.output)
