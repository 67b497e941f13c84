"""Sums of products of two tensors as products of matrices, for the rules that schedule them.

    C[a, b, c, d] = sum over e, f of A[a, e, b, f] * B[f, d, e, c]       rows a, b; columns c, d; sum over e, f

Columns are those of the result's last axes that one side alone reads: they lie side by side in what is stored. The other axes of
that side are loops around, as are the axes that both sides read. (Springer and Bientinesi 2018, for tensors of any order.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from ..ir.expr import Expr, IterVar, ProducerLoad
from ..ir.ops import const
from ..te.factors import factors
from ..te.operation import Operation
from .operations import axes_in, axes_of, contiguous, fixed_extent, loads_of, size_of, source

if TYPE_CHECKING:
    from ..schedule import Stage
    from .groups import Group

__all__ = ["Contraction", "as_matrix", "contraction_of", "copied", "flat", "upstream"]

LONG_ROW = 64
"""Columns from which on rows of the result need not lie behind each other."""


@dataclass(frozen=True)
class Contraction:
    """a: what is read by rows, b: by columns. Axes of the operation: outer are loops around; columns are in the order of the
    result, and rows where columns are few; else rows are in the order in which a is stored."""

    a: ProducerLoad
    b: ProducerLoad
    outer: tuple[IterVar, ...]
    rows: tuple[IterVar, ...]
    columns: tuple[IterVar, ...]
    summed: tuple[IterVar, ...]
    mirrored: bool = False
    """Whether rows and columns are one axis each of which one side of the diagonal is computed, and stored on both."""


def contraction_of(op: Operation, read: Callable[[Expr], Expr] = lambda factor: factor) -> Contraction | None:
    """How an operation is a sum of products of elements of two tensors, or of one at two places, wherever they are read, with rows
    that one of them alone is read along and columns that the other is; None where it is not. read: what a factor is an element of,
    where it need not be one itself."""
    axes = {*op.axis, *op.reduce_axis}
    loads = [load for load in map(read, factors(op) or ()) if isinstance(load, ProducerLoad)]
    if len(loads) < 2 or not op.axis or not all(map(fixed_extent, axes)):
        return None
    a, b = loads if op.axis[-1] in axes_of(loads[1]) else loads[::-1]
    left, right = axes_of(a), axes_of(b)
    columns = tuple(takewhile(lambda axis: axis in right - left, reversed(op.axis)))[::-1]
    rows = tuple(axis for axis in op.axis if axis in left - right)
    if size_of(columns) >= LONG_ROW:  # whole lines of the result wherever they are: what is read decides the order
        rows = tuple(sorted(rows, key=lambda axis: _place_in(a, axis)))
    if not left & right >= {*op.reduce_axis} or not left | right >= axes or not columns or not rows:
        return None
    beside = contiguous(b)
    outer = tuple(sorted((axis for axis in op.axis if axis not in rows and axis not in columns), key=lambda axis: axis in beside))
    return Contraction(a, b, outer, rows, columns, op.reduce_axis)


def _place_in(load: ProducerLoad, axis: IterVar) -> int:
    """The last dimension that an axis indexes: loops in the order of these read what lies side by side one after the other."""
    return max(at for at, index in enumerate(load.indices) if axis in axes_in(index))


def as_matrix(sums: Stage, found: Contraction, anchor: Operation) -> tuple[list[int], list[list[int]]]:
    """Gives the memory of the sums the outer dimensions, rows as one and columns as one; returns the places of outer axes, and of
    those of rows and of columns, among the anchor's."""
    order = [anchor.axis.index(axis) for axis in found.outer]
    across = [[anchor.axis.index(axis) for axis in axes] for axes in (found.rows, found.columns)]
    extents = [fixed_extent(axis) for axis in anchor.axis]

    def places(*at: Expr) -> list[Expr]:
        return [*(at[place] for place in order), *(flat([(at[place], extents[place]) for place in several]) for several in across)]

    if [[place] for place in range(len(extents))] != [*([place] for place in order), *across]:
        sums.transform_layout(places)
    return order, across


def copied(group: Group, sums: Stage, load: ProducerLoad, scope: str = "global") -> tuple[Stage, list[IterVar]]:
    """A copy of one side by what is read at each of the sum's axes, and those of the anchor's axes that it has; it has none that
    the sum, being a copy itself, knows to be of one value."""
    op, tensor = sums.op, group.s[source(load)].op.output(0)
    read = axes_of(next(each for each in loads_of(op) if each.producer is tensor))
    pairs = zip((*op.axis, *op.reduce_axis), (*group.anchor.axis, *group.anchor.reduce_axis), strict=True)
    axes = [axis for own, axis in pairs if own in read]
    return group.s[group.s.cache_read(source(load), scope, [sums], reindex=True)], axes


def upstream(group: Group, load: ProducerLoad) -> list[Operation]:
    """The heads that an operand is computed from."""
    above: dict[Operation, None] = {}
    stack = [source(load).op]
    while stack:
        op = stack.pop()
        if op in group.heads and op not in above:
            above[op] = None
            stack.extend(tensor.op for tensor in op.input_tensors)
    return list(above)


def flat(digits: Sequence[tuple[Expr, int]]) -> Expr:
    """The number that indices make, each with its extent."""
    number = const(0, "int32") if not digits else digits[0][0]
    for index, extent in digits[1:]:
        number = number * extent + index
    return number
