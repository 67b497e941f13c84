"""Plans of reductions of any form: the axis that goes into vectors, and the results that are computed together.

Only accesses are looked at. What does not depend on an axis of the tile is loaded, or computed, once for all of the tile's
results along it; what is read along the lanes in one piece is one vector, what is read apart is as many loads as there are lanes.

    out[y, j, o, c] = sum over x of  head[o, y, 8 j + x] * image[c, y, 8 j + x]
        lanes over x, a tile of all o and c:  for each vector of x, |o| + |c| loads for |o| |c| multiply-adds

Pure functions of an operation's expression and the machine. A plan's cost is in operations on vectors for each term of the sum.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from math import ceil, inf, log2, prod
from typing import NamedTuple, TypeAlias

from ...base.dataclass import dataclass
from ...codegen.machine import Machine
from ...ir import Expr, FloorDiv, IntImm, IterVar, Mul, Node, ProducerLoad, Reduce, Var, children, post_order
from ...ir.analysis.linear import is_index
from ...ir.lazy_values import cached_property
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..accesses import ASSUMED, contiguous_axes, domain_axes, find_axes, load_access, load_axes
from ..cost.doubts import CUT, WORSE
from ..cost.vectors import SCATTERED
from .lanes import VECTORS
from .packs import Read, find_reads, is_movable, packs

__all__ = ["MOST_OPERATORS", "SumPlan", "Terms", "best_plan", "gathers", "plans", "find_terms"]

FACTORS = (1, 2, 3, 4, 6, 8, 12)
"""Values of an axis that a tile may have of it, beside all."""
MOST_OPERATORS = 200
"""Operations on vectors in one step: longer bodies take long to compile, and gain nothing."""
MOST_ROWS = 4
"""Axes that a tile is chosen over."""


@dataclass(frozen=True)
class SumPlan:
    """Plan of a reduction on a CPU.

    lane: the axes whose elements go into vectors as one axis, the last data axes or one reduce axis. vectors: how many at a
    step. rows: other data axes, and how many of each one's values are computed together. cost: operations on vectors for each
    term. packed: the loads whose tensors are copied first, in the order in which the tile reads them.
    """

    lane: tuple[IterVar, ...]
    vectors: int
    rows: tuple[tuple[IterVar, int], ...]
    cost: float
    packed: tuple[ProducerLoad, ...] = ()

    def __str__(self) -> str:
        tile = "".join(f" x {axis.name} {size}" for axis, size in self.rows)
        copied = "".join(f", {load.producer.name} copied" for load in self.packed)
        return f"{self.vectors} vectors of {' '.join(axis.name for axis in self.lane)}{tile}{copied}"


@dataclass(frozen=True)
class Terms:
    """Cost of one term of a sum: its operators by the axes that they depend on, its loads, and the loops."""

    operators: tuple[tuple[frozenset[IterVar], int], ...]
    loads: tuple[ProducerLoad, ...]
    axis: tuple[IterVar, ...]
    reduce_axis: tuple[IterVar, ...]
    bits: int

    @cached_property
    def extents(self) -> dict[IterVar, int]:
        """Extents of its loops."""
        return {axis: constant_extent(axis) or ASSUMED for axis in (*self.axis, *self.reduce_axis)}

    @cached_property
    def depth(self) -> int:
        """The number of terms of a sum."""
        return prod(self.extents[axis] for axis in self.reduce_axis)

    @cached_property
    def results(self) -> int:
        """The number of sums."""
        return prod(self.extents[axis] for axis in self.axis)


def find_terms(value: Expr, axis: Sequence[IterVar]) -> Terms | None:
    """Return the terms of the reduction `value` over the data axes `axis`; None where it reduces tuples, or their
    number depends on the result.
    """
    if not isinstance(value, Reduce) or len(value.sources) != 1 or any(domain_axes(each) for each in value.axes):
        return None
    operators: Counter[frozenset[IterVar]] = Counter()
    loads: list[ProducerLoad] = []
    source = value.sources[0]
    for node, axes in _walk_with_axes(source):
        if node is source and isinstance(node, Mul):  # one operation with the sum
            continue
        if not axes.isdisjoint(value.axes):  # what no term changes is computed before the sum
            if isinstance(node, ProducerLoad):
                loads.append(node)
            else:
                operators[axes] += 1
    return Terms(tuple(operators.items()), tuple(loads), tuple(axis), value.axes, source.dtype.bits)


def _walk_with_axes(value: Expr) -> Iterator[tuple[Expr, frozenset[IterVar]]]:
    """The loads and operators of an expression, each once, with the axes that it depends on. Arithmetic of indices is free:
    loops do it."""
    axes: dict[int, frozenset[IterVar]] = {}
    for node in post_order(value, below=_value_children):
        if isinstance(node, ProducerLoad):
            axes[id(node)] = load_axes(node)
        elif isinstance(node, Var):
            axes[id(node)] = frozenset({node} if isinstance(node, IterVar) else ())
        else:
            axes[id(node)] = frozenset[IterVar]().union(*(axes[id(child)] for child in children(node)))
        if isinstance(node, Expr) and axes[id(node)] and not is_index(node):
            yield node, axes[id(node)]


def _value_children(node: Node) -> Sequence[Node]:
    return [] if isinstance(node, ProducerLoad) else children(node)


# Costs


def best_plan(
    terms: Terms,
    machine: Machine,
    lane: tuple[IterVar, ...] | None = None,
    vectors: Sequence[int] = range(1, VECTORS + 1),
    movable: Collection[Tensor] = (),
) -> SumPlan | None:
    """The cheapest plan, of those with the given lane where there is one. movable: tensors that may be copied into another order
    first. None where there is nothing to put into vectors."""
    return next(iter(plans(terms, machine, lane, vectors, movable, 1)), None)


def plans(
    terms: Terms,
    machine: Machine,
    lane: tuple[IterVar, ...] | None = None,
    vectors: Sequence[int] = range(1, VECTORS + 1),
    movable: Collection[Tensor] = (),
    number: int | None = None,
) -> list[SumPlan]:
    """The plans, of those with the given lane where there is one, the cheapest first: `number` of them, or those that take no more
    than WORSE times what the best does. How a tile reads is looked at where it could still be one of them."""
    tiles, known = (
        _all_tiles(terms, machine, lane, tuple(vectors), frozenset(movable)),
        list[tuple[float, int, SumPlan]](),
    )
    most = inf
    for tile, order in tiles:
        if tile.least > most:
            break
        plan = tile.plan(terms, machine)
        insort(known, (plan.cost, order, plan))
        most = known[0][0] * WORSE if number is None else known[number - 1][0] if len(known) >= number else inf
    return [plan for _, _, plan in known[:number]]


@lru_cache(maxsize=4)  # who weighs some against something else asks again to choose
def _all_tiles(
    terms: Terms,
    machine: Machine,
    lane: tuple[IterVar, ...] | None,
    vectors: tuple[int, ...],
    movable: frozenset[Tensor],
) -> list[tuple[_Tile, int]]:
    """The tiles that there are, those first that may take least, each with its place among them by axes."""
    lanes = [lane] if lane is not None else [*_data_lanes(terms, movable), *_reduce_lanes(terms)]
    tiles = [tile for axes in lanes for tile in _enumerate_tiles(terms, machine, axes, vectors, movable)]
    return [(tiles[at], at) for at in sorted(range(len(tiles)), key=lambda at: tiles[at].least)]


class _Tile(NamedTuple):
    """Results that a plan computes in a step: so many values of each of these axes, and the operations on vectors for each term if all that
    it reads lay well. steps: made for each term; reads: what may be copied."""

    least: float
    lane: tuple[IterVar, ...]
    vectors: int
    axes: Sequence[IterVar]
    sizes: tuple[int, ...]
    steps: float
    reads: Sequence[Read]

    def plan(self, terms: Terms, machine: Machine) -> SumPlan:
        """Return the plan with what is copied for it."""
        width, count = self.vectors * machine.lanes(terms.bits), terms.depth * terms.results
        rows = tuple([(axis, size) for axis, size in zip(self.axes, self.sizes, strict=True) if size > 1])
        packed, more = packs(self.reads, machine, width, rows, self.steps, terms.depth, count)
        return SumPlan(self.lane, self.vectors, rows, self.least + more, packed)


def _enumerate_tiles(
    terms: Terms,
    machine: Machine,
    lane: tuple[IterVar, ...],
    vectors: Sequence[int],
    movable: Collection[Tensor],
) -> Iterator[_Tile]:
    room = machine.registers * 3 // 4
    reads = tuple(find_reads(terms.loads, terms.reduce_axis, machine, lane, terms.bits, movable))
    work, lanes = _work(terms, machine, lane, reads), machine.lanes(terms.bits)
    if len(lane) > 1:
        vectors = [ceil(prod(terms.extents[axis] for axis in lane) / lanes)]
    widths = {many: _steps_of_lanes(terms, machine, lane, many) for many in vectors}
    ends, fewest = {many: _end(terms, machine, lane, many) for many in vectors}, machine.accumulators
    axes, scattered = _rows(terms, lane), _scattered_stores(terms, machine, lane)
    shares = [{size: _share(terms.extents[axis], size) for size in _sizes(axis, room)} for axis in axes]
    parts = [(count, of_lanes, [axis in found for axis in axes]) for (found, of_lanes), count in work.items()]
    last = axes.index(terms.axis[-1]) if scattered and terms.axis[-1] in axes else None
    for sizes in _tiles(axes, room):
        share, taken = prod([known[size] for known, size in zip(shares, sizes, strict=True)]), prod(sizes)
        along, once = _step(parts, sizes)
        apart = scattered / (sizes[last] if last is not None else 1)
        for many in vectors:
            step = along * many + once
            if taken * many <= room and (step <= MOST_OPERATORS or taken * many == 1):
                steps = widths[many] * share
                yield _Tile(steps * max(step, fewest) + ends[many] + apart, lane, many, axes, sizes, steps, reads)


def count_operations(terms: Terms, machine: Machine, lane: tuple[IterVar, ...], vectors: int) -> float:
    """Operations on vectors for each term, one result at a time; lane: () for one element at a time."""
    parts = [(count, of_lanes, ()) for (_, of_lanes), count in _work(terms, machine, lane).items()]
    along, once = _step(parts, ())
    steps = _steps_of_lanes(terms, machine, lane, vectors)
    return (
        steps * max(along * vectors + once, machine.accumulators)
        + _end(terms, machine, lane, vectors)
        + _scattered_stores(terms, machine, lane)
    )


def _end(terms: Terms, machine: Machine, lane: tuple[IterVar, ...], vectors: int) -> float:
    """Operations on vectors for each term in which lanes that share a sum are added up."""
    reduced = bool(lane) and lane[0].kind == "reduce"
    return (vectors - 1 + 2 * log2(machine.lanes(terms.bits))) / terms.depth if reduced else 0.0


def _scattered_stores(terms: Terms, machine: Machine, lane: tuple[IterVar, ...]) -> float:
    """The same in which results are stored that do not lie beside the others of their vector, one at a time."""
    if not lane or lane[0].kind == "reduce" or lane[-1] is terms.axis[-1]:
        return 0.0
    return SCATTERED.of(terms.results * terms.bits // 8, machine) / terms.depth


def _steps_of_lanes(terms: Terms, machine: Machine, lane: tuple[IterVar, ...], vectors: int) -> float:
    """Return the number of steps that are made for each term along the lanes: fewer than one, the more results a step computes at once."""
    width = vectors * machine.lanes(terms.bits) if lane else 1
    length = prod([terms.extents[axis] for axis in lane])
    return ceil(length / width) / length


def _share(extent: int, size: int) -> float:
    """The same along an axis of which a tile has so many values."""
    return ceil(extent / size) / extent * (1 if size == extent else CUT) if size > 1 else 1.0


_Work: TypeAlias = Mapping[tuple[frozenset[IterVar], bool], float]
"""What a term takes, by the axes that it depends on, and whether the lanes' are among them."""


