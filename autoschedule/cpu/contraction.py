"""Contractions of tensors as products of matrices: the axes of each side are one axis, in panels that are copied.

C[a, b, c, d] = sum over e, f of A[a, e, b, f] * B[f, d, e, c]

rows a, b; columns c, d; sum over e, f:   A.panel[ab // 6, e, f, ab % 6], at once
                                          B.panel[cd // 16, e, f, cd % 16], where it is used
                                          C.tile[ab in 6, cd in 16], in registers, stored where it belongs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from ...codegen.machine import Machine, RegisterTile
from ...ir.expr import Expr, IntImm, IterVar, ProducerLoad
from ...schedule.primitives.mirror import is_symmetric
from ...te.operation import Operation
from ..accesses import contiguous_axes, load_axes, numeric_shape, op_loads, row_steps, source
from ..cost.cpu import Lines, least_of_products
from ..cost.doubts import ALIKE, SUMS
from ..cost.estimate import Estimate, pad_estimate, soonest
from ..cost.instructions import NEAR
from ..drafts.draft import Drafts
from ..forms.contraction import Contraction, match_contraction, match_product, strip_guard
from ..loops import fuse_axes
from ..matrices import copied, flat, lay_out_matrix, upstream
from ..operations import fixed_extent, is_known, iteration_count
from ..plan import Candidate
from ..structure import structure_key
from .factors import find_sides, matricize_factors, sweep_factors
from .gemm_nest import passes_caches, prefetch_panels, prefetch_rows, product_sizes, result_stage, sum_up, tasks
from .gemm_plan import Plan, Product, group_panels, packings, plans
from .gemv import find_schedule
from .injective import sweep
from .quotient_axes import find_digits, split_digits
from .sums import FEW
from .threads import worth_threads

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["contraction", "least_time", "usual_time"]

LONG = 16
"""Terms of the innermost loop of a sum from which on the loops around it cost little."""


_Timed: TypeAlias = tuple[Estimate, Contraction, Plan]


def contraction(group: Group, otherwise: Callable[[], None], time: Callable[[], Estimate | None]) -> bool:
    """Schedules a group whose anchor is one, or else `otherwise`, whose time is asked for where it could be less; does nothing and
    returns False where it is none."""
    if group.parts:
        return False
    whole = _match(group.anchor)
    if whole is None:
        return _contraction_of_factors(group, time) or _contraction_in_digits(group, time)
    ways = _ways(group, whole)
    if _has_known_sizes(group.anchor):
        bound = _least(whole, group.machine)
        sums = time() if _discount_time(bound).seconds < _best_time(ways).seconds else bound
        if sums is not None:
            ways.append(Candidate("as any sum", otherwise, _discount_time(sums)))
    else:  # tasks are panels, of which few are seen for what a call may have
        ways.append(Candidate("as any sum", otherwise, further=True))
    group.choose("contraction", ways)
    return True


def _match(anchor: Operation) -> Contraction | None:
    """The form of an anchor: of products of matrices, of whatever sizes."""
    return match_contraction(anchor, strip_guard) if _has_known_sizes(anchor) else match_product(anchor)


def _has_known_sizes(anchor: Operation) -> bool:
    """Return whether no call decides an extent."""
    return all(map(fixed_extent, (*anchor.axis, *anchor.reduce_axis)))


def least_time(group: Group) -> Estimate | None:
    """The time of a group whose anchor is a contraction; None where it is none."""
    whole = _match(group.anchor) if not group.parts else None
    return _best_time(_ways(group, whole)) if whole is not None else None


def usual_time(group: Group) -> Estimate | None:
    """The time of a product of matrices of known sizes by the plan of the fewest cycles; None where a group's anchor is none."""
    whole = match_contraction(group.anchor, strip_guard)
    if whole is None:
        return None
    product = product_sizes(group, whole)
    way = _plans(whole, product, group.machine, *packings(product)[-1])[0]
    return group.draft(partial(_apply, found=whole, chosen=way, digits={}), Drafts(), Lines())


def _contraction_of_factors(group: Group, time: Callable[[], Estimate | None]) -> bool:
    """Schedules a group whose anchor is one of what its factors are: `A[i, k] * d[k]` is computed once for each row, as rows are
    copied. Does nothing and returns False where it is none, or takes longer than other sums."""
    sides = find_sides(group.anchor)
    if sides is None:
        return False

    def change() -> _Changed:
        apart = matricize_factors(group, sides)
        return apart, match_contraction(apart.anchor), {}, partial(sweep_factors, group, apart)

    return _choose_changed(group, time, change)


