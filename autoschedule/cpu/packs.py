"""Copies of what a sum reads, in the order in which its tile reads it.

    C[a, b, c] = sum over d of  A[d, c, a] * B[b, d]          lanes over c, rows over a

    A reads lanes beside each other, but the next d is a matrix away; copied, it is A[c // 16, a, d, c % 16], each step's vectors
    behind those of the step before; B, read along d, stays

Such a copy costs a few operations on vectors for each of the tensor's, once; read in place, the tensor costs more at each step.
Pure functions, but for `pack`, which applies primitives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING

from ...base.dataclass import dataclass
from ...codegen.machine import Machine
from ...ir.expr import Expr, IterVar, ProducerLoad
from ...te.tensor import Tensor
from ..accesses import contiguous_axes, find_axes, load_axes, numeric_shape
from ..cost.vectors import APART, PACKED, PARTIAL, SECOND
from ..loops import fuse_axes
from .injective import sweep
from .threads import worth_threads
from .transposes import MAX_TILE

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["Read", "is_movable", "copy_order", "pack", "packs", "find_reads"]


@dataclass(frozen=True)
class Read:
    """A load that may be of a copy. along: whether lanes run along it. excess: operations on vectors that each step loses where it
    is not of a copy, for each of the tile's values along `axes`. gathered: whether its vectors would be put together element by
    element. cost: of the copy, in operations on vectors. beside: rows of which a tile reads neighbouring elements. twins: axes by
    which the same tensor is read elsewhere in the dimension of the lanes: a tile's rows of them must not cross panels."""

    load: ProducerLoad
    axes: frozenset[IterVar]
    along: bool
    excess: float
    gathered: bool
    cost: float
    beside: frozenset[IterVar]
    twins: frozenset[IterVar]
    lanes: int


def indexed_dim(load: ProducerLoad, axis: IterVar) -> int | None:
    """The dimension that is indexed by this axis alone; None where there is none, or others depend on it too."""
    places = [at for at, index in enumerate(load.indices) if axis in find_axes(index)]
    return places[0] if len(places) == 1 and load.indices[places[0]] is axis else None


def is_movable(load: ProducerLoad, axis: IterVar, loads: Sequence[ProducerLoad]) -> bool:
    """Return whether lanes along `axis` can be put side by side in a copy of the tensor, for all loads of it."""
    place = indexed_dim(load, axis)
    others = [other for other in loads if other.producer is load.producer and other is not load]
    return (
        place is not None
        and len(load.indices) > 1
        and all(isinstance(other.indices[place], IterVar) for other in others)
    )


def find_reads(
    loads: Sequence[ProducerLoad],
    reduced: Sequence[IterVar],
    machine: Machine,
    lane: Sequence[IterVar],
    bits: int,
    movable: Collection[Tensor],
) -> Iterator[Read]:
    """The loads of tensors that may be copied, for lanes over data axes. reduced: the axes of the sum, in its order."""
    if not lane or lane[0].kind == "reduce" or not reduced:
        return
    lanes = machine.lanes(bits)
    for load in loads:
        axes, side_by_side = load_axes(load), contiguous_axes(load)
        if load.producer not in movable or axes.isdisjoint(reduced):
            continue
        assert isinstance(load.producer, Tensor)
        vectors = prod(numeric_shape(load.producer, 1)) / lanes
        size = vectors * machine.vector_bytes
        cost = vectors * PACKED.of(size, machine)
        own = machine.lanes(load.dtype.bits)
        others = [other for other in loads if other.producer is load.producer and other is not load]
        if not axes.isdisjoint(lane):
            place = indexed_dim(load, lane[0])
            if len(lane) == 1 and place is not None and is_movable(load, lane[0], loads):
                apart = lane[0] not in side_by_side
                twins = frozenset(index for other in others if isinstance(index := other.indices[place], IterVar))
                excess = lanes - 1 if apart else APART.of(size, machine)
                yield Read(load, axes, True, excess, apart, cost, frozenset(), twins, own)
        elif not others and reduced[-1] in axes and reduced[-1] not in side_by_side and _is_ordered(load, reduced):
            yield Read(
                load, axes, False, PARTIAL.of(size, machine), False, cost, frozenset(side_by_side), frozenset(), own
            )


