"""The loops of a sum of any form under a plan (sum_plan.py), as a nest to estimate before anything is scheduled.

lanes over data axes                          lanes over a reduce axis

for data axes, by tiles (in parallel):        for data axes, by tiles (in parallel):
  for reduce axes:                              for reduce axes, the lanes' by vectors:
    body: a term for each of the tile             body: a term for each of the tile and lane
  store the tile                                lanes added up; store the tile
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2, prod

from ...codegen.machine import Machine
from ...ir.analysis.count import product, value_of
from ...ir.analysis.footprint import Access, box_of
from ...ir.combine import is_fused
from ...ir.expr import Call, Expr, IterVar, Max, Min, Mul, ProducerLoad, Reduce, Var
from ...ir.visit import post_order
from ...te.rewrite import collect_loads
from ...te.shape import constant_extent
from ..accesses import ASSUMED, load_access, load_axes
from ..cost.instructions import (
    chain_links,
    classify_access,
    count_instructions,
    count_vectors,
    instruction_class,
    instruction_classes,
)
from ..loop_nest import Body, Nest, nest_loops
from .lanes import power_below
from .packs import order_of
from .sum_plan import SumPlan

__all__ = ["Around", "Loads", "lanes_of", "loops_around", "sum_nest"]


@dataclass(frozen=True, eq=False)
class Around:
    """The loops around the tile of a sum, the outermost first, each axis with its iterations. shared: how many of them threads
    share. panels: after how many of them what lanes run along is copied, a panel at a time; None: it is copied whole, before."""

    loops: tuple[tuple[IterVar, int], ...]
    shared: int = 0
    panels: int | None = None


def loops_around(axis: Sequence[IterVar], plan: SumPlan, machine: Machine, bits: int, shared: int) -> Around:
    """Those over the data axes in their order, and over vectors."""
    rows, lanes = dict(plan.rows), lanes_of(plan, machine, bits)
    loops = [(each, ceil(_extent(each) / rows.get(each, 1))) for each in axis if each not in lanes]
    loops += [(each, ceil(_extent(each) / values)) for each, values in lanes.items() if each.kind != "reduce"]
    return Around(tuple(loops), shared)


def lanes_of(plan: SumPlan, machine: Machine, bits: int) -> dict[IterVar, int]:
    """How many values of each of its axes go into the vectors of one step: of a reduce axis a power of two."""
    width = plan.vectors * machine.lanes(bits)
    lane, *others = plan.lane
    if others:
        return {each: _extent(each) for each in plan.lane}
    return {lane: power_below(min(width, _extent(lane))) if lane.kind == "reduce" else min(width, _extent(lane))}


def sum_nest(
    value: Reduce,
    stored: Access,
    loads: Loads,
    plan: SumPlan,
    machine: Machine,
    written_out: Sequence[IterVar],
    around: Around,
) -> Nest:
    """The nest of the sum `value`, with the copies that it reads. stored: the element of its result, at the data axes; loads:
    those of `value`. written_out: the reduce axes whose loops are."""
    rows, lanes = dict(plan.rows), lanes_of(plan, machine, value.dtype.bits)
    width = plan.vectors * machine.lanes(value.dtype.bits)
    copies = [
        loads.copied(load, plan.lane[0] if plan.lane[0] in load_axes(load) else None, width, value.axes)
        for load in plan.packed
    ]
    beside = {**loads.reads, **{id(load): copy.beside for load, copy in zip(plan.packed, copies, strict=True)}}
    reads = {**loads.reads, **{id(load): copy.read for load, copy in zip(plan.packed, copies, strict=True)}}
    tile: dict[IterVar, int] = {**rows, **{each: _extent(each) for each in written_out if each not in lanes}}
    copied = all(load in plan.packed for load in collect_loads(value) if not load_axes(load).isdisjoint(lanes))
    machine = replace(machine, padded=True) if copied else machine  # a copy can be read beyond its end

    def of_lanes(values: int) -> tuple[Nest | Body, ...]:
        """A tile with so many lanes, where they are along one axis."""
        each = lanes if len(lanes) > 1 else dict.fromkeys(lanes, values)
        return _summed(value, plan, tile, each, machine, reads, beside), _end(value, stored, rows, each, machine)

    whole = lanes[plan.lane[0]]
    rest = _extent(plan.lane[0]) % whole if len(lanes) == 1 and plan.lane[0].kind != "reduce" else 0
    fewer = rest and (not machine.masks or ceil(rest * plan.vectors / width) < plan.vectors)

    def within(at: int, values: int) -> tuple[Nest | Body, ...]:
        """What is inside of so many of the loops, of which the last vectors are fewer, or not whole."""
        if at == len(around.loops):
            return of_lanes(values)
        each, trips = around.loops[at]
        shared = at < around.shared
        copying: tuple[Nest | Body, ...] = ()
        if at + 1 == around.panels:
            read: dict[Var, int] = {**dict.fromkeys(value.axes, 0), **dict(around.loops[at + 1 :])}
            copying = tuple(_copying(copy, machine, read, lanes) for copy in copies if copy.along is not None)
        last = int(fewer and each in lanes and (not shared or machine.cores == 1))
        parts = [(trips - last, whole), *([(1, rest)] if last else [])]
        return tuple(
            Nest(each, count, (*copying, *within(at + 1, values if each not in lanes else wide)), shared)
            for count, wide in parts
            if count
        )

    inside = within(0, whole)
    ahead = [_copying(copy, machine, None, lanes) for copy in copies if around.panels is None or copy.along is None]
    nests = (*ahead, *inside)
    return nests[0] if len(nests) == 1 and isinstance(nests[0], Nest) else Nest(None, 1, nests)


def _summed(
    value: Reduce,
    plan: SumPlan,
    tile: Mapping[IterVar, int],
    lanes: Mapping[IterVar, int],
    machine: Machine,
    reads: Reads,
    beside: Reads,
) -> Nest | Body:
    """The loops over reduce axes around the terms of a tile."""
    steps = [(each, _extent(each)) for each in value.axes if each not in tile and each not in lanes]
    steps += [(each, ceil(_extent(each) / values)) for each, values in lanes.items() if each.kind == "reduce"]
    body = _terms(value, plan, tile, lanes, steps[-1][0] if steps else None, machine, reads, beside)
    return nest_loops((body,), steps) if steps else body


@dataclass(frozen=True, eq=False)
class _Copy:
    """A tensor that is read in another order than it has. source: its elements, at `at`, an axis or a variable of its own for each
    of its dimensions; read: those of the copy; beside: the same as if panels were rows, for how lanes lie. along: the axis in whose
    panels the copy is. turned: whether neighbours in the copy are no neighbours in the tensor."""

    source: Access
    read: Access
    beside: Access
    at: tuple[tuple[Var, int], ...]
    along: IterVar | None
    turned: bool


def _copied(load: ProducerLoad, source: Access, lane: IterVar | None, width: int, reduced: Sequence[IterVar]) -> _Copy:
    """As packs.pack makes it."""
    order, summed, place = order_of(load, lane, reduced)
    at = [index if isinstance(index, IterVar) else Var(f"at{number}") for number, index in enumerate(load.indices)]
    extents = [extent if isinstance(extent, int) else ASSUMED for extent in source.shape]

    def indices(of: Sequence[Expr]) -> tuple[Expr, ...]:
        dims = [of[each] for each in (*order, *summed)]
        return tuple(
            dims if place is None else [*dims[: len(order)], of[place] // width, *dims[len(order) :], of[place] % width]
        )

    shape = [extents[each] for each in (*order, *summed)]
    if place is not None:
        shape = [*shape[: len(order)], ceil(extents[place] / width), *shape[len(order) :], width]
    inner = place if place is not None else [*order, *summed][-1]
    flat = [each for each in (*order, *summed) if each != place] + ([place] if place is not None else [])
    beside = Access(source.array, tuple(load.indices[each] for each in flat), tuple(extents[each] for each in flat))
    return _Copy(
        Access(source.array, tuple(at), source.shape),
        Access(source.array, indices(load.indices), tuple(shape)),
        beside,
        tuple(zip(at, extents, strict=True)),
        lane,
        inner != len(extents) - 1,
    )


def _copying(copy: _Copy, machine: Machine, within: Mapping[Var, int] | None, lanes: Mapping[IterVar, int]) -> Nest:
    """The loops of a copy: of all of it, or of one panel. within: then the loops inside of which it is read, each with its
    iterations, 0 for all."""
    width = machine.lanes(copy.source.bytes * 8)
    trips = {
        var: extent
        if within is None
        else lanes[var]
        if var is copy.along and isinstance(var, IterVar)
        else (within[var] or extent)
        if var in within
        else 1
        for var, extent in copy.at
    }
    inner = copy.along if copy.along is not None else _last(copy.read)
    side = {inner: width}
    count: dict[str, float] = {"load": 1, "store": 1}
    if copy.turned:
        side[copy.at[-1][0]] = width
        count = {"load": width, "store": width, "shuffle": width * log2(width)}
    written = replace(copy.read, stored=True)
    body = Body(count, (copy.source, written), tuple(side.items()))
    loops = [(var, ceil(extent / side.get(var, 1))) for var, extent in reversed(trips.items()) if var is not inner]
    loops += [(inner, ceil(trips[inner] / side[inner]))] if inner in trips else []
    return nest_loops((body,), loops, parallel=within is None)


def _last(access: Access) -> Var:
    """The variable of the last index."""
    return access.variables[-1]


def _extent(axis: IterVar) -> int:
    extent = constant_extent(axis)
    return ASSUMED if extent is None else extent


Reads = Mapping[int, Access]
"""The elements that loads read, by the loads' identities."""


