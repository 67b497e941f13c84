"""How a reduction of any form is computed: which axis goes into vectors, and which results are computed together.

Only accesses are looked at. What does not depend on an axis of the tile is loaded, or computed, once for all of the tile's
results along it; what is read along the lanes in one piece is one vector, what is read apart is as many loads as there are lanes.

    out[y, j, o, c] = sum over x of  head[o, y, 8 j + x] * image[c, y, 8 j + x]
        lanes over x, a tile of all o and c:  for each vector of x, |o| + |c| loads for |o| |c| multiply-adds

Pure functions of an operation's expression and the machine. A plan's cost is in operations on vectors for each term of the sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log2, prod
from typing import TypeAlias

from ...codegen.machine import Machine
from ...ir.analysis.linear import is_index
from ...ir.cached import cached_property
from ...ir.expr import Expr, FloorDiv, IntImm, IterVar, Mul, Node, ProducerLoad, Reduce, Var
from ...ir.visit import children, post_order
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..operations import axes_in, axes_of, contiguous, depends_on
from .packs import Read, is_movable, packs, reads_of

__all__ = ["SumPlan", "Terms", "best_plan", "gathers", "plans", "terms_of"]

FACTORS = (1, 2, 3, 4, 6, 8, 12)
"""Values of an axis that a tile may have of it, beside all."""
MOST_OPERATORS = 192
"""Operations on vectors in one step: longer bodies take long to compile, and gain nothing."""
CUT = 1.05
"""What an axis costs that is not whole in the tile: conditions on it are not known where its loop is written out."""
SCATTERED, SCATTERED_FAR = 3, 16
"""Operations on vectors in whose time a result is stored that does not lie beside the others of its vector: where the second cache
holds all results, and where it does not."""
MOST_ROWS = 4
"""Axes that a tile is chosen over."""
VECTORS = (1, 2, 3, 4)
ASSUMED = 1024
"""Taken for an extent that the call decides."""


@dataclass(frozen=True)
class SumPlan:
    """lane: the axes whose elements go into vectors as one axis, the last data axes or one reduce axis. vectors: how many at a
    step. rows: other data axes, and how many of each one's values are computed together. cost: operations on vectors for each
    term. packed: the loads whose tensors are copied first, in the order in which the tile reads them."""

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
    """What one term of a sum takes: its operators by the axes that they depend on, its loads, and the loops."""

    operators: tuple[tuple[frozenset[IterVar], int], ...]
    loads: tuple[ProducerLoad, ...]
    axis: tuple[IterVar, ...]
    reduce_axis: tuple[IterVar, ...]
    bits: int

    @cached_property
    def extents(self) -> dict[IterVar, int]:
        """Of its loops."""
        return {axis: constant_extent(axis) or ASSUMED for axis in (*self.axis, *self.reduce_axis)}

    @cached_property
    def depth(self) -> int:
        """How many terms a sum has."""
        return prod(self.extents[axis] for axis in self.reduce_axis)

    @cached_property
    def results(self) -> int:
        """How many sums there are."""
        return prod(self.extents[axis] for axis in self.axis)


def terms_of(value: Expr, axis: Sequence[IterVar]) -> Terms | None:
    """Those of the reduction `value` over the data axes `axis`; None where it reduces tuples, or how long depends on the result."""
    if not isinstance(value, Reduce) or len(value.sources) != 1 or any(depends_on(each) for each in value.axes):
        return None
    operators: Counter[frozenset[IterVar]] = Counter()
    loads: list[ProducerLoad] = []
    source = value.sources[0]
    for node, axes in _with_axes(source):
        if node is source and isinstance(node, Mul):  # one operation with the sum
            continue
        if not axes.isdisjoint(value.axes):  # what no term changes is computed before the sum
            if isinstance(node, ProducerLoad):
                loads.append(node)
            else:
                operators[axes] += 1
    return Terms(tuple(operators.items()), tuple(loads), tuple(axis), value.axes, source.dtype.bits)


def _with_axes(value: Expr) -> Iterator[tuple[Expr, frozenset[IterVar]]]:
    """The loads and operators of an expression, each once, with the axes that it depends on. Arithmetic of indices is free:
    loops do it."""
    axes: dict[int, frozenset[IterVar]] = {}
    for node in post_order(value, below=_outside_of_indices):
        if isinstance(node, ProducerLoad):
            axes[id(node)] = axes_of(node)
        elif isinstance(node, Var):
            axes[id(node)] = frozenset({node} if isinstance(node, IterVar) else ())
        else:
            axes[id(node)] = frozenset[IterVar]().union(*(axes[id(child)] for child in children(node)))
        if isinstance(node, Expr) and axes[id(node)] and not is_index(node):
            yield node, axes[id(node)]


def _outside_of_indices(node: Node) -> Sequence[Node]:
    return [] if isinstance(node, ProducerLoad) else children(node)


# Costs


def best_plan(
    terms: Terms, machine: Machine, lane: tuple[IterVar, ...] | None = None, vectors: Sequence[int] = VECTORS,
    movable: Collection[Tensor] = (),
) -> SumPlan | None:
    """The cheapest plan, of those with the given lane where there is one. movable: tensors that may be copied into another order
    first. None where there is nothing to put into vectors."""
    return min(plans(terms, machine, lane, vectors, movable), key=lambda plan: plan.cost, default=None)


def plans(
    terms: Terms, machine: Machine, lane: tuple[IterVar, ...] | None = None, vectors: Sequence[int] = VECTORS,
    movable: Collection[Tensor] = (),
) -> Sequence[SumPlan]:
    """All of them, of those with the given lane where there is one."""
    return _all_plans(terms, machine, lane, tuple(vectors), frozenset(movable))


@lru_cache(maxsize=4)  # who weighs them against something else asks again to choose
def _all_plans(
    terms: Terms, machine: Machine, lane: tuple[IterVar, ...] | None, vectors: tuple[int, ...], movable: frozenset[Tensor],
) -> tuple[SumPlan, ...]:
    lanes = [lane] if lane is not None else [*_data_lanes(terms, movable), *_reduce_lanes(terms)]
    return tuple(plan for axes in lanes for plan in _plans(terms, machine, axes, vectors, movable))


def _plans(
    terms: Terms, machine: Machine, lane: tuple[IterVar, ...], vectors: Sequence[int], movable: Collection[Tensor],
) -> Iterator[SumPlan]:
    room = machine.registers * 3 // 4
    reads = list(reads_of(terms.loads, terms.reduce_axis, machine, lane, terms.bits, movable))
    work, lanes = _work(terms, machine, lane, reads), machine.lanes(terms.bits)
    count = terms.depth * terms.results
    if len(lane) > 1:
        vectors = [ceil(prod(terms.extents[axis] for axis in lane) / lanes)]
    widths = {many: _steps_of_lanes(terms, machine, lane, many) for many in vectors}
    for rows in _tiles(_rows(terms, lane), room):
        taken, shares = prod([size for _, size in rows]), _shares_of_rows(terms, rows)
        along, once = _step(work, rows)
        for many in vectors:
            if taken * many <= room:
                step = along * many + once
                if step <= MOST_OPERATORS or taken * many == 1:
                    steps = prod(shares, start=widths[many])
                    packed, more = packs(reads, machine, many * lanes, rows, steps, terms.depth, count) if reads else ((), 0.0)
                    yield SumPlan(lane, many, rows, _cost(terms, machine, lane, many, rows, step, steps) + more, packed)


def cost_of(terms: Terms, machine: Machine, lane: tuple[IterVar, ...], vectors: int) -> float:
    """Operations on vectors for each term, one result at a time; lane: () for one element at a time."""
    along, once = _step(_work(terms, machine, lane), ())
    return _cost(terms, machine, lane, vectors, (), along * vectors + once, _steps_of_lanes(terms, machine, lane, vectors))


def _cost(
    terms: Terms, machine: Machine, lane: tuple[IterVar, ...], vectors: int, rows: Sequence[tuple[IterVar, int]], step: float,
    steps: float,
) -> float:
    reduced = bool(lane) and lane[0].kind == "reduce"
    across = (vectors - 1 + 2 * log2(machine.lanes(terms.bits))) / terms.depth if reduced else 0
    apart = 0.0
    if lane and not reduced and lane[-1] is not terms.axis[-1]:
        each = SCATTERED if terms.results * terms.bits // 8 <= machine.l2 else SCATTERED_FAR
        apart = each / terms.depth / dict(rows).get(terms.axis[-1], 1)
    return steps * max(step, machine.accumulators) + across + apart


def _steps_of_lanes(terms: Terms, machine: Machine, lane: tuple[IterVar, ...], vectors: int) -> float:
    """How many steps are made for each term along the lanes: fewer than one, the more results a step computes at once."""
    width = vectors * machine.lanes(terms.bits) if lane else 1
    length = prod([terms.extents[axis] for axis in lane])
    return ceil(length / width) / length


def _shares_of_rows(terms: Terms, rows: Sequence[tuple[IterVar, int]]) -> list[float]:
    """The same along each of the rows of a tile."""
    extents = terms.extents
    return [ceil(extents[axis] / size) / extents[axis] * (1 if size == extents[axis] else CUT) for axis, size in rows]


_Work: TypeAlias = Mapping[tuple[frozenset[IterVar], bool], float]
"""What a term takes, by the axes that it depends on, and whether the lanes' are among them."""


