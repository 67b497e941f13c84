"""Chains of reductions over the same axes, and of what stands between them element by element: softmax, norms, variances.

    largest[i] = max over k of x[i, k]            a number for each row
    power[i, k] = exp(x[i, k] - largest[i])       an element of each row
    total[i] = sum over k of power[i, k]          a number for each row
    y[i, k] = power[i, k] / total[i]              the last of the chain

All of them run over the same dimensions, of which some are inside: those that the reductions run over. A row is what differs
in these alone. Each row can be computed from the first to the last while it stays in a cache. What belongs to a chain is seen by
what it reads and at which axes, whoever declared it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

from ...base.dataclass import dataclass
from ...ir.expr import Expr, IterVar, ProducerLoad
from ...ir.ops import is_const
from ...te.operation import Operation, axis_extent
from ...te.shape import same_extent
from ...te.tensor import Tensor
from ..accesses import domain_axes, op_loads
from ..operations import is_plain

__all__ = ["RowChain", "full_load", "match_rows"]

Places: TypeAlias = tuple[int | None, ...]
"""For each axis of an operation the dimension of the chain that it runs along; None for one of extent 1 that runs along none."""


@dataclass(frozen=True)
class RowChain:
    """Chain of operations over rows.

    parts: all but the last operation, producers first. inside: the axes within a row of those operations that are computed for
    each of its elements, the last one perhaps among them; the others are numbers for each row. along: whether the dimension whose
    neighbours lie side by side is inside.
    """

    parts: tuple[Operation, ...]
    inside: Mapping[Operation, tuple[IterVar, ...]]
    along: bool


@dataclass(frozen=True)
class _Space:
    """Dimensions that the operations of a chain share.

    extents: of the dimensions, as they lie in memory; inside: those within a row; last: along which of them the axes of the last
    operation run.
    """

    extents: tuple[Expr, ...]
    inside: frozenset[int]
    last: Places

    def long(self) -> frozenset[int]:
        """The dimensions that have neighbours."""
        return frozenset(at for at, extent in enumerate(self.extents) if not is_const(extent, 1))


def match_rows(
    last: Operation,
    place: Mapping[Operation, int],
    free: Callable[[Operation], bool],
    readers: Mapping[Operation, Sequence[Operation]] | None = None,
) -> tuple[RowChain | None, set[Operation]]:
    """The chain that ends with `last`, None where there is none; and the operations looked at, which then end none either.

    place: of operations in an order of producers before consumers. free: whether an operation may belong to a chain. readers: of
    each operation, all of which have to belong to the chain; without, that is known.
    """
    space, visited = _space(last, place, free, readers or {})
    if space is None:
        return None, visited
    places = _members(last, space, place, free, readers or {})
    whole = space.long()
    parts = tuple(sorted((op for op in places if op is not last), key=place.__getitem__))
    inside = {
        op: tuple(axis for axis, at in zip(op.axis, along, strict=True) if at in space.inside)
        for op, along in places.items()
        if op.reduction is None and whole.issubset(along)
    }
    if not _share([*parts, last] if last in inside or last.reduction is not None else parts, last):
        return None, visited
    return RowChain(parts, inside, max(whole, default=-1) in space.inside), visited


def _space(
    last: Operation,
    place: Mapping[Operation, int],
    free: Callable[[Operation], bool],
    readers: Mapping[Operation, Sequence[Operation]],
) -> tuple[_Space | None, set[Operation]]:
    """The dimensions of a chain: by the nearest reduction that all the elements of a row read; or else by the nearest that has as
    many results as `last` has elements. And the operations that lie between them and the last, which nobody else reads."""
    own: Places = tuple(range(len(last.axis)))
    if last.reduction is not None:
        return _reduced_space(last, own, len(own)), {last}
    extents = tuple(map(axis_extent, last.axis))
    numbers: _Space | None = None
    visited: set[Operation] = set()
    walk = _Walk(last, own, extents, place)
    for op, along in walk:
        if op is not last and (not free(op) or op.reduction is None and not is_plain(op)):
            continue
        if op.reduction is None:
            # one that others read is not of the chain, and may end one of its own
            if op is not last and not visited.issuperset(readers.get(op, ())):
                continue
            visited.add(op)
            walk.follow(op, dict(zip(op.axis, along, strict=True)))
            continue
        missing = [at for at in own if at not in along and not is_const(extents[at], 1)]
        if missing and _reduces(op, [extents[at] for at in missing]):
            return _Space(extents, frozenset(missing), own), visited
        if numbers is None and not missing:
            numbers = _reduced_space(op, along, len(own))
    return numbers, visited


def _reduced_space(op: Operation, along: Places, count: int) -> _Space | None:
    """The dimensions that a reduction reads, in the order in which they lie there. along: for each of its data axes the one of the
    `count` axes of the chain's last operation."""
    load = full_load(op)
    if load is None:
        return None
    axes = [index for index in load.indices if isinstance(index, IterVar)]
    last: list[int | None] = [None] * count
    for axis, at in zip(op.axis, along, strict=True):
        if at is not None and axis in axes:
            last[at] = axes.index(axis)
    inside = frozenset(at for at, axis in enumerate(axes) if axis in op.reduce_axis)
    return _Space(tuple(map(axis_extent, axes)), inside, tuple(last))


