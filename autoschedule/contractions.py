"""Sums of products of two tensors as products of matrices, for the rules that schedule them.

    C[a, b, c, d] = sum over e, f of A[a, e, b, f] * B[f, d, e, c]       rows a, b; columns c, d; sum over e, f

Columns are those of the result's last axes that one side alone reads: they lie side by side in what is stored. The other axes of
that side are loops around, as are the axes that both sides read. (Springer and Bientinesi 2018, for tensors of any order.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import gcd
from typing import TYPE_CHECKING

from ..ir.cached import cached_property
from ..ir.expr import Cast, Expr, IntImm, IterVar, ProducerLoad
from ..ir.ops import const
from ..te.factors import factors, guarded_load
from ..te.operation import Operation
from ..te.tensor import Tensor
from ..te.tf32 import within_tf32
from .accesses import contiguous_axes, dimension, find_axes, load_axes, op_loads, row_steps, source
from .loops import fused
from .operations import fixed_extent, size_of

if TYPE_CHECKING:
    from ..schedule import Stage
    from .groups import Group

__all__ = [
    "Contraction",
    "as_matrix",
    "contraction_of",
    "converted",
    "copied",
    "flat",
    "in_matrices",
    "matrix_axes",
    "unguarded",
    "upstream",
]

SECTOR = 32
"""Bytes of memory that a GPU moves at once."""
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
    guarded: tuple[ProducerLoad, ...] = ()
    """Of a and b those that are read under a guard."""
    mirrored: bool = False
    """Whether rows and columns are one axis each of which one side of the diagonal is computed, and stored on both."""

    def is_along(self, load: ProducerLoad) -> bool:
        """As _along says of a side."""
        return self._along[load is not self.a]

    @cached_property
    def _along(self) -> tuple[bool, bool]:
        return self._is_along(self.a), self._is_along(self.b)

    def _is_along(self, load: ProducerLoad) -> bool:
        """Whether what a side reads is better read along the sum than along the side: whether more of a sector of memory is then of
        use, or as much and for longer."""

        def use(axis: IterVar) -> tuple[float, int]:
            step, extent = abs(row_steps(load).get(axis, 0)), fixed_extent(axis)
            return (min(extent, SECTOR / (step * load.dtype.bytes)) if step else 0, extent if step else 0)

        side = [axis for axis in (self.rows if load is self.a else self.columns) if axis in load_axes(load)]
        return use(self.summed[-1]) > max(map(use, side), default=(0, 0))

    def neighbours(self, load: ProducerLoad) -> int:
        """Into runs of how many elements, all side by side, what a side reads can be cut: along the sum, or along the side."""
        axes = [
            axis
            for axis in (self.summed if self.is_along(load) else self.rows if load is self.a else self.columns)
            if fixed_extent(axis) > 1
        ]
        together = 1
        for axis, index, extent in zip(
            reversed(axes), reversed(load.indices), reversed(source(load).shape), strict=False
        ):
            at = dimension(index)
            used = {part: step for part, step in at.steps.items() if fixed_extent(part) > 1}
            if at.rest or used != {axis: 1} or not isinstance(extent, IntImm):
                break
            if extent.value != fixed_extent(axis):
                return together * gcd(fixed_extent(axis), extent.value)
            together *= extent.value
        return together


def contraction_of(op: Operation, read: Callable[[Expr], Expr] = lambda factor: factor) -> Contraction | None:
    """How an operation is a sum of products of elements of two tensors, or of one at two places, wherever they are read, with rows
    that one of them alone is read along and columns that the other is; None where it is not. read: what a factor is an element of,
    where it need not be one itself."""
    axes = {*op.axis, *op.reduce_axis}
    both = factors(op) or ()
    loads = [load for load in map(read, both) if isinstance(load, ProducerLoad)]
    if len(loads) < 2 or not op.axis or not all(map(fixed_extent, axes)):
        return None
    a, b = loads if op.axis[-1] in load_axes(loads[1]) else loads[::-1]
    left, right = load_axes(a), load_axes(b)
    columns = tuple(takewhile(lambda axis: axis in right - left, reversed(op.axis)))[::-1]
    rows = tuple(axis for axis in op.axis if axis in left - right)
    if size_of(columns) >= LONG_ROW:  # whole lines of the result wherever they are: what is read decides the order
        rows = tuple(sorted(rows, key=lambda axis: _place_in(a, axis)))
    single = {axis for axis in op.axis if fixed_extent(axis) == 1}  # indices may have its value instead
    if not left & right >= {*op.reduce_axis} or not left | right >= axes - single or not columns or not rows:
        return None
    if source(a) is source(b) and size_of((*rows, *columns)) == 1:  # one row, read twice
        return None
    beside = contiguous_axes(b)
    outer = tuple(
        sorted((axis for axis in op.axis if axis not in rows and axis not in columns), key=lambda axis: axis in beside)
    )
    guarded = tuple(load for load in loads if any(guarded_load(factor) is load for factor in both))
    return Contraction(a, b, outer, rows, columns, op.reduce_axis, guarded)


def unguarded(factor: Expr) -> Expr:
    """What is read under a guard of the axes that it is read along."""
    load = guarded_load(factor)
    return load if load is not None and find_axes(factor) == {*load_axes(load)} else factor


def converted(factor: Expr) -> Expr:
    """What is converted once, or rounded to TF32."""
    return factor.value if isinstance(factor, Cast) else within_tf32(factor)


def _place_in(load: ProducerLoad, axis: IterVar) -> int:
    """The last dimension that an axis indexes: loops in the order of these read what lies side by side one after the other."""
    return max(at for at, index in enumerate(load.indices) if axis in find_axes(index))


def as_matrix(sums: Stage, found: Contraction, anchor: Operation) -> tuple[list[int], list[list[int]]]:
    """Gives the memory of the sums the outer dimensions, rows as one and columns as one; returns the places of outer axes, and of
    those of rows and of columns, among the anchor's."""
    order = [anchor.axis.index(axis) for axis in found.outer]
    across = [[anchor.axis.index(axis) for axis in axes] for axes in (found.rows, found.columns)]
    extents = [fixed_extent(axis) for axis in anchor.axis]

    def places(*at: Expr) -> list[Expr]:
        return [
            *(at[place] for place in order),
            *(flat([(at[place], extents[place]) for place in several]) for several in across),
        ]

    if [[place] for place in range(len(extents))] != [*([place] for place in order), *across]:
        sums.transform_layout(places)
    return order, across


