"""Groups: how a graph of operations is cut into pieces that are scheduled together.

    pad ─► conv2d ─► + bias ─► relu ─┬─► softmax        group 1: anchor conv2d, output relu, head pad
                                     └─► transpose      group 2: anchor and output softmax, its parts
                                                        group 3: anchor and output transpose

An anchor is an operation whose tag has a rule, or any reduction. Behind it follow the element by element operations up to
one, the output, through which everything that depends on the anchor passes (diamonds included); before it the heads, which
nobody else reads. What is left over makes groups of its own: an operation to store, with those inlined into it that cost
little to compute where they are read. Scans, externs, hybrid scripts and tensor intrinsics stay as they are, at root.

An operator of several operations tags its last one, "softmax", and the others as its parts, "softmax.max", "softmax.exp".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from ..codegen.machine import Machine
from ..codegen.target import Target
from ..ir.expr import ProducerLoad
from ..schedule import Schedule
from ..te.operation import Operation, extent_of
from ..te.shape import same_extent
from .operations import elements, is_expensive, is_plain, loads_of, weight
from .slice_gradients import GRADIENTS, gradients_of_slices

__all__ = ["Group", "Piece", "cut"]

MAX_WEIGHT = 256
"""Operators of an expression up to which producers are inlined into it."""
TRIVIAL = 8
"""Operators of an expression that may be computed once for each of several reads: a cast, a shifted read, a guard."""


@dataclass(frozen=True)
class Group:
    """What a rule schedules: `rule(group)` applies primitives to group.s.

    anchor: the heavy operation, whose tag chose the rule; output: the last of its elementwise tail, or the anchor; what
    lies between is inlined already. Axes: s[group.output].op.axis, and s[group.anchor].op.reduce_axis. heads: producers
    without reductions that this group alone reads, not placed yet (pad, cast, dequantise, transpose), producers first: the
    rule inlines or packs them; those that it leaves at root are scheduled as groups of their own. parts: the operations that
    belong to the anchor's operator, producers first, not placed either. Operations are those that were declared, and stay
    keys of the schedule whatever primitives make of them.
    """

    s: Schedule
    anchor: Operation
    output: Operation
    heads: tuple[Operation, ...]
    target: Target
    machine: Machine
    parts: tuple[Operation, ...] = ()

    def inline_cheap_heads(self) -> None:
        """Inline the heads whose values cost little; the others stay stages of their own."""
        for head in self.heads:
            if head.values and not is_expensive(head):
                self.s[head].compute_inline()


@dataclass(frozen=True)
class Piece:
    """A group as it is cut, before the schedule is touched. tag: whose rule it is for, "" where the anchor's has none.
    between: from the anchor to the output, without both; inlined: what only these and the output read, and costs little
    there."""

    tag: str
    anchor: Operation
    output: Operation
    heads: tuple[Operation, ...] = ()
    parts: tuple[Operation, ...] = ()
    between: tuple[Operation, ...] = ()
    inlined: tuple[Operation, ...] = ()


def cut(s: Schedule, tags: Collection[str]) -> list[Piece]:
    """The pieces of a schedule that nobody has touched. tags: those that have rules."""
    return _Cutter(s, tags).run()


class _Cutter:
    def __init__(self, s: Schedule, tags: Collection[str]) -> None:
        self.tags = tags
        self.order = [stage.op for stage in s.stages]
        self.readers: dict[Operation, list[Operation]] = {op: [] for op in self.order}
        for op in self.order:
            for source in dict.fromkeys(tensor.op for tensor in op.input_tensors):
                self.readers[source].append(op)
        self.outputs = set(s.outputs)
        self.untouched = set(_of_other_kinds(self.order))
        self.claimed: set[Operation] = set(self.untouched)
        self.place = {op: at for at, op in enumerate(self.order)}

    def run(self) -> list[Piece]:
        pieces = self._gradients()
        pieces += self._anchored()
        return pieces + self._rest()

    def _gradients(self) -> list[Piece]:
        """The gradients of bilateral slices: many operations, of which several are outputs, scheduled together."""
        pieces: list[Piece] = []
        for *parts, last in gradients_of_slices(self.order, self.outputs) if GRADIENTS in self.tags else ():
            self.claimed.update((*parts, last))
            pieces.append(Piece(GRADIENTS, last, last, parts=tuple(parts)))
        return pieces

    # Anchors, their parts, tails and heads

    def _anchored(self) -> list[Piece]:
        """The anchors' pieces; tails go to the last anchor that they follow, being computed after all of them."""
        parts_of: dict[Operation, tuple[Operation, ...]] = {}
        tags: dict[Operation, str] = {}
        for op in reversed(self.order):
            if op in self.claimed or not op.values:
                continue
            parts = self._parts(op)
            whole = op.tag in self.tags and parts is not None
            if whole or op.reduction is not None:
                parts_of[op], tags[op] = parts or (), op.tag if whole else ""
                self.claimed.update((op, *(parts or ())))
        tails = {op: self._tail(op) for op in parts_of}
        heads = {op: self._heads(op, parts, tails[op]) for op, parts in parts_of.items()}
        return [Piece(tags[op], op, tails[op][-1] if tails[op] else op, tuple(heads[op]), parts, tuple(tails[op][:-1]),
                      tuple(self._inlined(tails[op])))
                for op, parts in parts_of.items()]

    def _parts(self, op: Operation) -> tuple[Operation, ...] | None:
        """The other operations of an operator whose last one is `op`, producers first; None where somebody else needs
        them, so that they are operations like any others."""
        prefix = f"{op.tag}."
        parts: dict[Operation, None] = {}
        stack = [op]
        while stack and op.tag:
            for tensor in stack.pop().input_tensors:
                if tensor.op.tag.startswith(prefix) and tensor.op not in parts:
                    parts[tensor.op] = None
                    stack.append(tensor.op)
        own = {op, *parts}
        if any(member in self.outputs or member in self.claimed or not own.issuperset(self.readers[member]) for member in parts):
            return None
        return tuple(op for op in self.order if op in parts)

    def _tail(self, anchor: Operation) -> list[Operation]:
        """The operations after the anchor up to the furthest one through which all that depends on it passes."""
        region: dict[Operation, None] = {anchor: None}
        furthest: list[Operation] = []
        waiting: list[int] = []
        entered: set[Operation] = set()
        following: Operation | None = anchor
        while following is not None:
            for reader in self.readers[following] if following in region else ():
                if reader not in entered:
                    entered.add(reader)
                    heappush(waiting, self.place[reader])
            following = self.order[heappop(waiting)] if waiting else None
            if following is None or following in self.claimed or not is_plain(following) or not _follows(following, anchor, region):
                continue
            region[following] = None
            within = _above(following, region)
            if all(op not in self.outputs and within.issuperset(self.readers[op]) for op in within - {following}):
                furthest = [op for op in region if op in within and op is not anchor]
        self.claimed.update(furthest)
        return furthest

    def _heads(self, anchor: Operation, parts: Iterable[Operation], tail: Iterable[Operation]) -> list[Operation]:
        """The plain operations that this group alone reads, and its anchor or a part of it among the readers."""
        core = {anchor, *parts}
        group = {*core, *tail}
        total = 0
        heads: list[Operation] = []
        for op in self._before(group):
            readers = self.readers[op]
            if (op in self.claimed or op in self.outputs or not is_plain(op)
                    or not group.issuperset(readers) or core.isdisjoint(readers)):
                continue
            own = weight(op) * _reads(op, readers)
            if total + own <= MAX_WEIGHT and (own <= TRIVIAL or _reads(op, readers) == 1):
                heads.append(op)
                core.add(op)
                group.add(op)
                total += own
        self.claimed.update(heads)
        return heads[::-1]

    def _before(self, group: set[Operation]) -> Iterator[Operation]:
        """The operations that a growing group reads, each after all of the group that reads it, the last ones first."""
        waiting: list[int] = []
        entered: set[Operation] = set()
        members: list[Operation] = list(group)
        while members or waiting:
            for member in members:
                for tensor in member.input_tensors:
                    if tensor.op not in entered and tensor.op not in group:
                        entered.add(tensor.op)
                        heappush(waiting, -self.place[tensor.op])
            members = []
            if waiting:
                op = self.order[-heappop(waiting)]
                yield op
                members = [op] if op in group else []

    # What is left over

    def _rest(self) -> list[Piece]:
        pieces: list[Piece] = []
        for op in reversed(self.order):
            if op in self.claimed or not op.values:
                continue
            self.claimed.add(op)
            pieces.append(Piece("", op, op, inlined=tuple(self._inlined((op,)))))
        return pieces

    def _inlined(self, into: Iterable[Operation]) -> list[Operation]:
        """The plain operations to inline into these and, with them, into each other."""
        takers = set(into)
        total = sum(map(weight, takers))
        inlined: list[Operation] = []
        for op in self._before(takers):
            readers = self.readers[op]
            if op in self.claimed or op in self.outputs or not is_plain(op) or not takers.issuperset(readers):
                continue
            own = weight(op)
            again = _reads(op, readers) > 1 or len(readers) > 1 or not all(_no_larger(reader, op) for reader in readers)
            total += own * _reads(op, readers)
            if total <= MAX_WEIGHT and not (again and (own > TRIVIAL or is_expensive(op))):
                inlined.append(op)
                takers.add(op)
                self.claimed.add(op)
        return inlined[::-1]