def _work(terms: Terms, machine: Machine, lane: tuple[IterVar, ...], reads: Sequence[Read] = ()) -> _Work:
    movable = {id(read.load) for read in reads}  # that lanes of these are read apart is what their copies save
    data, along, lanes = frozenset(terms.axis) - set(lane), frozenset(lane), machine.lanes(terms.bits)
    work: dict[tuple[frozenset[IterVar], bool], float] = {(data, True): 1}  # the sum
    for axes, count in (
        *terms.operators,
        *(
            (load_axes(load), lanes if id(load) not in movable and gathers(load, lane, lanes) else 1)
            for load in terms.loads
        ),
    ):
        key = axes & data, not axes.isdisjoint(along)
        work[key] = work.get(key, 0) + count
    return work


def _step(parts: Sequence[tuple[float, bool, Sequence[bool]]], sizes: Sequence[int]) -> tuple[float, float]:
    """Operations of one step, a term of each result of the tile: for each of its vectors, and once for all of them. parts: what a
    term takes, whether the lanes' are among the axes that it depends on, and which of the tile's; sizes: the tile's."""
    along = once = 0.0
    for count, vectors, depends in parts:
        for size, depending in zip(sizes, depends, strict=True):
            if depending:
                count *= size
        if vectors:
            along += count
        else:
            once += count
    return along, once