def _contraction_in_digits(group: Group, time: Callable[[], Estimate | None]) -> bool:
    """Schedules a group whose anchor is one once its axes are digits; does nothing and returns False where it is none, or takes
    longer than other sums."""
    digits = find_digits(group.anchor)
    if not digits:
        return False

    def change() -> _Changed:
        split = split_digits(group, digits)
        if split.output is group.output:
            return split, match_contraction(split.anchor, strip_guard), digits, lambda: None
        return split, match_contraction(split.anchor, strip_guard), {}, partial(sweep, group, group.output)

    return _choose_changed(group, time, change)


_Changed: TypeAlias = "tuple[Group, Contraction | None, Mapping[int, int], Callable[[], None]]"
"""A group that has been changed, its form, digits of the result's axes, and what schedules the rest."""


def _choose_changed(group: Group, time: Callable[[], Estimate | None], change: Callable[[], _Changed]) -> bool:
    """Schedule a group once `change` has made a contraction of it; undo that, and return False, where it made none, or other sums take
    less time."""
    sums = time()
    with group.s.attempt() as attempt:
        changed, whole, digits, finish = change()
        ways = _ways(changed, whole, digits) if whole is not None else []
        if not ways or sums is not None and _discount_time(sums).seconds < _best_time(ways).seconds:
            group.s.undo(attempt)
            return False
        group.choose("contraction", ways)
        finish()
    return True


def _best_time(ways: Sequence[Candidate]) -> Estimate:
    """The least time of all that are tried without a search."""
    times = [way.estimate for way in ways if way.estimate is not None and not way.further]
    return times[soonest(times)]


def _ways(group: Group, whole: Contraction, digits: Mapping[int, int] = MappingProxyType({})) -> list[Candidate]:
    """The plans of every narrowing, a tile each, and those that differ from the best of these, all with their times, that of the
    least first. digits: of the axes of the result that the anchor has two of each for, by their places."""
    anchor, machine, drafts, lines = group.anchor, group.machine, Drafts(), Lines()
    tiles: list[_Timed] = []
    others: dict[tuple[Contraction, RegisterTile], list[Plan]] = {}
    form, numbers = tuple(structure_key(op.values[0], op.axis) for op in (anchor, *group.heads)), count()

    def timed(each: Contraction, way: Plan) -> _Timed:
        def times() -> list[Estimate]:
            return [group.draft(lambda own: _apply(own, each, way, digits), drafts, lines)]

        (time,) = group.times(("contraction", form, next(numbers)), times)
        return time, each, way

    for each in (*_narrower(whole), *_mirror_contraction(group, whole)):
        product = product_sizes(group, each)
        families = {ways[0]: ways for way in packings(product) for ways in [_plans(each, product, machine, *way)]}
        heads = [timed(each, head) for head in families]
        ways = families[heads[soonest([time for time, *_ in heads])][2]]
        tiles += heads
        others[each, ways[0].tile] = []
        wide = group_panels(replace(ways[0], packed=True), product, machine) if _are_columns_fusible(each) else None
        tiles += [timed(each, wide)] if wide is not None else []
        for way in ways[1:]:
            if (each, way.tile) in others:
                others[each, way.tile].append(way)
            else:
                others[each, way.tile] = []
                tiles.append(timed(each, way))
    tiles = _soonest_first(tiles)
    changed, further = (
        [timed(each, way) for _, each, tile in some for way in others[each, tile.tile]]
        for some in (tiles[:1], tiles[1 : 1 + FEW] if group.is_searched else [])  # of the best tile
    )
    first = _soonest_first([*tiles, *changed])
    candidates = [
        Candidate(_description(each, way), partial(_apply, group, each, way, digits), time, further=at >= len(first))
        for at, (time, each, way) in enumerate((*first, *further))
    ]
    if not digits and (few := find_schedule(group)) is not None:
        candidates.insert(
            0, Candidate("a matrix and few vectors", partial(few, group), group.draft(few, drafts, lines))
        )
    return candidates


def _plans(found: Contraction, product: Product, machine: Machine, packed: bool, apart: bool) -> tuple[Plan, ...]:
    """The plans of a contraction, none of them in blocks of the sum where it is mirrored: a block would be of all rows."""
    ways = plans(product, machine, packed, apart)
    return tuple(dict.fromkeys(replace(way, depth=0) for way in ways)) if found.mirrored else ways


