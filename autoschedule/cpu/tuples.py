"""Reductions of tuples over an expression: places of the least distance, sums beside sums, pairs that merge.

    lanes over a data axis                               lanes over a reduce axis

    for outer (in parallel):                             for outer (in parallel):
        for k:                                               for k.outer, others:
            for i.inner in lanes:  best = nearer(best, ...)      for k.inner in lanes:  partial = nearer(partial, ...)
        for i.inner in lanes:  B[i], P[i] = best             for k.inner:  best = nearer(best, partial)

The tuples of a step are in registers. What lanes alone differ in is loaded, or gathered, before the loops inside, so that any axis
may be that of the lanes. Lanes over a data axis keep the declared order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, log2, prod
from typing import TYPE_CHECKING

from ...ir.expr import Expr, IterVar, Reduce, Var
from ...ir.visit import children, post_order
from ...schedule import Schedule, Stage
from ...schedule.model.inlining import expand_inlined
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.shape import constant_extent
from ..accesses import ASSUMED, domain_axes, find_axes, load_access
from ..cost.cpu import Lines, estimate
from ..cost.estimate import Estimate
from ..cost.instructions import count_instructions, instruction_class, list_work
from ..loop_nest import Body, Nest, nest_loops
from ..loops import fuse_axes
from ..operations import find_inlined
from ..plan import Candidate
from .declaration import calls_functions
from .injective import worth_threads
from .lanes import floor_power, halves

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["tuples"]

VECTORS = (1, 2, 4)
"""Vectors of tuples in a step to choose from."""
CHUNKS = 64
"""Parts of a reduction of everything that threads share."""


@dataclass(frozen=True)
class _Way:
    """Candidate for a reduction over tuples.

    axis: whose values are the lanes, None where one tuple is made at a time; vectors: of them in a step.
    """

    axis: IterVar | None
    vectors: int = 1

    def __str__(self) -> str:
        if self.axis is None:
            return "as declared"
        return f"{self.vectors} vector{'s' * (self.vectors > 1)} of {self.axis.name}"


def tuples(group: Group, in_order: bool) -> bool:
    """Schedule a group whose anchor reduces tuples; do nothing and return False for any other. in_order: the terms of a result are
    taken up as declared."""
    anchor = group.anchor
    loops = (*anchor.axis, *anchor.reduce_axis)
    if anchor.num_outputs < 2 or group.parts or any(constant_extent(axis) == 0 for axis in loops):
        return False
    if any(domain_axes(axis) for axis in anchor.reduce_axis):
        return False
    group.inline_cheap_heads()
    ways = [way for axis in (anchor.axis if in_order else loops) for way in _lane_ways(group, axis)]
    lines = Lines()
    times = [_time(group, way, lines) for way in (*ways, _Way(None))]
    group.choose(
        "tuples",
        [
            Candidate(str(way), partial(_schedule_way, group, way), time)
            for way, time in zip((*ways, _Way(None)), times, strict=True)
        ],
    )
    return True


def _bits(group: Group) -> int:
    return max(tensor.dtype.bits for tensor in group.anchor.outputs)


def _lane_ways(group: Group, axis: IterVar) -> Iterator[_Way]:
    """The ways with lanes over an axis that fills them."""
    lanes, extent = group.machine.lanes(_bits(group)), constant_extent(axis)
    for vectors in VECTORS:
        if extent is None or extent >= lanes * vectors or vectors == 1 and extent * 2 > lanes:
            yield _Way(axis, vectors)


# Times


def _time(group: Group, way: _Way, lines: Lines) -> Estimate:
    """The time of a way, by the instructions of a step."""
    op, machine = group.s[group.anchor].op, group.machine
    reduction = op.reduction
    assert reduction is not None
    extents = {axis: constant_extent(axis) or ASSUMED for axis in (*op.axis, *op.reduce_axis)}
    lane = _same_axis(group, way.axis)
    width = machine.lanes(_bits(group)) * way.vectors if lane is not None else 1
    lanes = {} if lane is None else {lane: min(width, extents[lane])}
    values = _values(group, reduction)
    loads = {id(load): load_access(load) for load in collect_loads(*values)}
    loops = [(axis, _trips(extents[axis], width if axis is lane else 1)) for axis in (*op.axis, *op.reduce_axis)]
    if lane in op.reduce_axis:
        loops.sort(key=lambda loop: loop[0] in op.reduce_axis and loop[0] is not lane)
    around = loops[-1][0]
    body = count_instructions(list_work(values, machine), machine, {}, lanes, (around,), lambda load: loads[id(load)])
    merged = _count_merge(group, reduction, way.vectors)
    links = _chain(reduction)
    spilled = max(way.vectors * (op.num_outputs + _count_held(values, lanes, around)) - machine.registers, 0)
    for name in ("load", "store") if lane is not None else ():
        body[name] += min(spilled, way.vectors * op.num_outputs)
    inner = tuple(lanes.items())
    nest: Nest | Body = Body(body + merged, tuple(loads.values()), inner, links, int(spilled > 0))
    reduced = [loop for loop in loops if loop[0] in op.reduce_axis]
    nest = nest_loops([nest], reduced)
    end = Counter({"put": op.num_outputs * (1 if lane is None else lanes[lane])})
    if lane in op.axis[-1:]:
        end = Counter({"store": op.num_outputs * way.vectors})
    elif lane in op.reduce_axis:
        halving = way.vectors - 1 + 2 * log2(machine.lanes(_bits(group)))
        end = Counter({name: count * halving / way.vectors for name, count in merged.items()})
    outer = [loop for loop in loops if loop[0] not in op.reduce_axis]
    whole = nest_loops([nest, Body(end)], outer, worth_threads(op.axis, prod(extents[axis] for axis in op.reduce_axis)))
    return estimate(whole, machine, lines)


def _trips(extent: int, width: int) -> int:
    return ceil(extent / width)


def _same_axis(group: Group, axis: IterVar | None) -> IterVar | None:
    """The axis of the anchor as it is now that stands where `axis` stood."""
    if axis is None:
        return None
    anchor, op = group.anchor, group.s[group.anchor].op
    return dict(zip((*anchor.axis, *anchor.reduce_axis), (*op.axis, *op.reduce_axis), strict=True))[axis]


def _values(group: Group, reduction: Reduce) -> Sequence[Expr]:
    """The sources of a reduction, with what is inlined into them."""
    value = expand_inlined(group.s[group.anchor])
    return value.sources if isinstance(value, Reduce) else reduction.sources


def _count_merge(group: Group, reduction: Reduce, vectors: int) -> Counter[str]:
    """The instructions that take up a term in each of some vectors."""
    works = list_work(reduction.combiner.result, group.machine)
    return Counter({name: many * vectors for name, many in Counter(n for work in works for n in work.classes).items()})


def _chain(reduction: Reduce) -> tuple[str, int]:
    """The instructions of a merge that wait for each other: the slowest class, and how many."""
    depth: dict[int, int] = {}
    longest = 1
    for node in post_order(*reduction.combiner.result):
        below = max((depth[id(child)] for child in children(node)), default=0)
        depth[id(node)] = below + (1 if instruction_class(node) else 0)
        longest = max(longest, depth[id(node)])
    called = calls_functions(*reduction.combiner.result)
    return ("call" if called else "add"), 1 if called else longest


def _count_held(values: Sequence[Expr], lanes: dict[IterVar, int], around: Var) -> int:
    """Vectors that the loop around does not change, which are kept in registers."""
    return sum(
        1
        for load in {id(load): load for load in collect_loads(*values)}.values()
        if not {*lanes}.isdisjoint(axes := {axis for index in load.indices for axis in find_axes(index)})
        and around not in axes
    )


# Loops


def _schedule_way(group: Group, way: _Way) -> None:
    """Schedule the anchor and what follows it."""
    s, anchor, stage = group.s, group.anchor, group.s[group.output]
    lanes = group.machine.lanes(_bits(group)) * way.vectors
    lane = _same_axis(group, way.axis)
    threads = worth_threads((*anchor.axis, *anchor.reduce_axis), 1 + len(find_inlined(s, anchor)))
    place = None
    if lane is not None and lane.kind == "reduce":
        at = s[anchor].op.reduce_axis.index(lane)
        if threads and not anchor.axis and group.machine.cores > 1:
            _share_chunks(group, at, lanes)
            return
        merged = [*_split_lanes(s, anchor, at, lanes), *([s[anchor]] if anchor is not group.output else [])]
    else:
        place = None if lane is None else s[anchor].op.axis.index(lane)
        merged = [s[anchor] if anchor is not group.output else s[s.cache_write(list(anchor.outputs), "local")[0]]]
    outer = list(stage.op.axis)
    if place is not None:
        axis = outer.pop(place)
        extent = constant_extent(axis)
        if extent is None or extent > lanes:
            wide, axis = stage.split(axis, factor=lanes)
            outer.append(wide)
        stage.reorder(*outer, axis)
        stage.vectorize(axis)
        _put_lane_last(merged[0], merged[0].op.axis[place])
    if outer:
        task = fuse_axes(stage, outer)
        if threads:
            stage.parallel(task)
        for each in merged:
            each.compute_at(stage, task)


def _put_lane_last(sums: Stage, lane: IterVar) -> None:
    """Make lanes of an axis, within all loops."""
    sums.reorder(*(axis for axis in sums.op.axis if axis is not lane), *sums.op.reduce_axis, lane)
    sums.vectorize(lane)


def _share_chunks(group: Group, place: int, lanes: int) -> None:
    """Share a reduction of everything among threads, by parts of its first loop."""
    s, anchor = group.s, group.anchor
    chunk, _ = s[anchor].split(s[anchor].op.reduce_axis[0], nparts=CHUNKS)
    own = s.rfactor(list(s[anchor].op.outputs), chunk)[0].op
    partials = _split_lanes(s, own, place, lanes)
    loop = s[own].op.axis[0]
    s[own].parallel(loop)
    for each in partials:
        each.compute_at(s[own], loop)


def _split_lanes(s: Schedule, op: Operation, place: int, lanes: int) -> list[Stage]:
    """Partial results in lanes over a reduce axis, whose loop stands before those of the others, and what takes them together."""
    lane = s[op].op.reduce_axis[place]
    _, inner = s[op].split(lane, factor=floor_power(min(lanes, constant_extent(lane) or lanes)))
    first = s[s.rfactor(list(s[op].op.outputs), inner, -1)[0].op]
    *data, last = first.op.axis
    reduced = list(first.op.reduce_axis)
    first.reorder(*data, reduced.pop(place), *reduced, last)
    first.vectorize(last)
    return [first, *halves(s, op, s[op].op.reduce_axis[0])]