def _work(terms: Terms, machine: Machine, lane: tuple[IterVar, ...], reads: Sequence[Read] = ()) -> _Work:
    movable = {id(read.load) for read in reads}  # that lanes of these are read apart is what their copies save
    data, along, lanes = frozenset(terms.axis) - set(lane), frozenset(lane), machine.lanes(terms.bits)
    work: dict[tuple[frozenset[IterVar], bool], float] = {(data, True): 1}  # the sum
    for axes, count in (*terms.operators, *(
            (axes_of(load), lanes if id(load) not in movable and gathers(load, lane, lanes) else 1) for load in terms.loads)):
        key = axes & data, not axes.isdisjoint(along)
        work[key] = work.get(key, 0) + count
    return work


def _step(work: _Work, rows: Sequence[tuple[IterVar, int]]) -> tuple[float, float]:
    """Operations of one step, a term of each result of the tile: for each of its vectors, and once for all of them."""
    along = once = 0.0
    for (axes, vectors), count in work.items():
        for axis, size in rows:
            if axis in axes:
                count *= size
        if vectors:
            along += count
        else:
            once += count
    return along, once


def gathers(load: ProducerLoad, lane: Sequence[IterVar], lanes: int) -> bool:
    """Whether the elements that neighbouring lanes read lie neither side by side nor at one place."""
    along = set(lane)
    varying = [index for index in load.indices if not along.isdisjoint(_quick(index, lanes))]
    if not varying:
        return False
    if len(lane) == 1:
        return lane[0] not in contiguous(load)
    return not _in_one_piece(load, lane)


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
        along = [load for load in terms.loads if axis in axes_of(load)]
        if along and (constant_extent(axis) or 0) > 1 and all(
                axis in contiguous(load) or (load.producer in movable and is_movable(load, axis, terms.loads)) for load in along):
            yield (axis,)
    for count in range(1, len(terms.axis) + 1):
        lane = terms.axis[-count:]
        if any(constant_extent(axis) == 0 for axis in lane):
            return
        reading = [load for load in terms.loads if not axes_of(load).isdisjoint(lane)]
        if count > 1 and not all(_in_one_piece(load, lane) for load in reading):
            return
        yield lane