def _soonest_first(rows: Sequence[_Timed]) -> list[_Timed]:
    """Put the one that takes least, the first of those that are about equal, at the head of the others, and sort these by what
    they take at least."""
    if not rows:
        return []
    first = soonest([time for time, *_ in rows], ALIKE)
    return [rows[first], *sorted((*rows[:first], *rows[first + 1 :]), key=lambda row: row[0].least)]


def _least(whole: Contraction, machine: Machine) -> Estimate:
    """A time that no schedule falls below."""
    terms = prod(map(iteration_count, (whole.outer, whole.rows, whole.columns, whole.summed)))
    return least_of_products(terms / machine.lanes(whole.b.dtype.bits), machine)


def _discount_time(time: Estimate) -> Estimate:
    """The time of sums beside that of products of matrices, whose loops come out as they are estimated more often."""
    return pad_estimate(time, SUMS)


def _description(found: Contraction, way: Plan) -> str:
    """Describe the tile in words: "6 rows of i0 i1 x 2 vectors of i2 i3 ..."."""
    rows, columns = (" ".join(axis.name for axis in axes) for axes in (found.rows, found.columns))
    return f"rows {rows}, columns {columns}{', mirrored' if found.mirrored else ''}: {way}"


def _apply(group: Group, found: Contraction, chosen: Plan, digits: Mapping[int, int]) -> None:
    """Schedule the group as a product of matrices."""
    s, anchor, sizes = group.s, group.anchor, product_sizes(group, found)
    sums = result_stage(group, chosen)
    if found.mirrored:
        s[group.output].mirror(*_diagonal(group, found))
    along, in_place = has_contiguous_rows(found), read_in_place(found, chosen)
    sides = [load for load in op_loads(anchor) if load is found.b and chosen.packed or load is found.a and not in_place]
    copies = {load: copied(group, sums, load) for load in sides}  # in the order in which they are read
    none: tuple[None, list[IterVar]] = (None, [])
    panel, panel_axes = copies.get(found.b, none)
    rows, row_axes = copies.get(found.a, none)
    order, across = lay_out_matrix(sums, found, anchor)
    if panel is not None:
        _panels(group, panel, panel_axes, found.b, found.columns, found, chosen.tile.columns)
    if rows is not None:
        _panels(group, rows, row_axes, found.a, found.rows, found, chosen.tile.rows)
        if worth_threads(rows.op.axis):
            rows.parallel(rows.op.axis[0])
    stage = s[group.output]
    axes = [
        part
        for place, axis in enumerate(list(stage.op.axis))
        for part in (stage.split(axis, factor=digits[place]) if place in digits else (axis,))
    ]
    outer, (i, j) = [axes[place] for place in order], [[axes[place] for place in places] for places in across]
    stage.reorder(*outer, *i, *j)
    per_panel, per_tile = tasks(stage, [*outer, fuse_axes(stage, i), fuse_axes(stage, j)], chosen)
    if passes_caches(group, sizes):
        stage.pragma(stage.leaf_iter_vars[-1], "nontemporal_store")
    summed = sums.op.reduce_axis
    k = (
        [fuse_axes(sums, summed)] if along or not in_place else list(summed)
    )  # several loops where one would have to find its place
    at = sum_up(sums, k, stage, per_panel, per_tile, chosen)
    if panel is None:
        if not sizes.in_place and sizes.stride > chosen.tile.columns:
            prefetch_rows(group, sums, found.b, sums.leaf_iter_vars[-3])
    elif is_known(source(found.b)):
        panel.parallel(panel.op.axis[0])
        prefetch_panels(sums, panel.op.output(0), chosen)
    else:
        panel.compute_at(*at)


def _narrower(whole: Contraction) -> Iterator[Contraction]:
    """The contraction with all its columns, and those with the last axes of them alone."""
    for first in range(len(whole.columns)):
        yield replace(whole, columns=whole.columns[first:], outer=(*whole.outer, *whole.columns[:first]))


def _mirror_contraction(group: Group, whole: Contraction) -> Iterator[Contraction]:
    """The contraction on one side of its diagonal, where the other side is the same."""
    if (
        whole.a.producer is whole.b.producer
        and len(whole.rows) == len(whole.columns) == 1
        and len(group.output.axis) == len(group.anchor.axis)
        and is_symmetric(group.s[group.output], *_diagonal(group, whole))
    ):
        yield replace(whole, mirrored=True)


