"""Contractions of tensors as products of matrices: the axes of each side are one axis, in panels that are copied.

    C[a, b, c, d] = sum over e, f of A[a, e, b, f] * B[f, d, e, c]

    rows a, b; columns c, d; sum over e, f:   A.panel[ab // 6, e, f, ab % 6], at once
                                              B.panel[cd // 16, e, f, cd % 16], where it is used
                                              C.tile[ab in 6, cd in 16], in registers, stored where it belongs

Columns are those of the result's last axes that one side alone reads: they lie side by side in what is stored. The other axes of
that side are loops around, as are the axes that both sides read. (Springer and Bientinesi 2018, for tensors of any order.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from math import ceil, prod
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...codegen.machine import Machine
from ...ir.expr import Expr, IterVar, ProducerLoad
from ...ir.ops import const
from ...te.operation import Operation
from ..operations import axes_in, contiguous, fixed_extent, is_known, loads_of
from ..plan import Candidate
from .digits import digits_of, in_digits
from .gemm_nest import result_of, sum_up, tasks
from .gemm_plan import Plan, Product, plans
from .injective import worth_threads
from .lanes import fused
from .operands import factors, source, upstream
from .packs import axes_of

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["Contraction", "contraction", "contraction_of"]

SIDE_BY_SIDE, TURNED, APART, FAR = 2.0, 4.0, 14.0, 60.0
"""Cycles that a vector of columns takes to be copied: of elements that lie side by side, along the sum, beside others of the
columns, or beside those of other panels."""
LONG_ROW = 64
"""Columns from which on rows of the result need not lie behind each other."""
LONG = 16
"""Terms of the innermost loop of a sum from which on the loops around it cost little."""
MOST_COST = 2.0
"""How much longer than its multiply-adds a product may take: other sums do not copy."""


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


def contraction_of(op: Operation) -> Contraction | None:
    """How an operation is a sum of products of elements of two tensors, wherever they are read, with rows that one of them alone
    is read along and columns that the other is; None where it is not."""
    axes = {*op.axis, *op.reduce_axis}
    loads = [factor for factor in factors(op) or () if isinstance(factor, ProducerLoad)]
    if len(loads) < 2 or loads[0].producer is loads[1].producer or not op.axis or not all(map(fixed_extent, axes)):
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


def size_of(axes: Sequence[IterVar]) -> int:
    """How many values several axes of known extents have together."""
    return prod(map(fixed_extent, axes))


def contraction(group: Group, otherwise: Callable[[], None]) -> bool:
    """Schedules a group whose anchor is one, or else `otherwise`; does nothing and returns False where it is none, or where copying
    columns would take longer than computing with them."""
    anchor = group.anchor
    if group.parts:
        return False
    found = _cheapest(anchor, group.machine)
    if found is not None:
        group.choose("contraction", [*_ways(group, found), Candidate("as any sum", otherwise)])
        return True
    return _contraction_in_digits(group)


def _contraction_in_digits(group: Group) -> bool:
    """Schedules a group whose anchor is one once its axes are digits; does nothing and returns False where it is none."""
    digits = digits_of(group.anchor)
    if not digits:
        return False
    with group.s.attempt() as attempt:
        split = in_digits(group, digits)
        found = _cheapest(split.anchor, group.machine)
        if found is None:
            group.s.undo(attempt)
            return False
        group.choose("contraction", list(_ways(split, found, digits)))
    return True


def _cheapest(op: Operation, machine: Machine) -> Contraction | None:
    """The contraction that an operation is, with as many of its columns as cost least; None where that costs too much."""
    whole = contraction_of(op)
    if whole is None:
        return None
    found = min(_narrower(whole), key=lambda each: _cost(each, machine))
    return found if _cost(found, machine) <= MOST_COST else None


def _ways(group: Group, found: Contraction, digits: Mapping[int, int] = MappingProxyType({})) -> Iterator[Candidate]:
    """The ways to compute it. digits: of the axes of the result that the anchor has two of each for, by their places."""
    product = Product(size_of(found.rows), size_of(found.columns), size_of(found.summed), size_of(found.outer),
                      group.anchor.output(0).dtype.bits, scattered=True)
    packed = [way for way in plans(product, group.machine) if way.packed]
    if len(found.columns) > 1:
        packed.sort(key=lambda way: _is_full(way, group.machine))
    for way in packed:
        yield Candidate(_description(found, way), partial(_apply, group, found, way, digits))


def _is_full(way: Plan, machine: Machine) -> bool:
    """Whether a tile leaves no register for the addresses that a copy of several axes at once keeps in one: LLVM would give them
    that, and keep a sum in memory."""
    return way.tile.vectors * (way.tile.rows + 1) + 1 >= machine.registers


def _description(found: Contraction, way: Plan) -> str:
    """In words: "6 rows of i0 i1 x 2 vectors of i2 i3 ..."."""
    rows, columns = (" ".join(axis.name for axis in axes) for axes in (found.rows, found.columns))
    return f"rows {rows}, columns {columns}: {way}"


def _apply(group: Group, found: Contraction, chosen: Plan, digits: Mapping[int, int]) -> None:
    s, anchor = group.s, group.anchor
    sums = result_of(group, chosen)
    panel, panel_axes = _copied(group, sums, found.b)
    along = _lies_along(found)
    in_place = along or not chosen.depth and found.summed[-1] in contiguous(found.a) and size_of(found.summed[-1:]) >= LONG
    rows, row_axes = (None, []) if in_place else _copied(group, sums, found.a)
    order = [anchor.axis.index(axis) for axis in found.outer]
    across = [[anchor.axis.index(axis) for axis in axes] for axes in (found.rows, found.columns)]
    extents = [fixed_extent(axis) for axis in anchor.axis]

    def places(*at: Expr) -> list[Expr]:
        return [*(at[place] for place in order), *(_flat([(at[place], extents[place]) for place in several]) for several in across)]

    if [[place] for place in range(len(extents))] != [*([place] for place in order), *across]:
        sums.transform_layout(places)
    _panels(group, panel, panel_axes, found.b, found.columns, found, chosen.tile.columns)
    if rows is not None:
        _panels(group, rows, row_axes, found.a, found.rows, found, chosen.tile.rows)
        if worth_threads(rows.op.axis):
            rows.parallel(rows.op.axis[0])
    stage = s[group.output]
    axes = [part for place, axis in enumerate(list(stage.op.axis))
            for part in (stage.split(axis, factor=digits[place]) if place in digits else (axis,))]
    outer, (i, j) = [axes[place] for place in order], [[axes[place] for place in places] for places in across]
    stage.reorder(*outer, *i, *j)
    per_panel, per_tile = tasks(stage, [*outer, fused(stage, i), fused(stage, j)], chosen)
    summed = sums.op.reduce_axis
    k = [fused(sums, summed)] if along or not in_place else list(summed)  # several loops where one would have to find its place
    at = sum_up(sums, k, stage, per_panel, per_tile, chosen)
    if is_known(source(found.b)):
        panel.parallel(panel.op.axis[0])
    else:
        panel.compute_at(*at)


def _narrower(whole: Contraction) -> Iterator[Contraction]:
    """The contraction with all its columns, and those with the last axes of them alone."""
    for count in range(len(whole.columns)):
        yield replace(whole, columns=whole.columns[count:], outer=(*whole.outer, *whole.columns[:count]))


def _cost(found: Contraction, machine: Machine) -> float:
    """How much longer the columns take than multiply-adds of whole vectors alone would."""
    lanes, size = machine.lanes(found.b.dtype.bits), size_of(found.columns)
    beside = contiguous(found.b)
    if found.columns[-1] in beside and (len(found.columns) == 1 or found.b.indices[-len(found.columns):] == found.columns):
        copied = SIDE_BY_SIDE
    else:
        copied = TURNED if found.summed[-1] in beside else APART if beside.isdisjoint(found.outer) else FAR
    return ceil(size / lanes) * lanes / size * (1 + copied * machine.fma_rate / size_of(found.rows))


def _lies_along(found: Contraction) -> bool:
    """Whether the elements of a row lie side by side, in the order in which they are summed up, and rows behind each other."""
    indices = found.a.indices
    last = len(found.summed) + (len(found.rows) if len(found.rows) > 1 else 0)
    return indices[len(indices) - last:] == (*(found.rows if len(found.rows) > 1 else ()), *found.summed)


def _flat(digits: Sequence[tuple[Expr, int]]) -> Expr:
    """The number that indices make, each with its extent."""
    number = const(0, "int32") if not digits else digits[0][0]
    for index, extent in digits[1:]:
        number = number * extent + index
    return number


def _copied(group: Group, sums: Stage, load: ProducerLoad) -> tuple[Stage, list[IterVar]]:
    """A copy of one side by what is read at each of the sum's axes, and those of the anchor's axes that it has; it has none that
    the sum, being a copy itself, knows to be of one value."""
    op = sums.op
    read = {axis for each in loads_of(op) if each.producer is group.s[source(load)].op.output(0) for axis in axes_of(each)}
    pairs = zip((*op.axis, *op.reduce_axis), (*group.anchor.axis, *group.anchor.reduce_axis), strict=True)
    axes = [axis for own, axis in pairs if own in read]
    return group.s[group.s.cache_read(source(load), "global", [sums], reindex=True)], axes


def _panels(
    group: Group, stage: Stage, axes: Sequence[IterVar], load: ProducerLoad, along: Sequence[IterVar], found: Contraction,
    width: int,
) -> None:
    """The copy of one side, over these axes: `width` values `along` some of them lie side by side for each term of the sum."""
    s, windows = group.s, not all(isinstance(index, IterVar) for index in load.indices)
    for head in upstream(group, load) if not windows else ():  # what is read more than once stays a stage of its own
        s[head].compute_inline()

    def places(*at: Expr) -> list[Expr]:
        index = dict(zip(axes, at, strict=True))
        number = _flat([(index[axis], fixed_extent(axis)) for axis in along if axis in index])
        return [*(index[axis] for axis in found.outer if axis in index), number // width,
                *(index[axis] for axis in found.summed if axis in index), number % width]

    moved = stage.transform_layout(places, 0)
    assert moved is not None
    lane = moved[-1]
    lanes = group.machine.lanes(load.dtype.bits)
    if load.indices[-1] is found.summed[-1] and width % lanes == 0:  # loaded along the sum, and turned in registers
        steps, step = stage.split(moved[-2], factor=lanes)
        vectors, lane = stage.split(lane, factor=lanes)
        stage.reorder(steps, vectors, step, lane)
        stage.unroll(step)
    stage.vectorize(lane)
