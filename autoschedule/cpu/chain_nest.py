"""The nests of chains, as they would be cut: what an estimate needs of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, lcm, prod

from ...codegen.machine import Machine
from ...ir.analysis.footprint import Access
from ...ir.expr import Expr, ProducerLoad, Var
from ...ir.visit import post_order, substitute
from ...te.operation import Operation
from ...te.rewrite import inline
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..accesses import ASSUMED, load_access, numeric_shape, store_access
from ..cost.cpu import Lines, estimate
from ..cost.estimate import Estimate
from ..cost.instructions import classify_access, count_instructions, instruction_classes, list_work
from ..loop_nest import Body, Nest, nest_loops
from ..partition import Tile
from .chain_member import CUT_ROWS, Cut, Member

__all__ = ["Nests"]


@dataclass(frozen=True, eq=False)
class _Loops:
    """Properties of a member that are the same in all tiles. instructions: of a vector, without those of loads of other members and of its
    store; reads: how many loads of members; stores: its own; inner: what a vector is, by axes. accesses, members: what is read,
    with the axes of the output in the place of its own. at: its own element by these, and by the axes that stay."""

    instructions: Counter[str]
    reads: Mapping[Operation, int]
    stores: int
    inner: tuple[tuple[Var, int], ...]
    accesses: tuple[Access, ...]
    members: tuple[tuple[Operation, tuple[Expr, ...]], ...]
    at: tuple[Var, ...]


@dataclass
class Nests:
    """Loop nests of a chain, by its members, from the output on. flat: the first of the output's axes that are one piece."""

    output: Operation
    beside: tuple[Operation, ...]
    members: dict[Operation, Member]
    flat: int
    machine: Machine
    known: dict[Operation, _Loops] = field(default_factory=dict[Operation, _Loops])
    lines: Lines = field(default_factory=Lines)

    def estimate(self, tile: Tile) -> Estimate:
        """The time of a way to cut the chain."""
        time = estimate(self._nest(tile), self.machine, self.lines)
        if tile.at_root or tile.sizes[self.flat] == self._extent(self.flat):
            return time
        return Estimate((*time.parts, ("rows that are cut", time.seconds * (CUT_ROWS - 1))))

    def _nest(self, tile: Tile) -> Nest:
        cut = Cut(tile.sizes, tile.rolled, tile.along)
        stored = [
            member for member in reversed(self.members.values()) if member.is_stored and member.op not in tile.near
        ]
        if tile.at_root:
            return Nest(None, 1, tuple(self._root_nest(member, tile) for member in stored))
        body = tuple(self._member(member, tile, cut) for member in stored)
        if tile.rolled:
            begin = tuple(self._member(member, tile, cut, begin=True) for member in stored if member.op in tile.rings)
            axis = self.output.axis[tile.along]
            body = (*begin, Nest(axis, ceil(tile.sizes[tile.along] / tile.rolled), body))
        for at, axis in reversed(list(enumerate(self.output.axis))):
            trips = ceil(self._extent(at) / tile.sizes[at])
            if trips > 1:
                body = (Nest(axis, trips, body, parallel=True),)
        return body[0] if len(body) == 1 else Nest(None, 1, body)

    def _extent(self, at: int) -> int:
        return constant_extent(self.output.axis[at]) or ASSUMED

    def _root_nest(self, member: Member, tile: Tile) -> Nest:
        """A stage by itself: its rows are shared among threads."""
        lengths = [side.extent for side in member.sides]
        nest = self._rows(member, tile, lengths, {}, shapes={})
        return replace(nest, parallel=True) if nest.trips > 1 else nest

    def _member(self, member: Member, tile: Tile, cut: Cut, begin: bool = False) -> Nest:
        """The region of a member for a tile, or for a step through it. begin: what the first step computes besides."""
        lengths: list[int] = []
        for side in member.sides:
            if cut.rolled and side.axis == cut.along and side.factor:
                length = (
                    side.constant
                    if begin
                    else side.factor * cut.rolled + (0 if member.op in tile.rings else side.constant)
                )
                lengths.append(max(min(side.extent, ceil(length)), 1))
            else:
                lengths.append(max(ceil(side.length(cut)), 1))
        shapes = {
            op: tuple(max(ceil(side.kept(cut)), 1) for side in each.sides)
            for op, each in self.members.items()
            if each.is_stored and op is not self.output and op not in self.beside
        }
        near = tile.near if member.op is self.output else ()
        return self._rows(
            member,
            tile,
            lengths,
            {op: _recomputation_factor(self.members[op], self.flat, tile.rows) for op in near},
            shapes,
        )

    def _rows(
        self,
        member: Member,
        tile: Tile,
        lengths: Sequence[int],
        near: Mapping[Operation, float],
        shapes: Mapping[Operation, tuple[int, ...]],
    ) -> Nest:
        """Loops over so many rows and vectors. near: what is computed for each vector, and how often; shapes: of what is stored for
        a tile alone."""
        loops = self._loops(member, tile.flat[member.op])
        count, accesses, read = Counter(loops.instructions), list(loops.accesses), list(loops.members)
        for op, many in loops.reads.items():
            if op not in tile.near:
                count["load"] += many
        for op, times in near.items():
            own = self._loops(self.members[op], tile.flat[op])
            accesses += own.accesses
            read += own.members
            loads = (("load", many) for each, many in own.reads.items() if each not in near)
            for name, many in (*own.instructions.items(), *loads):
                count[name] += round(times * many)
        count["store"] += loops.stores
        for op, at in read:
            if op not in tile.near:
                accesses.append(Access(op.output(0), at, shapes.get(op) or numeric_shape(op.output(0))))
        accesses.append(
            Access(
                member.op.output(0), loops.at, shapes.get(member.op) or numeric_shape(member.op.output(0)), stored=True
            )
        )
        inner, flat = dict(loops.inner), tile.flat[member.op]
        vectors = ceil(prod(lengths[flat:]) / prod(inner.get(axis, 1) for axis in loops.at[flat:]))
        rows = zip(loops.at[:flat], lengths[:flat], strict=True)
        return nest_loops((Body(count, tuple(accesses), loops.inner),), [*rows, (loops.at[flat], max(vectors, 1))])

    def _loops(self, member: Member, flat: int) -> _Loops:
        known = self.known.get(member.op)
        if known is None:
            known = self.known[member.op] = self._access_loops(member, flat)
        return known

    def _access_loops(self, member: Member, flat: int) -> _Loops:
        op = member.op
        value = op.values[0] if op.reduction is None else op.reduction.sources[0]
        for producer, each in self.members.items():  # readers first
            if not each.is_stored:
                value = inline(value, producer.output(0), producer.axis, producer.values[0])
        at = tuple(
            self.output.axis[side.axis] if side.factor else axis
            for side, axis in zip(member.sides, op.axis, strict=True)
        )
        moved: dict[Var, Expr] = {axis: now for axis, now in zip(op.axis, at, strict=True) if axis is not now}
        whole = {axis: constant_extent(axis) or 1 for axis in op.axis[flat + 1 :]}
        lanes = {op.axis[flat]: max(lcm(member.lanes, *whole.values()) // prod(whole.values()), 1), **whole}
        taps = {axis: constant_extent(axis) or 1 for axis in op.reduce_axis}
        found: dict[int, Access] = {}
        for node in post_order(value):
            if isinstance(node, ProducerLoad):
                found[id(node)] = load_access(node)
        others = {id(node): each for node, each in _distinct(value, found)}
        count: Counter[str] = count_instructions(
            list_work([value], self.machine), self.machine, taps, lanes, tuple(lanes), lambda node: found[id(node)]
        )
        if op.reduction is not None:
            many = prod(taps.values()) * ceil(prod(lanes.values()) / member.lanes)
            for node in post_order(*op.reduction.combiner.result):
                for name in instruction_classes(node, self.machine):
                    count[name] += many
        stored = {each: each.output(0) for each, one in self.members.items() if one.is_stored}
        tensors = {tensor: each for each, tensor in stored.items()}
        reads: Counter[Operation] = Counter()
        members: dict[tuple[Operation, object], tuple[Operation, tuple[Expr, ...]]] = {}
        accesses: dict[tuple[object, object], Access] = {}
        for access in others.values():
            indices = tuple(substitute(index, moved) for index in access.indices or ())
            producer = tensors.get(access.array) if isinstance(access.array, Tensor) else None
            if producer is None:
                accesses.setdefault((access.array, access.pattern[0]), Access(access.array, indices, access.shape))
                continue
            name, many = classify_access(access, lanes, self.machine)
            many *= prod(trips for axis, trips in taps.items() if access.step(axis))
            count[name] -= many
            reads[producer] += many
            members.setdefault((producer, access.pattern[0]), (producer, indices))
        own = store_access(op.output(0), op.axis)
        inner = tuple((moved_to, lanes[axis]) for axis, moved_to in zip(op.axis, at, strict=True) if axis in lanes)
        return _Loops(
            count,
            reads,
            classify_access(own, lanes, self.machine)[1],
            (*inner, *taps.items()),
            tuple(accesses.values()),
            tuple(members.values()),
            at,
        )


def _distinct(value: Expr, found: Mapping[int, Access]) -> Iterator[tuple[ProducerLoad, Access]]:
    """The loads of an expression, each element once."""
    met: set[tuple[object, ...]] = set()
    for node in post_order(value):
        if isinstance(node, ProducerLoad):
            access = found[id(node)]
            key = (access.array, *access.pattern)
            if key not in met:
                met.add(key)
                yield node, access


def _recomputation_factor(member: Member, flat: int, rows: int) -> float:
    """Return the number of times each value that stays in registers is computed, for so many rows of the output together."""
    return 1 + max((side.constant for side in member.sides if side.axis == flat - 1), default=0.0) / max(rows, 1)