def _diagonal(group: Group, found: Contraction) -> tuple[IterVar, IterVar]:
    """The axes of rows and of columns of what is stored."""
    axes, own = group.s[group.output].op.axis, group.anchor.axis
    return axes[own.index(found.rows[0])], axes[own.index(found.columns[0])]


def _panels(
    group: Group,
    stage: Stage,
    axes: Sequence[IterVar],
    load: ProducerLoad,
    along: Sequence[IterVar],
    found: Contraction,
    width: int,
) -> None:
    """The copy of one side, over these axes: `width` values `along` some of them lie side by side for each term of the sum."""
    s, windows = group.s, not all(isinstance(index, (IterVar, IntImm)) for index in load.indices)
    for head in upstream(group, load) if not windows else ():  # what is read more than once stays a stage of its own
        if s[head].attach_type != "inline":
            s[head].compute_inline()

    def places(*at: Expr) -> list[Expr]:
        index = dict(zip(axes, at, strict=True))
        number = flat(
            [(index[axis], fixed_extent(axis)) for axis in along if axis in index and fixed_extent(axis) != 1]
        )
        return [
            *(index[axis] for axis in found.outer if axis in index),
            number // width,
            *(index[axis] for axis in found.summed if axis in index),
            number % width,
        ]

    moved = stage.transform_layout(places, 0)
    assert moved is not None
    lane = moved[-1]
    lanes = group.machine.lanes(max(load.dtype.bits, group.anchor.output(0).dtype.bits))
    how = copied_how(load, along, found.summed, width, lanes)
    if how == "turned":
        steps, step = stage.split(moved[-2], factor=lanes)
        vectors, lane = stage.split(lane, factor=lanes)
        stage.reorder(steps, vectors, step, lane)
        stage.unroll(step)
    elif how == "beside" and not windows:
        prefetch_rows(group, stage, load, moved[-2])
    if how == "apart":  # one by one: what a lane's place takes to find is found before the loops over the sum
        stage.unroll(lane)
    else:
        stage.vectorize(lane)


def has_contiguous_rows(found: Contraction) -> bool:
    """Return whether the elements of a row lie side by side, in the order in which they are summed up, and rows behind each other."""
    indices = found.a.indices
    last = len(found.summed) + (len(found.rows) if len(found.rows) > 1 else 0)
    return indices[len(indices) - last :] == (*(found.rows if len(found.rows) > 1 else ()), *found.summed)


def read_in_place(found: Contraction, way: Plan) -> bool:
    """Return whether rows are read where they lie; those of a tensor that is read by columns too are not."""
    return (
        found.a.producer is not found.b.producer
        and found.a not in found.guarded
        and (
            has_contiguous_rows(found)
            or (
                not way.depth
                and found.summed[-1] in contiguous_axes(found.a)
                and fixed_extent(found.summed[-1]) >= LONG
            )
        )
    )


def copied_how(load: ProducerLoad, along: Sequence[IterVar], summed: Sequence[IterVar], width: int, lanes: int) -> str:
    """Return the way of `width` neighbours `along` these axes into a panel: "beside" each other as they lie, most of them in one row, or a
    few elements apart; "turned", loaded along the sum and turned in registers; or "apart", one by one."""
    inner = tuple(axis for axis in along if axis in load_axes(load))
    if (
        inner
        and _is_near(load, inner[-1])
        and (len(inner) == 1 or load.indices[-len(inner) :] == inner or fixed_extent(inner[-1]) >= 2 * lanes)
    ):
        return "beside"
    return "turned" if len(inner) == 1 and load.indices[-1] is summed[-1] and width % lanes == 0 else "apart"


def _is_near(load: ProducerLoad, axis: IterVar) -> bool:
    """Return whether neighbours along an axis lie in one row, few enough elements apart for vectors of which lanes are picked."""
    return 1 <= row_steps(load).get(axis, 0) <= NEAR


def _are_columns_fusible(found: Contraction) -> bool:
    """Return whether columns lie behind each other as one axis, in B and in the result, so that runs of them are longer than the
    last of their axes."""
    columns, shape = found.columns, numeric_shape(found.b.producer)
    return (
        not found.mirrored
        and found.b.indices[-len(columns) :] == columns
        and shape[len(shape) - len(columns) + 1 :] == tuple(map(fixed_extent, columns[1:]))
    )