def _is_ordered(load: ProducerLoad, reduced: Sequence[IterVar]) -> bool:
    """Return whether each dimension that an axis of the sum indexes is indexed by that alone."""
    return all(isinstance(index, IterVar) or find_axes(index).isdisjoint(reduced) for index in load.indices)


def packs(
    reads: Sequence[Read],
    machine: Machine,
    width: int,
    rows: Sequence[tuple[IterVar, int]],
    steps: float,
    depth: int,
    terms: int,
) -> tuple[tuple[ProducerLoad, ...], float]:
    """Choose the operands to copy for such a tile, and the operations on vectors for each term that reading them takes more than loading
    them would if they lay well, in the first cache. width: lanes of the tile; steps: for each term; depth: terms of a sum; terms:
    how many there are in all."""
    chosen: list[ProducerLoad] = []
    more = 0.0
    for read in reads:
        values, left, fits = 1, read.excess * steps, True
        for axis, size in rows:
            values *= size if axis in read.axes else 1
            left /= size if axis in read.beside else 1
            fits = fits and not (axis in read.twins and width % size)
        vectors = width // read.lanes if read.along else 1
        left *= values * (vectors if read.gathered else 1)
        copied = read.cost / terms
        if (
            fits and copied < left and all(load.producer is not read.load.producer for load in chosen)
        ):  # one copy serves all reads
            chosen.append(read.load)
        more += min(copied, left) if fits else left
        if read.along and depth * width * read.load.dtype.bytes > machine.l1:
            more += SECOND * vectors * values * steps
    return tuple(chosen), more


def copy_order(
    load: ProducerLoad, lane: IterVar | None, reduced: Sequence[IterVar]
) -> tuple[list[int], list[int], int | None]:
    """The dimensions of a tensor in the order of its copy: those that stay outermost, those that the sum runs along, and that of
    the lanes, which is divided into panels around these, and lies innermost."""
    place = indexed_dim(load, lane) if lane is not None else None
    order = [at for at, index in enumerate(load.indices) if at != place and find_axes(index).isdisjoint(reduced)]
    summed = sorted(
        (at for at in range(len(load.indices)) if at != place and at not in order),
        key=lambda at: max(reduced.index(axis) for axis in find_axes(load.indices[at]) if axis in reduced),
    )
    return order, summed, place


def pack(
    group: Group,
    load: ProducerLoad,
    lane: IterVar | None,
    width: int,
    reduced: Sequence[IterVar],
    whole: bool,
) -> Stage:
    """Make the copy, and return its stage. lane: the axis whose values lie side by side in panels of `width`; None: the last one
    of the sum. whole: it is made at once, on all threads, and not panel by panel where it is read."""
    s = group.s
    assert isinstance(load.producer, Tensor)
    copy = s.cache_read(load.producer, "global", [group.anchor])
    order, summed, place = copy_order(load, lane, reduced)
    last = len(load.indices) - 1

    def places(*at: Expr) -> list[Expr]:
        outer, inner = [at[each] for each in order], [at[each] for each in summed]
        return [*outer, *inner] if place is None else [*outer, at[place] // width, *inner, at[place] % width]

    moved = s[copy].transform_layout(places, 0)
    assert moved is not None
    if place is None:
        sweep(group, copy.op)
        return s[copy]
    stage, vector = s[copy], moved[-1]
    loops = list(moved[:-1])
    if (
        last != place
    ):  # read along another dimension than it is stored: turned in registers, a square of vectors at a time
        lanes = min(group.machine.lanes(load.dtype.bits), MAX_TILE)
        across = moved[order.index(last) if last in order else len(order) + 1 + summed.index(last)]
        blocks, across_in = stage.split(across, factor=lanes)
        vectors, vector = stage.split(vector, factor=lanes)
        loops[loops.index(across)] = blocks
        stage.reorder(*loops, vectors, across_in, vector)
        stage.unroll(across_in)
    stage.vectorize(vector)
    if whole and worth_threads(moved):
        stage.parallel(fuse_axes(stage, loops[: len(order) + 1]))
    return stage