def _reduces(op: Operation, extents: Sequence[Expr]) -> bool:
    """Return whether a reduction runs over dimensions of these extents, and reads each of its terms once."""
    reduced = [extent for extent in map(axis_extent, op.reduce_axis) if not is_const(extent, 1)]
    return len(reduced) == len(extents) and all(map(same_extent, reduced, extents)) and full_load(op) is not None


def full_load(op: Operation) -> ProducerLoad | None:
    """A load of a reduction that reads another element for each of its terms, without a window; None where there is none, so that
    all its operands are read again and again."""
    if any(domain_axes(axis) for axis in op.reduce_axis):
        return None
    axes = {axis for axis in (*op.axis, *op.reduce_axis) if not is_const(axis_extent(axis), 1)}
    for load in op_loads(op):
        along = [index for index in load.indices if not is_const(index)]
        if (
            axes.issubset(along)
            and len(set(along)) == len(along)
            and all(isinstance(index, IterVar) for index in along)
        ):
            return load
    return None


def _members(
    last: Operation,
    space: _Space,
    place: Mapping[Operation, int],
    free: Callable[[Operation], bool],
    readers: Mapping[Operation, Sequence[Operation]],
) -> dict[Operation, Places]:
    """The operations of a chain, with the dimensions that their axes run along."""
    members: dict[Operation, Places] = {}
    whole, inside = space.long(), sorted(space.inside & space.long())
    walk = _Walk(last, space.last, space.extents, place)
    for op, along in walk:
        is_row, is_element = whole.difference(inside) == whole.intersection(along), whole.issubset(along)
        reduced = [axis for axis in op.reduce_axis if not is_const(axis_extent(axis), 1)]
        fits = (
            is_row and _reduces(op, [space.extents[at] for at in inside])
            if op.reduction is not None
            else (is_plain(op) and (is_row or is_element))
        )
        if op is last and not fits and (op.reduction is not None or op.num_outputs == 1):
            return {last: along}
        if not fits or op is not last and not (free(op) and all(reader in members for reader in readers.get(op, ()))):
            continue
        members[op] = along
        walk.follow(op, dict(zip((*op.axis, *reduced), (*along, *inside[: len(reduced)]), strict=True)))
    return members


def _share(ops: Sequence[Operation], last: Operation) -> bool:
    """Return whether two reductions among the operations of a chain, or one and the last operation where that is for each
    element of a row, read the same, so that caching a row pays."""
    sources: dict[Operation, set[Operation]] = {}
    seen: set[Operation] = set()
    for op in ops:
        above = [tensor.op for tensor in op.input_tensors]
        read = {source for producer in above for source in sources.get(producer, {producer})}
        if op.reduction is None and op is not last:
            sources[op] = read
            continue
        if not seen.isdisjoint(read):
            return True
        sources[op] = set()
        seen |= read
    return False


class _Walk:
    """Upwards from an operation through those that it is told to follow: each after all of these that read it, with the dimensions
    that its axes run along for all of them. Those that they read otherwise are passed over."""

    def __init__(self, last: Operation, along: Places, extents: Sequence[Expr], place: Mapping[Operation, int]) -> None:
        self.extents, self.place = extents, place
        self.found: dict[Operation, Places | None] = {last: along}
        self.waiting: list[tuple[int, Operation]] = [(-place[last], last)]

    def __iter__(self) -> Iterator[tuple[Operation, Places]]:
        while self.waiting:
            _, op = heappop(self.waiting)
            along = self.found[op]
            if along is not None:
                yield op, along

    def follow(self, op: Operation, axes: Mapping[IterVar, int | None]) -> None:
        """Goes on to what `op` reads, whose axes, those that it reduces over too, run along these dimensions."""
        for load in op_loads(op):
            producer = load.producer.op if isinstance(load.producer, Tensor) else None
            if producer is None or producer not in self.place:
                continue
            along = self._dimensions(load, axes)
            if producer not in self.found:
                self.found[producer] = along
                heappush(self.waiting, (-self.place[producer], producer))
            elif self.found[producer] != along:
                self.found[producer] = None

    def _dimensions(self, load: ProducerLoad, axes: Mapping[IterVar, int | None]) -> Places | None:
        """The dimensions that what is read runs along, in their order; None where it is read in any other way."""
        along: list[int | None] = []
        for index, extent in zip(load.indices, load.producer.shape, strict=True):
            at = axes.get(index) if isinstance(index, IterVar) else None
            if not (is_const(extent, 1) if at is None else same_extent(extent, self.extents[at])):
                return None
            along.append(at)
        known = [at for at in along if at is not None]
        return tuple(along) if known == sorted(set(known)) else None