def _reads(op: Operation, readers: Iterable[Operation]) -> int:
    """In how many places a reader reads it, at most."""
    return max(sum(1 for load in loads_of(reader) if load.producer is op.output(0)) for reader in readers if reader.values)


def _no_larger(reader: Operation, op: Operation) -> bool:
    """Whether the reader certainly has no more elements."""
    size, other = elements(op), elements(reader)
    if size is not None and other is not None:
        return other <= size
    return len(op.axis) == len(reader.axis) and all(
        same_extent(extent_of(a), extent_of(b)) for a, b in zip(op.axis, reader.axis, strict=True))


def _of_other_kinds(order: list[Operation]) -> Iterator[Operation]:
    """Placeholders, what is no ordinary compute, and what is computed step by step within a scan."""
    stepwise = {op for each in order for op in each.steps(order)}
    for op in order:
        if not op.values or op.calls_intrinsic or op in stepwise:
            yield op


def _follows(op: Operation, anchor: Operation, region: Collection[Operation]) -> bool:
    """Whether each element of `op` is made of the same elements of what it reads within the region, and it does read."""
    if not op.values:
        return False
    within = _outputs(region)
    loads = [load for load in loads_of(op) if load.producer in within]
    if not loads or len(op.axis) != len(anchor.axis):
        return False
    same = all(same_extent(extent_of(a), extent_of(b)) for a, b in zip(op.axis, anchor.axis, strict=True))
    return same and all(_at_axes(load, op) for load in loads)


def _at_axes(load: ProducerLoad, op: Operation) -> bool:
    return len(load.indices) == len(op.axis) and all(a is b for a, b in zip(load.indices, op.axis, strict=True))


def _outputs(region: Collection[Operation]) -> set[object]:
    return {tensor for op in region for tensor in op.outputs}


def _above(op: Operation, region: Collection[Operation]) -> set[Operation]:
    """`op` and all of the region that it depends on."""
    above: set[Operation] = {op}
    stack = [op]
    while stack:
        for tensor in stack.pop().input_tensors:
            if tensor.op in region and tensor.op not in above:
                above.add(tensor.op)
                stack.append(tensor.op)
    return above
