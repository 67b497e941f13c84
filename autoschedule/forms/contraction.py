"""Contractions: sums of products of two tensors, by what they read, as products of matrices.

    C[a, b, c, d] = sum over e, f of A[a, e, b, f] * B[f, d, e, c]       rows a, b; columns c, d; sum over e, f

Columns are those of the result's last axes that one side alone reads: they lie side by side in what is stored. The other axes of
that side are loops around, as are the axes that both sides read. (Springer and Bientinesi 2018, for tensors of any order.)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from math import gcd

from ...base.dataclass import dataclass
from ...ir.expr import Cast, Expr, FloorDiv, FloorMod, IntImm, IterVar, ProducerLoad
from ...ir.lazy_values import cached_property
from ...ir.tf32 import unwrap_tf32
from ...te.factors import factors, guarded_load, strip_casts
from ...te.operation import Operation
from ..accesses import contiguous_axes, dimension, find_axes, load_axes, numeric_shape, op_loads, row_steps, source
from ..operations import fixed_extent, iteration_count

__all__ = [
    "Contraction",
    "is_product",
    "match_contraction",
    "match_product",
    "panel_width",
    "strip_conversion",
    "strip_guard",
]

SECTOR = 32
"""Bytes of memory that a GPU moves at once."""
LONG_ROW = 64
"""Columns from which on rows of the result need not lie behind each other."""


@dataclass(frozen=True)
class Contraction:
    """An operation as a product of matrices.

    a is read by rows, b by columns. Axes of the operation: `outer` are loops around; columns are in the order of the result, and
    rows where columns are few; else rows are in the order in which a is stored.
    """

    a: ProducerLoad
    b: ProducerLoad
    outer: tuple[IterVar, ...]
    rows: tuple[IterVar, ...]
    columns: tuple[IterVar, ...]
    summed: tuple[IterVar, ...]
    guarded: tuple[ProducerLoad, ...] = ()
    """Loads among a and b that are read under a guard."""
    mirrored: bool = False
    """True where rows and columns are one axis each, and one side of the diagonal is computed and stored on both."""

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """The numbers of rows, columns, terms of a sum, and such products."""
        parts = (self.rows, self.columns, self.summed, self.outer)
        rows, columns, terms, batch = map(iteration_count, parts)
        return rows, columns, terms, batch

    def is_read_along_sum(self, load: ProducerLoad) -> bool:
        """Return whether a side is better read along the sum than along its rows or columns."""
        return self._favours[load is not self.a]

    @cached_property
    def _favours(self) -> tuple[bool, bool]:
        return self._favours_sum(self.a), self._favours_sum(self.b)

    def _favours_sum(self, load: ProducerLoad) -> bool:
        """Return whether more of a sector of memory is of use along the sum, or as much and for longer."""

        def use(axis: IterVar) -> tuple[float, int]:
            step, extent = abs(row_steps(load).get(axis, 0)), fixed_extent(axis)
            return (min(extent, SECTOR / (step * load.dtype.bytes)) if step else 0, extent if step else 0)

        side = [axis for axis in (self.rows if load is self.a else self.columns) if axis in load_axes(load)]
        return use(self.summed[-1]) > max(map(use, side), default=(0, 0))

    def neighbours(self, load: ProducerLoad) -> int:
        """The greatest length of runs of neighbours that a side can be divided into: along the sum, or along the side."""
        return self._neighbours[load is not self.a]

    @cached_property
    def _neighbours(self) -> tuple[int, int]:
        return self._count_neighbours(self.a), self._count_neighbours(self.b)

    def _count_neighbours(self, load: ProducerLoad) -> int:
        axes = [
            axis
            for axis in (self.summed if self.is_read_along_sum(load) else self.rows if load is self.a else self.columns)
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


def match_contraction(op: Operation, read: Callable[[Expr], Expr] = lambda factor: factor) -> Contraction | None:
    """Match a sum of products of elements of two tensors, or of one at two indices, with rows that one of them alone is read along
    and columns that the other is.

    read: maps a factor to the load that it is an element of. Returns None for any other operation.
    """
    axes = {*op.axis, *op.reduce_axis}
    both = factors(op) or ()
    loads = [load for load in map(read, both) if isinstance(load, ProducerLoad)]
    if len(loads) < 2 or not op.axis or not all(map(fixed_extent, axes)):
        return None
    a, b = loads if op.axis[-1] in load_axes(loads[1]) else loads[::-1]
    left, right = load_axes(a), load_axes(b)
    columns = tuple(takewhile(lambda axis: axis in right - left, reversed(op.axis)))[::-1]
    rows = tuple(axis for axis in op.axis if axis in left - right)
    if (
        iteration_count(columns) >= LONG_ROW
    ):  # whole lines of the result wherever they are: what is read decides the order
        rows = tuple(sorted(rows, key=lambda axis: _last_dimension(a, axis)))
    single = {axis for axis in op.axis if fixed_extent(axis) == 1}  # indices may have its value instead
    if not left & right >= {*op.reduce_axis} or not left | right >= axes - single or not columns or not rows:
        return None
    if source(a) is source(b) and iteration_count((*rows, *columns)) == 1:  # one row, read twice
        return None
    beside = contiguous_axes(b)
    outer = tuple(
        sorted((axis for axis in op.axis if axis not in rows and axis not in columns), key=lambda axis: axis in beside)
    )
    guarded = tuple(load for load in loads if any(guarded_load(factor) is load for factor in both))
    return Contraction(a, b, outer, rows, columns, op.reduce_axis, guarded)


def strip_guard(factor: Expr) -> Expr:
    """The load that a factor is, without a guard on the axes that it is read along."""
    load = guarded_load(factor)
    return load if load is not None and find_axes(factor) == {*load_axes(load)} else factor


def strip_conversion(factor: Expr) -> Expr:
    """The load that a factor is, before it is converted once, or rounded to TF32."""
    return factor.value if isinstance(factor, Cast) else unwrap_tf32(factor)


def is_product(op: Operation) -> bool:
    """Return whether an operation is a product of matrices."""
    return match_product(op) is not None


def match_product(op: Operation) -> Contraction | None:
    """Match a sum of a[.., i, k] * b[.., k, j] over k, either of the two transposed or both, each of them converted or not, for the last
    two axes i and j, of whatever extents; or of b packed, b[j // w, k, j % w]. Returns None for any other operation."""
    loads, both = op_loads(op), factors(op)
    if both is None or len(op.reduce_axis) != 1 or len(op.axis) < 2 or len(loads) != 2:
        return None
    if loads[0].producer is loads[1].producer or (*map(strip_casts, both),) != loads:
        return None
    *batch, i, j = op.axis
    (k,) = op.reduce_axis
    a, b = loads
    if not _is_matrix(a, batch, i, k) or not (_is_matrix(b, batch, j, k) or panel_width(b, j)):
        return None
    return Contraction(a, b, tuple(batch), (i,), (j,), (k,))


def _is_matrix(load: ProducerLoad, batch: list[IterVar], outer: IterVar, k: IterVar) -> bool:
    before, last = load.indices[:-2], load.indices[-2:]
    return (
        len(last) == 2
        and (last[0] is outer and last[1] is k or last[0] is k and last[1] is outer)
        and len(before) <= len(batch)
        and all(
            isinstance(index, IntImm) or index is axis
            for index, axis in zip(before, batch[len(batch) - len(before) :], strict=True)
        )
    )


def panel_width(load: ProducerLoad, column: IterVar) -> int:
    """The width of the panels in which whoever declared a matrix has laid its columns out, b[j // w, k, j % w]; 0 where there are
    none."""
    if len(load.indices) != 3:
        return 0
    panel, _, lane = load.indices
    width = numeric_shape(load.producer, 0)[-1]
    packed = (
        isinstance(panel, FloorDiv)
        and isinstance(lane, FloorMod)
        and panel.a is column
        and lane.a is column
        and isinstance(panel.b, IntImm)
        and isinstance(lane.b, IntImm)
        and panel.b.value == lane.b.value == width
    )
    return width if packed else 0


def _last_dimension(load: ProducerLoad, axis: IterVar) -> int:
    """The last dimension that an axis indexes: loops in the order of these read what lies side by side one after the other."""
    return max(at for at, index in enumerate(load.indices) if axis in find_axes(index))
