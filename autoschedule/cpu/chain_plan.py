"""Chains: which stages of a graph of stencils and of small windows are computed tile by tile, and how large a tile is.

    A ─► across ─► down ─► sharp          for each tile of `sharp`:  `across`, with the rows above and below that `down` reads

A chain begins with its output and takes up producers, readers before what they read. A producer whose value costs less than to
store it and load it is inlined. Any other is computed for each tile, in the cache, where what that computes again costs less than
what goes through memory otherwise; else it stays at root, and ends the chain. How long a region of a producer is for a tile is
taken from its accesses, at a place within the image: factor * tile + constant, along each axis.

Costs are in cycles of a core, for vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, prod

from ...codegen.machine import Machine
from ...ir import Expr, IfThenElse, IntImm, IterVar, Max, Min, ProducerLoad, Var, post_order
from ...ir.analysis.regions import Span, SpanEvaluator
from ...ir.arith.analyzer import Analyzer
from ...ir.ops import const
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..accesses import ASSUMED, dimension, distinct_loads, find_axes, op_loads, tensor_bytes
from ..cost.chains import (
    CUT_ROWS,
    WORTH,
    element_cycles,
    is_recomputed,
    load_cycles,
    moving_cycles,
    share_tiles,
    store_cycles,
    tap_product,
    vector_cycles,
)
from ..forms.window import is_window
from ..operations import MAX_WEIGHT, TRIVIAL, is_plain, weight
from ..partition import Tile
from .chain_member import Cut, Member, Side

__all__ = ["Chain", "find_chain", "ends_within_vectors"]

MOST_MEMBERS = 24
SIZES = (1, 4, 8, 16, 32, 64, 128)
"""Of a tile along an axis of which rows are none."""
WIDTHS = (16, 64, 256)
"""And along a row, in vectors, beside all of it."""
MOST_TILES, MOST_ROLLED = 5, 3
"""To choose from, of those that are computed in one step, and of those through which windows roll."""
MOST_ROWS, FEW_ROWS, SPARE = 8, 4, 8
"""Rows of the output that are computed together of a vector that stays in registers, at most and at least; and registers for
constants and intermediate values."""
STRIPS, ROLLED = (64, 256), 4
"""Rows of a tile through which windows roll, and how many are computed in each step."""
OTHER_ROLLED = (2, 8)
"""Numbers of rows a step to choose from besides."""
FAR = 33
"""A region is looked at for one element of the output, and for so many."""


def find_chain(output: Operation, beside: tuple[Operation, ...], machine: Machine) -> Chain | None:
    """The chain that ends with an operation, and others beside it, of which they are all so far; None where that is no stage of
    one."""
    if (
        not output.axis
        or not (is_plain(output) or is_window(output))
        or any(constant_extent(axis) == 0 for axis in output.axis)
    ):
        return None
    return Chain(output, beside, machine)


class Chain:
    """See above. `take` asks for each producer whether it joins."""

    def __init__(self, output: Operation, beside: tuple[Operation, ...], machine: Machine) -> None:
        self.beside = beside
        self.output, self.machine, self.analyzer = output, machine, Analyzer()
        self.extents = [constant_extent(axis) or ASSUMED for axis in output.axis]
        self.bits = output.output(0).dtype.bits
        self.flat = self._first_flat()
        sides = tuple(Side(at, 1, 0, extent) for at, extent in enumerate(self.extents))
        self.members = {
            output: Member(
                output, sides, True, 1, frozenset(), vector_cycles(output, machine), machine.lanes(self.bits)
            )
        }
        self.members.update(
            (op, Member(op, sides, True, 1, frozenset(), vector_cycles(op, machine), machine.lanes(self.bits)))
            for op in beside
        )
        self.in_place = {output, *beside}
        """Stages that are stored for the output alone, each element for the one at its place: these stay in registers."""
        self.around = _producer_bytes(output) / machine.vector_bytes
        """Vectors of all that it is made of, which go through the caches one after the other where stages are apart."""
        self.weight = sum(map(weight, (output, *beside)))
        self.is_stencil = False
        """Whether a stage is read around each place, and stored, or inlined although it is not trivial; or several windows meet."""
        self.moving: frozenset[int] = frozenset()
        """The axes of the output along which regions are longer than tiles."""
        self.cuts = [Cut(tuple(self.extents))]

    @property
    def inlined(self) -> tuple[Operation, ...]:
        """Producers first."""
        return tuple(op for op, member in reversed(self.members.items()) if not member.is_stored)

    @property
    def stored(self) -> tuple[Operation, ...]:
        """But for the output, producers first."""
        return tuple(op for op, member in reversed(self.members.items()) if member.is_stored and op is not self.output)

    def take(self, producer: Operation, readers: Collection[Operation]) -> bool:
        """Return whether a producer, all of whose readers are members, joins."""
        if not (is_plain(producer) or is_window(producer)) or not producer.axis or len(self.members) >= MOST_MEMBERS:
            return False
        reads = {reader: distinct_loads(reader, producer.output(0)) for reader in readers}
        sides = self._sides(producer, reads)
        if sides is None:
            return False
        times = 0
        for reader, loads in reads.items():
            times += (
                len(loads) * tap_product(reader) * (1 if self.members[reader].is_stored else self.members[reader].times)
            )
        homes = frozenset[Operation]().union(*(self.members[reader].stores for reader in readers))
        lanes = self.machine.lanes(max(self.bits, producer.output(0).dtype.bits))
        if self._is_inlined(producer, sides, times):
            for home in homes:
                self.members[home].cycles += times * element_cycles(producer, self.machine) / len(homes)
            self.weight += weight(producer) * times
            self.is_stencil = self.is_stencil or times > 1 and weight(producer) > TRIVIAL
            self.members[producer] = Member(producer, sides, False, times, homes, 0.0, lanes)
            return True
        member = Member(producer, sides, True, times, homes, vector_cycles(producer, self.machine), lanes)
        if not self._pays(member):
            return False
        windows = sum(op.reduction is not None for op in self.stored)
        self.is_stencil = (
            self.is_stencil or windows > 1 or times > 1 and any(side.constant > 0 and side.factor for side in sides)
        )
        return True

    def ways(self) -> tuple[Tile, ...]:
        """Return the partitions of the output, those of least cost first, and what of its producers stays in registers: after
        those others, with other numbers of rows together, and with nothing in registers;
        windows that roll through tiles; and each stage by itself."""
        ordered = sorted(self.cuts, key=self._cost)
        whole = [(cut, *self._near(cut)) for cut in ordered if not cut.rolled][:MOST_TILES]
        other = [(cut, near, many) for cut, near, rows in whole[:2] if near for many in (max(rows // 2, 1), 2 * rows)]
        apart = [(cut, (), 0) for cut, near, _ in whole if near]
        rolled = [cut for cut in ordered if cut.rolled][:MOST_ROLLED]
        rolled += [
            replace(cut, rolled=rows) for cut in rolled[:1] for rows in OTHER_ROLLED if self._rolls(cut.along, rows)
        ]
        tiles = [self._tile(*way) for way in (*whole, *other, *apart, *((cut, (), 1) for cut in rolled))]
        tiles.append(replace(self._tile(self._rows(), (), 0), at_root=True))
        found = {(tile.sizes, tile.near, tile.rows, tile.rolled, tile.at_root): tile for tile in tiles}
        return tuple(found.values())

    def _tile(self, cut: Cut, near: tuple[Operation, ...], rows: int) -> Tile:
        sizes = cut.sizes
        if near and len(near) == len(self.stored) - len(self.beside):
            sizes = tuple(
                1 if at < self.flat - 1 else rows if at < self.flat else extent
                for at, extent in enumerate(self.extents)
            )
        flat = {op: self._first_flat_dim(self.members[op].sides) for op in (self.output, *self.stored)}
        rings = tuple(op for op in self.stored if self.members[op].turns(cut))
        return Tile(sizes, flat, near, rows, cut.rolled, cut.along, rings, beside=self.beside)

    def _first_flat_dim(self, sides: Sequence[Side]) -> int:
        """The first of the last dimensions of a region that lie along the output's rows. One that is the same for all tiles, as of
        a single image, is not the first of them."""
        at = len(sides) - 1
        while at > 0 and sides[at - 1].axis >= self.flat:
            at -= 1
        return next((each for each in range(at, len(sides)) if sides[each].factor), len(sides) - 1)

    def _rows(self) -> Cut:
        """Rows by themselves."""
        return Cut(tuple(1 if at < self.flat else extent for at, extent in enumerate(self.extents)))

    # What is inlined

    def _is_inlined(self, producer: Operation, sides: Sequence[Side], times: int) -> bool:
        """Return whether the value of a producer costs less where it is read than stored and loaded."""
        if not is_plain(producer) or self.weight + weight(producer) * times > MAX_WEIGHT:
            return False
        read = (
            self.members[self.output].vectors(Cut(tuple(self.extents)))
            * times
            / max(prod(side.extent for side in sides), 1)
        )
        again = max(times, read * self.members[self.output].lanes) - 1
        return is_recomputed(producer, again, times, ends_within_vectors(producer, self.machine), self.machine)

    # Regions

    def _sides(self, producer: Operation, reads: Mapping[Operation, Sequence[ProducerLoad]]) -> tuple[Side, ...] | None:
        """The region of a producer; None where it is more than what is near a tile."""
        sides: list[Side] = []
        for at, axis in enumerate(producer.axis):
            extent = constant_extent(axis) or ASSUMED
            found = [
                self._side(reader, [load.indices[at] for load in loads], extent, producer.output(0).shape[at])
                for reader, loads in reads.items()
            ]
            known = [side for side in found if side is not None]
            if len(known) < len(found) or len({side.axis for side in known if side.factor}) > 1:
                return None
            moved = next((side.axis for side in known if side.factor), known[0].axis)
            sides.append(
                Side(
                    moved,
                    max(side.factor for side in known),
                    max(side.constant for side in known),
                    extent,
                    all(side.is_steady for side in known),
                )
            )
        return tuple(sides)

    def _side(self, reader: Operation, indices: Sequence[Expr], extent: int, dimension: Expr) -> Side | None:
        """Return the extent that a reader needs along one dimension, of so many elements; extent: as a number."""
        member = self.members[reader]
        used = set[IterVar]().union(*map(find_axes, indices))
        moving = [at for at, axis in enumerate(reader.axis) if axis in used and member.sides[at].extent > 1]
        if len(moving) > 1:  # one that a tile is cut along, and others that it has in whole
            moving = [at for at in moving if member.sides[at].axis <= self.flat]
        if len(moving) > 1:
            return None
        whole = {
            axis: member.sides[at].extent for at, axis in enumerate(reader.axis) if axis in used and at not in moving
        }
        near = self._width(reader, indices, dimension, whole | {reader.axis[at]: 1 for at in moving})
        if not moving or near is None:
            return None if near is None else Side(self.flat, 0, near, extent, True)
        side = member.sides[moving[0]]
        many = min(FAR, side.extent)
        far = self._width(reader, indices, dimension, whole | {reader.axis[moving[0]]: many})
        if far is None:
            return None
        factor = (far - near) / (many - 1)
        steady = side.is_steady and all(_is_steady(index) for index in indices)
        return Side(side.axis, factor * side.factor, factor * (side.constant - 1) + near, extent, steady)

    def _width(
        self, reader: Operation, indices: Sequence[Expr], extent: Expr, sizes: Mapping[IterVar, int]
    ) -> int | None:
        """Return the number of values that the indices of a dimension take while axes run over so many values, in the
        middle of their ranges.
        """
        spans: dict[Var, Span | None] = {}
        for axis, size in sizes.items():
            begin = ((constant_extent(axis) or ASSUMED) - size) // 2 & ~1
            spans[axis] = Span.of(const(begin, axis.dtype), const(size, axis.dtype))
        for axis in reader.reduce_axis:
            if axis.dom is not None:
                spans[axis] = Span.of(axis.dom.begin, axis.dom.extent)
        span = SpanEvaluator(spans, self.analyzer).hull(indices, extent)
        if span is None:
            return None
        low, high = self.analyzer.simplify(span.low), self.analyzer.simplify(span.high)
        if isinstance(low, IntImm) and isinstance(high, IntImm):
            return high.value - low.value + 1
        return span.width

    # What a tile costs

    def _pays(self, member: Member) -> bool:
        """Return whether a producer costs less in the tiles than at root; then it joins."""
        before, kept = min(map(self._cost, self.cuts)), (self.cuts, self.moving)
        longer = {side.axis for side in member.sides if side.constant > 0 and side.extent > 1}
        self.members[member.op] = member
        if not longer <= self.moving or len(self.cuts) == 1 or not all(side.is_steady for side in member.sides):
            self.moving |= longer
            self.cuts = list(self._tilings())
        if member.homes <= self.in_place and all(side.factor == 1 and side.constant == 0 for side in member.sides):
            self.in_place.add(member.op)
        whole = Cut((max(self.extents),) * len(self.extents))
        apart = member.work(whole) + member.vectors(whole) * moving_cycles(
            max(member.vectors(whole), self.around), self.machine
        )
        if min(map(self._cost, self.cuts)) <= WORTH * (before + apart):
            return True
        del self.members[member.op]
        self.in_place.discard(member.op)
        self.cuts, self.moving = kept
        return False

    def _cost(self, cut: Cut) -> float:
        """Cycles that all of the output takes, about."""
        count = prod(ceil(extent / size) for extent, size in zip(self.extents, cut.sizes, strict=True))
        stored = [member for member in self.members.values() if member.is_stored]
        work = sum(member.work(cut) for member in stored)
        through = [member for member in stored if member.op not in self.in_place]
        rate = moving_cycles(sum(member.kept(cut) for member in through), self.machine)
        parts = CUT_ROWS if cut.sizes[self.flat] < self.extents[self.flat] else 1
        cycles = count * parts * (work + rate * sum(member.vectors(cut) for member in through))
        return share_tiles(cycles, count, self.machine)

    def _tilings(self) -> Iterator[Cut]:
        choices: list[Sequence[int]] = []
        for at, extent in enumerate(self.extents):
            if at > self.flat:
                choices.append((extent,))
            elif at == self.flat:
                inner = prod(self.extents[at + 1 :])
                widths = {max(width * self.machine.lanes(self.bits) // inner, 1) for width in WIDTHS}
                choices.append(sorted({width for width in widths if 2 * width <= extent} | {extent}))
            else:
                choices.append([*(size for size in SIZES if size < extent), extent] if at in self.moving else (1,))
        yield from map(Cut, product(*choices))
        along = min(self.moving, default=self.flat)
        if along < self.flat and self._rolls(along, ROLLED):
            choices[along] = [size for size in STRIPS if size < self.extents[along]] or [self.extents[along]]
            choices[self.flat] = choices[self.flat][-2:]
            yield from (Cut(sizes, ROLLED, along) for sizes in product(*choices))

    def _rolls(self, along: int, rows: int) -> bool:
        """Return whether windows can roll through tiles along an axis, so many rows a step: each moves by as many elements each time."""
        sides = [
            side for member in self.members.values() for side in member.sides if side.axis == along and side.factor
        ]
        return all(
            side.is_steady
            and float(side.factor * rows).is_integer()
            and side.extent >= 2 * (side.factor * rows + side.constant)
            for side in sides
        )

    # Registers

    def _near(self, cut: Cut) -> tuple[tuple[Operation, ...], int]:
        """The producers that are computed where a vector of the output is, for some rows of it together, and how many rows: those
        that only the output reads, each in the same columns. A producer with more columns would not fill its vectors. All that can
        be are, where rows are of several axes, as of pixels and their channels: stores of whole tiles would be masked there. None
        are where the call decides how long one of these is: it is not known then how much of each a vector takes."""
        row, homes, last = self.flat - 1, {self.output}, self.output.axis[self.flat :]
        if row < 0 or len(last) > 1 and not all(map(constant_extent, last)):
            return (), 0
        found: list[Member] = []
        for member in self.members.values():
            if (
                member.homes
                and member.homes <= homes
                and member.is_stored
                and all(
                    side.constant == 0 or side.axis == row or side.factor == 0 and side.constant == 1
                    for side in member.sides
                )
            ):
                found.append(member)
                homes.add(member.op)
        reaches = {
            member.op: next((side.constant for side in member.sides if side.axis == row), 0.0) for member in found
        }
        while found:
            reach = max(reaches.values())
            room = min(MOST_ROWS, (self.machine.registers - SPARE - reach) // len(found))
            rows = min(int(max(room, FEW_ROWS if reach else 1)), self.extents[row])
            rate = moving_cycles(sum(member.vectors(cut) for member in found), self.machine)
            together = sum(
                (member.cycles - store_cycles(self.machine)) * (1 + reaches[member.op] / rows) for member in found
            )
            apart = sum(
                member.cycles * (1 + reaches[member.op] / cut.sizes[row])
                + load_cycles(self.machine) * member.times
                + rate
                for member in found
            )
            if together <= apart or self.flat + 1 < len(self.extents):
                return tuple(member.op for member in found), rows
            del reaches[found.pop().op]
        return (), 0

    def _first_flat(self) -> int:
        """The first of the last axes that together are long enough for vectors. Rows that windows read parts of stay by themselves,
        but for the shortest: vectors across two of them would be gathered."""
        at, lanes = len(self.extents) - 1, self.machine.lanes(self.bits)
        while (
            at > 0
            and (size := prod(self.extents[at:])) < 2 * lanes
            and (2 * size <= lanes or self._reads_full_axis(at))
        ):
            at -= 1
        return at

    def _reads_full_axis(self, at: int) -> bool:
        """Return whether all that the outputs read along an axis is as long as it, and read at the axis itself."""
        return all(
            index is op.axis[at] and isinstance(extent, IntImm) and extent.value == self.extents[at]
            for op in (self.output, *self.beside)
            for load in op_loads(op)
            for index, extent in zip(load.indices, load.producer.shape, strict=True)
            if op.axis[at] in find_axes(index)
        )


def ends_within_vectors(producer: Operation, machine: Machine) -> bool:
    """Return whether guards tell the lanes of its vectors apart, as at the sides of a padded image, and parts of vectors cost more
    than whole ones."""
    return not machine.masks and any(
        isinstance(node, IfThenElse) and producer.axis[-1] in find_axes(node.condition)
        for node in post_order(*producer.values)
    )


def _producer_bytes(output: Operation) -> float:
    """Bytes of an operation and of what it is made of, as far as it matters."""
    before = {output: None}
    stack = [output]
    while stack and len(before) < MOST_MEMBERS:
        producers = [tensor.op for tensor in stack.pop().input_tensors if tensor.op not in before]
        before.update(dict.fromkeys(producers))
        stack += producers
    tensors = (tensor for op in before for tensor in op.outputs)
    return sum(tensor_bytes(tensor, ASSUMED) for tensor in tensors)


def _is_steady(index: Expr) -> bool:
    """Return whether an index moves by a constant with its axis, or is held within bounds and does so between them."""
    if isinstance(index, (Min, Max)):
        return all(isinstance(side, IntImm) or _is_steady(side) for side in (index.a, index.b)) and (
            not find_axes(index.a) or not find_axes(index.b)
        )
    return not any(find_axes(part) for part, _ in dimension(index).rest)