def gathers(load: ProducerLoad, lane: Sequence[IterVar], lanes: int) -> bool:
    """Return whether the elements that neighbouring lanes read lie neither side by side nor at one place."""
    along = set(lane)
    varying = [index for index in load.indices if not along.isdisjoint(_quick(index, lanes))]
    if not varying:
        return False
    if len(lane) == 1:
        return lane[0] not in contiguous_axes(load) and not load_access(load).repeats(lane[0])
    return not _is_contiguous(load, lane)


def _quick(index: Expr, lanes: int) -> set[IterVar]:
    """The axes whose next value changes an index: not those that are divided by no less than a vector has lanes."""
    found: set[IterVar] = set()
    stack: list[Node] = [index]
    while stack:
        node = stack.pop()
        if isinstance(node, IterVar):
            found.add(node)
        elif not (isinstance(node, FloorDiv) and isinstance(node.b, IntImm) and node.b.value >= lanes):
            stack.extend(children(node))
    return found


# What there is to choose from


def _data_lanes(terms: Terms, movable: Collection[Tensor]) -> Iterator[tuple[IterVar, ...]]:
    """The last data axis, and with it those before it where all is read in one piece along them; and each other one along which
    all is read side by side, or can be copied so."""
    for axis in terms.axis[:-1]:
        along = [load for load in terms.loads if axis in load_axes(load)]
        if (
            along
            and (constant_extent(axis) or 0) > 1
            and all(
                axis in contiguous_axes(load) or (load.producer in movable and is_movable(load, axis, terms.loads))
                for load in along
            )
        ):
            yield (axis,)
    for count in range(1, len(terms.axis) + 1):
        lane = terms.axis[-count:]
        if any(constant_extent(axis) == 0 for axis in lane):
            return
        reading = [load for load in terms.loads if not load_axes(load).isdisjoint(lane)]
        if count > 1 and not all(_is_contiguous(load, lane) for load in reading):
            return
        yield lane


