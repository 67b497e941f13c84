"""Reductions of any form with a tile of results in registers, as sum_plan chose it from what they read.

    lanes over data axes                                 lanes over a reduce axis

    for outer (in parallel), vectors:                    for outer (in parallel):
        parts: what only this sum reads, here                for k.outer:
        for others:                                              for rows (unrolled):  partial[rows, lanes] += ...
            for k:                                           sums over lanes, by halves
                for rows (unrolled):  sums[rows, lanes] += ...
            result[rows, lanes] = sums ...

A part is a reduction that one other reads at its own last axis and at some of its outer ones, in whole along the others: what a
vector of results needs of it no other vector does, so it is computed there, and stays in the first cache.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING

from ...base import dataclass, replace
from ...ir.expr import IterVar, ProducerLoad
from ...schedule import Stage
from ...schedule.model.inlining import expand_inlined
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..accesses import dimensions, find_axes, load_axes, op_loads
from ..cost.cpu import Lines
from ..cost.doubts import TILED, WORSE
from ..cost.estimate import Estimate, soonest
from ..drafts.draft import Drafts
from ..loops import fuse_axes, share_loops, split_longer, unroll_loops, unroll_short_loops
from ..operations import find_inlined
from ..plan import Candidate
from ..structure import structure_key
from .declaration import calls_functions, part_left_by_llvm
from .fusion import axes_shared, computed_again
from .lanes import floor_power, halves, length
from .packs import pack
from .sum_plan import SumPlan, Terms, best_plan, count_operations, find_terms, plans
from .threads import TASKS, are_enough_tasks, worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["FEW", "keep_loops", "sums", "sums_of_a_step", "time_of_sums"]

MOST_WAYS, FEW = 24, 3
"""Plans that are estimated; and those for a question beside that: by other rules, or by who searches."""
MOST_IN_PLACE = 4
"""Of those that copy, how many are estimated without their copies too: one that spills may hide one that fits."""
FURTHER = 40
"""How many more are where somebody searches."""


def sums(group: Group, plainly: IterVar | None, vectors: int) -> bool:
    """Schedules a group whose anchor is a reduction, with its parts and heads. Does nothing and returns False where lanes over
    `plainly` (None: no lanes), so many vectors of them, cost about as little."""
    terms = _terms(group, group.anchor)
    found = _plans(group, terms) if terms is not None else []
    if terms is None or not found:
        return False
    lane = (plainly,) if plainly is not None else ()
    if not group.parts and found[0].cost > TILED * count_operations(terms, group.machine, lane, vectors if lane else 1):
        return False
    if _place_heads(group):
        terms = _terms(group, group.anchor)
        assert terms is not None
        found = _plans(group, terms)
    group.choose("sums", _ways(group, terms, found))
    return True


def sums_of_a_step(group: Group) -> bool:
    """Schedules a group whose anchor is a reduction of which `group.held` leaves one step at a time. Does nothing and returns False
    where there is nothing to put into vectors."""
    terms = _terms(group, group.anchor)
    found = _plans(group, terms) if terms is not None else []
    if terms is None or not found:
        return False
    group.choose("sums of a step", _ways(group, terms, found))
    return True


def time_of_sums(group: Group) -> Estimate | None:
    """About how long the best of the plans takes, with what is read as if it were stored; None where there is none."""
    terms = _terms(group, group.anchor)
    if terms is None:
        return None

    def times() -> list[Estimate]:
        found = _plans(group, terms, FEW)
        estimates = _estimates(group, terms, found)
        return [estimates[soonest(estimates)]] if found else []

    op = group.s[group.anchor].op
    return next(iter(group.times(("time of sums", structure_key(expand_inlined(group.s[op]), op.axis)), times)), None)


def _ways(group: Group, terms: Terms, found: Sequence[SumPlan]) -> list[Candidate]:
    """The plans of an anchor whose heads are placed, the cheapest first, as candidates, with the time of each; and its loops as they
    were declared."""
    copied = [plan for plan in found if plan.packed and plan.cost <= found[0].cost * WORSE]
    in_place = [plan for plan in found if not plan.packed]
    most = min((plan.cost for plan in in_place), default=0) * WORSE
    in_place = [plan for plan in in_place if plan.cost <= most]
    first = [*copied[: MOST_WAYS // 2], *(replace(plan, packed=()) for plan in copied[:MOST_IN_PLACE]), *in_place][
        :MOST_WAYS
    ]
    known = set(map(id, first))
    others = sorted((plan for plan in (*copied, *in_place) if id(plan) not in known), key=lambda plan: plan.cost)
    further = others[:FURTHER] if group.is_searched else []
    plans: list[SumPlan | None] = [*first, *further, *([None] if _is_short(group) else [])]
    ways = list[Candidate]()
    for at, (plan, time) in enumerate(zip(plans, _estimates(group, terms, plans), strict=True)):
        ways.append(
            Candidate(
                str(plan) if plan is not None else "as declared",
                partial(_apply, group, plan),
                time,
                further=plan is not None and at >= len(first),
            )
        )
    return ways


def _apply(group: Group, plan: SumPlan | None) -> None:
    """Schedule the sums as planned, or leave their loops as they were declared."""
    if plan is None:
        keep_loops(group)
    elif plan.lane[0].kind == "reduce":
        _schedule_sum_lanes(group, plan)
    else:
        _schedule_data_lanes(group, plan)


def _is_short(group: Group) -> bool:
    """Return whether the loops as declared may be as quick as vectors: their innermost one is shorter than two of these."""
    op = group.s[group.anchor].op
    lanes = group.machine.lanes(op.output(0).dtype.bits)
    short = (constant_extent(op.reduce_axis[-1]) or 2 * lanes) < 2 * lanes
    return short and not group.parts and not group.held and not calls_functions(expand_inlined(group.s[op]))


def keep_loops(group: Group) -> None:
    """Keep the declared loops, the first of them shared among threads and short ones written out; sums are computed where they are
    read."""
    s, anchor, stage = group.s, group.anchor, group.s[group.output]
    loops = _parallelize_loops(group, stage, list(stage.op.axis), {}) if stage.op.axis else []
    inside = list(s[anchor].op.reduce_axis) if anchor is group.output else []
    left = [*loops[:1], *unroll_short_loops(stage, [*loops[1:], *inside])]
    if anchor is not group.output and loops:
        s[anchor].compute_at(stage, left[-1])
        row = s[anchor].op.axis[len(s[anchor].op.axis) - (len(loops) - len(left)) :]
        unroll_short_loops(s[anchor], [*row, *s[anchor].op.reduce_axis])


def _estimates(group: Group, terms: Terms, plans: Sequence[SumPlan | None]) -> Sequence[Estimate]:
    """The times of plans, with what their copies take."""
    op, drafts, lines = group.s[group.anchor].op, Drafts(), Lines()
    value = expand_inlined(group.s[op])
    form = structure_key(value, op.axis)
    numbers = {axis: at for at, axis in enumerate((*terms.axis, *terms.reduce_axis))}
    places = {id(load): at for at, load in enumerate(terms.loads)}
    left, times = part_left_by_llvm(value, (*op.axis, *op.reduce_axis)), list[Estimate]()
    for plan in plans:
        key = plan and (
            tuple(numbers[axis] for axis in plan.lane),
            plan.vectors,
            tuple((numbers[axis], size) for axis, size in plan.rows),
            tuple(places[id(load)] for load in plan.packed),
        )
        times += group.times(
            ("sums", form, key),
            lambda plan=plan: [
                group.draft(lambda own: _apply(own, plan), drafts, lines, by_llvm=1.0 if plan is not None else left)
            ],
        )
    return times


def _plans(group: Group, terms: Terms, number: int | None = None) -> list[SumPlan]:
    """The plans of the anchor of a group with what is inlined into it now: the cheapest first, `number` of them at most."""
    if any(constant_extent(axis) == 0 for axis in (*terms.axis, *terms.reduce_axis)):
        return []
    if group.parts:
        return plans(terms, group.machine, terms.axis[-1:], (1,), number=number)
    if group.held:
        free = replace(terms, axis=tuple(axis for axis in terms.axis if axis not in group.held))
        found = plans(free, group.machine, movable=_movable(group), number=number)
        return [plan for plan in found if plan.lane[0].kind == "data"]
    return plans(terms, group.machine, movable=_movable(group), number=number)


def _movable(group: Group) -> set[Tensor]:
    """The tensors that the anchor may read a copy of: nothing that is inlined into it reads them too, and steps read the same."""
    s, anchor = group.s, group.anchor
    elsewhere = {tensor for op in find_inlined(s, anchor) for tensor in op.input_tensors}
    elsewhere |= {load.producer for load in op_loads(s[anchor].op) if not group.held.isdisjoint(load_axes(load))}
    return {
        tensor for tensor in s[anchor].op.input_tensors if tensor not in elsewhere and s[tensor].attach_type != "inline"
    }


def _terms(group: Group, op: Operation) -> Terms | None:
    """Return the work of a term of a reduction with the expressions of all that is inlined into it."""
    now = group.s[op].op
    return find_terms(expand_inlined(group.s[now]), now.axis) if now.reduction is not None else None


def _place_heads(group: Group) -> bool:
    """Inlines the heads that cost less where they are read than stored, and tells whether there are any; the others stay stages of
    their own."""
    placed = False
    for head in reversed(group.heads):
        values = [
            (expand_inlined(group.s[now]), now.axis) for now in (group.s[op].op for op in (group.anchor, *group.parts))
        ]
        reading = [
            (value, axis)
            for value, axis in values
            if any(load.producer is head.output(0) for load in collect_loads(value))
        ]
        if reading and computed_again(reading, head, group.machine):
            group.s[head].compute_inline()
            placed = True
    return placed


def _schedule_data_lanes(group: Group, plan: SumPlan) -> None:
    s, anchor, stage = group.s, group.anchor, group.s[group.output]
    sizes = _sizes(s[anchor].op, plan)
    ahead = _outer_axes(group)
    width = group.machine.lanes(anchor.output(0).dtype.bits) * plan.vectors
    lanes_at = [at for at, axis in enumerate(s[anchor].op.axis) if axis in plan.lane]
    order = _nest(group, plan, sizes, width) if plan.packed else _Nest()
    panels = [
        pack(
            group,
            load,
            plan.lane[0] if plan.lane[0] in load_axes(load) else None,
            width,
            s[anchor].op.reduce_axis,
            not order.panels or plan.lane[0] not in load_axes(load),
        )
        for load in plan.packed
    ]
    accumulator = s[anchor] if anchor is not group.output else s[s.cache_write(anchor.output(0), "local")]
    places = [at for at in range(len(anchor.axis)) if at not in lanes_at] + lanes_at
    if places != sorted(places):
        accumulator.transform_layout(lambda *at: [at[place] for place in places])
    before: list[IterVar] = []
    after: list[IterVar] = []
    late: list[IterVar] = []
    inside: list[int] = []
    rows: list[IterVar] = []
    trips: dict[IterVar, int] = {}
    axes = list(stage.op.axis)
    for at, axis in enumerate(axes):
        if at not in lanes_at:
            outer, inner = _split(stage, axis, sizes.get(at, 0))
            trips.update((loop, _steps(axis, sizes[at])) for loop in outer if inner)
            rows += inner
            if at in order.turned and not inner and (constant_extent(axis) or 0) > order.block:
                block, within = stage.split(axis, factor=order.block)
                trips |= {block: _steps(axis, order.block), within: order.block}
                before.append(block)
                outer = [within]
            (late if at in order.late else before if at in ahead else after).extend(outer)
            inside += [order.late.index(at)] * len(outer) if at in order.late else []
    lane = fuse_axes(stage, [axes[at] for at in lanes_at])
    extent = constant_extent(lane)
    if len(plan.lane) == 1:
        vector, lane = split_longer(stage, lane, extent, width)
        trips |= dict.fromkeys(vector, ceil((extent or 0) / width))
        before += vector
    late = [loop for _, loop in sorted(zip(inside, late, strict=True), key=lambda pair: pair[0])]
    stage.reorder(*before, *late, *after, *rows, lane)
    before = _parallelize_loops(group, stage, before if order.panels else [*before, *late], trips)
    for load, panel in zip(plan.packed, panels, strict=True):
        if before and order.panels and plan.lane[0] in load_axes(load):
            panel.compute_at(stage, before[-1])
    unroll_loops(stage, rows)
    stage.vectorize(lane)
    around = (*before, *(late if order.panels else ()), *after)
    if around:
        accumulator.compute_at(stage, around[-1])
    _sum_up(accumulator, {places.index(at): size for at, size in sizes.items()}, len(plan.lane), ())
    for part in group.parts:
        terms = _terms(group, part)
        own = best_plan(terms, group.machine, terms.axis[-1:], (1,)) if terms is not None else None
        tile = _sizes(s[part].op, own) if own is not None else {}
        if before:
            s[part].compute_at(stage, before[-1])
        _sum_up(s[part], tile, 1, tuple(tile))


@dataclass(frozen=True)
class _Nest:
    """Loop nest of a sum with its copies.

    late: the places of axes whose loops stand within all others, one over vectors included. turned: those of them along which
    lies what is copied, `block` values at a time. panels: whether what lanes run along is copied a panel at a time, where the late
    loops begin.
    """

    late: tuple[int, ...] = ()
    turned: tuple[int, ...] = ()
    block: int = 1
    panels: bool = False


def _nest(group: Group, plan: SumPlan, sizes: Mapping[int, int], width: int) -> _Nest:
    """Loops on which what a tile reads along lanes does not depend are innermost where that is more than what it reads else: it
    stays in the cache meanwhile. So do those along which its source is contiguous, so that panels are made of whole lines."""
    op = group.s[group.anchor].op
    tile = (
        {axis: constant_extent(axis) or 1 for axis in op.reduce_axis}
        | dict(plan.rows)
        | dict.fromkeys(plan.lane, width)
    )
    loads = op_loads(op)
    along = [load for load in loads if not load_axes(load).isdisjoint(plan.lane)]
    if sum(_read(load, tile) for load in along) < sum(_read(load, tile) for load in loads if load not in along):
        return _Nest()
    copied = [load for load in along if load in plan.packed]
    block = group.machine.line // op.output(0).dtype.bytes
    fixed = frozenset[IterVar]().union(*map(load_axes, along))
    sources = {axis for load in copied for axis in find_axes(load.indices[-1])} - set(plan.lane)
    free = [at for at, axis in enumerate(op.axis) if axis not in fixed]
    turned = [at for at, axis in enumerate(op.axis) if axis in sources]
    tasks = ceil((length(plan.lane) or 1) / width)
    for at, axis in enumerate(op.axis):
        if at not in free and axis not in plan.lane and not (at in turned and at in sizes):
            tasks *= ceil((constant_extent(axis) or 1) / (block if at in turned else sizes.get(at, 1)))
    held = sum(_read(load, tile | {op.axis[at]: block for at in turned}) for load in copied) * op.output(0).dtype.bytes
    panels = (
        bool(copied) and not group.held and are_enough_tasks(tasks, group.machine) and held <= group.machine.l2 // 2
    )
    return _Nest((*turned, *free), tuple(turned), block, panels)


def _read(load: ProducerLoad, sizes: Mapping[IterVar, int]) -> int:
    """Elements that a tile of these sizes reads."""
    return prod(each.width(sizes) for each in dimensions(load))


def _outer_axes(group: Group) -> frozenset[int]:
    """The places of the data axes whose loops stand around the parts; where there are none, of all."""
    anchor = group.anchor
    for part in group.parts:
        shared = axes_shared(anchor, part, group.machine) or frozenset()
        return frozenset(at for at, axis in enumerate(anchor.axis) if axis in shared)
    return frozenset(range(len(anchor.axis)))


def _schedule_sum_lanes(group: Group, plan: SumPlan) -> None:
    s, anchor, stage = group.s, group.anchor, group.s[group.output]
    sizes = _sizes(s[anchor].op, plan)
    (lane,) = plan.lane
    width = floor_power(
        min(group.machine.lanes(anchor.output(0).dtype.bits) * plan.vectors, constant_extent(lane) or 1)
    )
    _, inner = s[anchor].split(lane, factor=width)
    first = s[s.rfactor(anchor.output(0), inner, -1)]
    partials = [first, *halves(s, anchor, s[anchor].op.reduce_axis[0])]
    outer: list[IterVar] = []
    rows: list[IterVar] = []
    trips: dict[IterVar, int] = {}
    for at, axis in enumerate(list(stage.op.axis)):
        loops, inside = _split(stage, axis, sizes.get(at, 0))
        trips.update((loop, _steps(axis, sizes[at])) for loop in loops if inside)
        outer += loops
        rows += inside
    stage.reorder(*outer, *rows)
    outer = _parallelize_loops(group, stage, outer, trips)
    unroll_loops(stage, rows)
    for each in partials:
        _sum_up(each, sizes, 1, ())
    for attached in (*partials, *([s[anchor]] if anchor is not group.output else [])):
        if outer:
            attached.compute_at(stage, outer[-1])


def _sizes(op: Operation, plan: SumPlan) -> dict[int, int]:
    """Return, by the place of a data axis, how many of its values the tile has."""
    return {at: size for at, axis in enumerate(op.axis) for row, size in plan.rows if row is axis}


def _split(stage: Stage, axis: IterVar, size: int) -> tuple[list[IterVar], list[IterVar]]:
    """The loops over an axis of which `size` values, 0 for none, are in the tile: outside of it, and in it."""
    extent = constant_extent(axis)
    if not size:
        return [axis], []
    if extent is not None and extent <= size:
        return [], [axis]
    outer, inner = stage.split(axis, factor=size)
    return [outer], [inner]


def _steps(axis: IterVar, size: int) -> int:
    """The steps over an axis, `size` values each; 0 where the call decides."""
    return ceil((constant_extent(axis) or 0) / size)


def _parallelize_loops(group: Group, stage: Stage, loops: list[IterVar], trips: Mapping[IterVar, int]) -> list[IterVar]:
    """Share the first loops among the threads, as many of them as make enough tasks. Returns the loops as they are then. trips: the
    iterations of those that are parts of axes. Loops over steps, which stand before all others, run one iteration."""
    anchor, first = group.anchor, len(group.held)
    computed = [axis for axis in (*anchor.axis, *anchor.reduce_axis) if axis not in group.held]
    if not loops[first:] or not worth_threads(computed, 2):
        return loops
    count, tasks = first, 1
    while count < len(loops) and not are_enough_tasks(tasks, group.machine):
        tasks *= trips.get(loops[count]) or constant_extent(loops[count]) or TASKS * group.machine.cores
        count += 1
    task = share_loops(stage, loops[first:count])
    return [*loops[:first], task, *loops[count:]]


def _sum_up(stage: Stage, sizes: Mapping[int, int], lanes: int, whole: Container[int]) -> None:
    """The loops of a sum whose tile stays in registers. sizes: of the tile, by the places of data axes. lanes: how many of the
    last axes are one lane. whole: the places of axes along which the stage computes more than the tile."""
    op = stage.op
    count = len(op.axis) - lanes
    outer: list[IterVar] = []
    tile: list[IterVar] = []
    for at, axis in enumerate(op.axis[:count]):
        outside, inside = (
            _split(stage, axis, sizes[at]) if at in whole else ([], [axis]) if at in sizes else ([axis], [])
        )
        outer += outside
        tile += inside
    reduced = [axis for axis in stage.leaf_iter_vars if axis.kind == "reduce"]
    lane = fuse_axes(stage, op.axis[count:])
    stage.reorder(*outer, *reduced, *tile, lane)
    unroll_loops(stage, tile)
    unroll_short_loops(stage, reduced, prod(sizes.values()))
    stage.vectorize(lane)