def _in_one_piece(load: ProducerLoad, lane: Sequence[IterVar]) -> bool:
    """Whether a load's last dimensions are these axes, over their whole extents but for the first one's."""
    count = len(lane)
    if len(load.indices) < count or any(not set(lane).isdisjoint(axes_in(index)) for index in load.indices[:-count]):
        return False
    whole = all(isinstance(extent, IntImm) and extent.value == constant_extent(axis)
                for extent, axis in zip(load.producer.shape[1 - count:], lane[1:], strict=True)) if count > 1 else True
    return whole and all(index is axis for index, axis in zip(load.indices[-count:], lane, strict=True))


def _reduce_lanes(terms: Terms) -> Iterator[tuple[IterVar, ...]]:
    along = {axis for load in terms.loads for axis in contiguous(load)}
    return ((axis,) for axis in reversed(terms.reduce_axis) if axis in along and (constant_extent(axis) or 0) > 1)


def _rows(terms: Terms, lane: Sequence[IterVar]) -> list[IterVar]:
    """The data axes that some load does not depend on, or some operation on vectors."""
    used = [*map(axes_of, terms.loads), *(axes for axes, _ in terms.operators if not axes.isdisjoint(lane))]
    return [axis for axis in terms.axis if axis not in lane and (constant_extent(axis) or 0) > 1
            and any(axis not in axes for axes in used)][-MOST_ROWS:]


def _tiles(axes: Sequence[IterVar], room: int) -> Iterator[tuple[tuple[IterVar, int], ...]]:
    """Tiles of at most `room` results over some of these axes."""
    if not axes:
        yield ()
        return
    axis, *others = axes
    extent = constant_extent(axis) or 1
    for size in sorted({size for size in (*FACTORS, extent) if size <= min(extent, room)}):
        for rest in _tiles(others, room // size):
            yield ((axis, size), *rest) if size > 1 else rest