class Loads:
    """The loads of a sum, for all plans of it: what they read, and the copies that they read of some plan."""

    def __init__(self, value: Expr) -> None:
        self.reads: Reads = {id(load): load_access(load) for load in collect_loads(value)}
        self.copies: dict[tuple[int, IterVar | None, int], _Copy] = {}

    def copied(self, load: ProducerLoad, lane: IterVar | None, width: int, reduced: Sequence[IterVar]) -> _Copy:
        """What a load reads of a copy (see packs.pack)."""
        key = id(load), lane, width
        copy = self.copies.get(key)
        if copy is None:
            copy = self.copies[key] = _copied(load, self.reads[id(load)], lane, width, reduced)
        return copy


def _terms(
    value: Reduce,
    plan: SumPlan,
    tile: Mapping[IterVar, int],
    lanes: Mapping[IterVar, int],
    around: IterVar | None,
    machine: Machine,
    reads: Reads,
    beside: Reads,
) -> Body:
    """A term of each result of a tile."""
    (source,) = value.sources
    links = prod(size for axis, size in tile.items() if axis.kind == "reduce")
    fused, waiting = (
        _is_fused(value),
        sum(chain_links(node) for node in post_order(*value.combiner.result) if instruction_class(node)),
    )
    count = _count(value, tile, lanes, around, machine, beside)
    width, sums, values = machine.lanes(value.dtype.bits), prod(size for _, size in plan.rows), prod(lanes.values())
    apart = values % width > 0 and not machine.masks
    if apart:  # sums that fill no registers stay in memory
        whole = sums * (values // width)
        count.update({"load": whole, "store": whole, "masked": 2 * sums})
    many = count_vectors(lanes, lanes, width)
    kept = [
        (_kept(load_axes(load), plan.rows), not load_axes(load).isdisjoint(lanes)) for load in collect_loads(source)
    ]
    held = many * (sums + max(1, sum(count for count, along in kept if along)) + _scratch(value))
    held += max(
        1,
        sum(count for count, along in kept if not along),
        sum(_shared(beside[id(load)], tile, lanes) for load in collect_loads(source)),
    )
    spilled = max(held - machine.registers, 0)
    if spilled:  # sums that are kept in memory
        count["load"] += spilled * links
        count["store"] += spilled * links
    chain = ("fma", links) if fused else (_last_class(value), links * max(waiting, 1))
    return Body(count, tuple(reads.values()), (*tile.items(), *lanes.items()), chain, links if spilled else int(apart))


def _is_fused(value: Reduce) -> bool:
    """Whether a product is one instruction with the sum that takes it up."""
    return is_fused(value, 0) and isinstance(value.sources[0], Mul)


def _combining(value: Reduce, machine: Machine) -> list[str]:
    """The classes of what takes up a term."""
    return [name for node in post_order(*value.combiner.result) for name in instruction_classes(node, machine)]


def _last_class(value: Reduce) -> str:
    """That of what a sum waits for."""
    return next(
        (
            instruction_class(node)
            for node in reversed(list(post_order(*value.combiner.result)))
            if instruction_class(node)
        ),
        "add",
    )


def _count(
    value: Reduce,
    tile: Mapping[IterVar, int],
    lanes: Mapping[IterVar, int],
    around: IterVar | None,
    machine: Machine,
    beside: Reads,
) -> Counter[str]:
    """The instructions of a term of each result of a tile, and of what takes it up."""
    (source,) = value.sources
    fused = _is_fused(value)
    values = [source.a, source.b] if fused and isinstance(source, Mul) else [source]
    loops = {around} if around is not None else set[IterVar]()
    count: Counter[str] = count_instructions(values, machine, tile, lanes, loops, lambda load: beside[id(load)])
    width, wide = machine.lanes(value.dtype.bits), prod(lanes.values())
    if wide > width and wide % width and not machine.masks:
        wide = 1 << (wide - 1).bit_length()  # LLVM's vectors have a power of two of lanes
    for name in ["fma"] if fused else _combining(value, machine):
        count[name] += prod(tile.values()) * ceil(wide / width)
    return count


def _kept(axes: Collection[IterVar], rows: Sequence[tuple[IterVar, int]]) -> int:
    """Elements, or vectors, of a load that stay in registers while the rows of a tile are written out, the first outermost: those
    that the next value of a row further out reads again."""
    count, again = 1, False
    for axis, size in rows:
        if axis not in axes:
            again = True
        elif again:
            count *= size
    return count


def _scratch(value: Reduce) -> int:
    """Registers for what operators make of each vector: two where signs are looked at, by a constant or in both orders; none where
    elements are multiplied alone."""
    (source,) = value.sources
    if (
        _is_fused(value)
        and isinstance(source, Mul)
        and all(isinstance(factor, ProducerLoad) for factor in (source.a, source.b))
    ):
        return 0
    signs = any(
        isinstance(node, (Min, Max)) or isinstance(node, Call) and node.name == "abs"
        for node in post_order(*value.sources, *value.combiner.result)
    )
    return 2 if signs else 1


def _shared(read: Access, tile: Mapping[IterVar, int], lanes: Mapping[IterVar, int]) -> int:
    """Elements of a tile that a window reads where its next term reads most of them too; 0 where each term takes its own."""
    own: dict[Var, int] = {axis: size for axis, size in tile.items() if read.step(axis)}
    if any(read.step(axis) for axis in lanes):
        return 0
    elements = value_of(product(box_of(read, own))) or 0
    if elements == prod(own.values()):
        return 0
    return prod(size for axis, size in tile.items() if axis in own and axis.kind != "reduce")


def _end(
    value: Reduce, stored: Access, rows: Mapping[IterVar, int], lanes: Mapping[IterVar, int], machine: Machine
) -> Body:
    """What becomes of the sums of a tile: those of lanes are added up by halves, and all are stored."""
    bits, results = value.dtype.bits, prod(rows.values())
    count: Counter[str] = Counter()
    inner = dict(rows)
    if any(each.kind == "reduce" for each in lanes):
        many = count_vectors(lanes, lanes, machine.lanes(value.dtype.bits))
        halves = log2(machine.lanes(bits))
        count.update({"add": int(results * (many - 1 + halves)), "shuffle": int(results * halves), "put": results})
    else:
        name, many = classify_access(stored, lanes, machine)
        if name == "gather":  # lanes taken out and stored one by one
            count.update({"shuffle": results * prod(lanes.values()), "put": results * prod(lanes.values())})
        else:
            count[name] = results * many
        inner.update(lanes)
    return Body(count, (stored,), tuple(inner.items()))