def _is_contiguous(load: ProducerLoad, lane: Sequence[IterVar]) -> bool:
    """Return whether a load's last dimensions are these axes, over their whole extents but for the first one's."""
    count = len(lane)
    if len(load.indices) < count or any(not set(lane).isdisjoint(find_axes(index)) for index in load.indices[:-count]):
        return False
    whole = (
        all(
            isinstance(extent, IntImm) and extent.value == constant_extent(axis)
            for extent, axis in zip(load.producer.shape[1 - count :], lane[1:], strict=True)
        )
        if count > 1
        else True
    )
    return whole and all(index is axis for index, axis in zip(load.indices[-count:], lane, strict=True))


def _reduce_lanes(terms: Terms) -> Iterator[tuple[IterVar, ...]]:
    along = {axis for load in terms.loads for axis in contiguous_axes(load)}
    return ((axis,) for axis in reversed(terms.reduce_axis) if axis in along and (constant_extent(axis) or 0) > 1)


def _rows(terms: Terms, lane: Sequence[IterVar]) -> list[IterVar]:
    """The data axes that some load does not depend on, or some operation on vectors."""
    used = [*map(load_axes, terms.loads), *(axes for axes, _ in terms.operators if not axes.isdisjoint(lane))]
    return [
        axis
        for axis in terms.axis
        if axis not in lane and (constant_extent(axis) or 0) > 1 and any(axis not in axes for axes in used)
    ][-MOST_ROWS:]


def _sizes(axis: IterVar, room: int) -> list[int]:
    """Return the number of values of an axis that a tile of at most `room` results may have."""
    extent = constant_extent(axis) or 1
    return sorted({size for size in (*FACTORS, extent) if size <= min(extent, room)})


def _tiles(axes: Sequence[IterVar], room: int) -> Iterator[tuple[int, ...]]:
    """Tiles of at most `room` results: how many values of each of these axes."""
    tiles: list[tuple[tuple[int, ...], int]] = [((), room)]
    for axis in axes:
        sizes = _sizes(axis, room)
        tiles = [((*tile, size), left // size) for tile, left in tiles for size in sizes if size <= left]
    return (tile for tile, _ in tiles)