def copied(group: Group, sums: Stage, load: ProducerLoad, scope: str = "global") -> tuple[Stage, list[IterVar]]:
    """A copy of one side by what is read at each of the sum's axes, and those of the anchor's axes that it has; it has none that
    the sum, being a copy itself, knows to be of one value."""
    op, tensor = sums.op, group.s[source(load)].op.output(source(load).value_index)
    read = load_axes(next(each for each in op_loads(op) if each.producer is tensor))
    pairs = zip((*op.axis, *op.reduce_axis), (*group.anchor.axis, *group.anchor.reduce_axis), strict=True)
    axes = [axis for own, axis in pairs if own in read]
    return group.s[group.s.cache_read(source(load), scope, [sums], reindex=True)], axes


def in_matrices(
    group: Group, found: Contraction, padding: Sequence[int], turned: Sequence[bool], widened: str | bool = False
) -> list[Tensor]:
    """The anchor as a product of matrices, those of rows and of columns being computed from what the group reads, and the result
    being read by the group's output. padding, turned, widened: as `s.matricize` takes them. Returns the three."""
    s = group.s
    shape = s[group.anchor].op
    where = dict(zip(group.anchor.axis, shape.axis, strict=True))
    matrices = s.matricize(
        shape.output(0),
        [where[axis] for axis in found.rows],
        [where[axis] for axis in found.columns],
        padding,
        turned,
        widened,
    )
    for head in (head for load in (found.a, found.b) for head in upstream(group, load)):
        if s[head].attach_type != "inline":
            s[head].compute_inline()
    if group.output is not group.anchor:
        s[group.anchor].compute_inline()
    return matrices


def matrix_axes(stage: Stage, found: Contraction, anchor: Operation) -> tuple[list[IterVar], IterVar, IterVar]:
    """The loops of what has an anchor's axes as those of matrices: the outer ones, that over rows and that over columns."""
    axes = list(stage.op.axis)
    outer, rows, columns = (
        [axes[anchor.axis.index(axis)] for axis in part] for part in (found.outer, found.rows, found.columns)
    )
    stage.reorder(*outer, *rows, *columns)
    return outer, fused(stage, rows), fused(stage, columns)


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
