"""Pieces that are scheduled together, which a graph of operations is cut into.

    pad ─► conv2d ─► + bias ─► relu ─┬─► softmax        group 1: anchor conv2d, output relu, head pad
                                     └─► transpose      group 2: anchor and output softmax, its parts
                                                        group 3: anchor and output transpose

An anchor is an operation whose algorithm has a rule, or any reduction. Behind it follow the element by element operations up to
one, the output, through which everything that depends on the anchor passes (diamonds included); before it the heads, which
nobody else reads. What is left over makes groups of its own: an operation to store, with those inlined into it that cost
little to compute where they are read. Externs, hybrid scripts and tensor intrinsics stay as they are, at root; so do scans, unless
there is a rule for them.

An operator of several operations tags its last one, "softmax", and the others as its parts, "softmax.max", "softmax.exp". Only our
own operators' tags count (te.tag.AlgorithmTag): a word that a user tags an operation with says nothing of how it computes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heappop, heappush

from ..ir.expr import IterVar
from ..schedule import Schedule
from ..te.operation import Operation, axis_extent
from ..te.rewrite import inline
from ..te.shape import same_extent
from .accesses import is_no_larger, is_permutation, is_pointwise, max_reads, reads_output
from .forms.rows import match_rows
from .forms.scans import SharedColumns
from .operations import MAX_WEIGHT, TRIVIAL, is_expensive, is_plain, weight
from .partition import APART, CHAIN, ROWS, SCAN, Fusion, Piece

__all__ = ["cut"]


def cut(s: Schedule, tags: Collection[str], fusion: Fusion = APART, moves: bool = False) -> list[Piece]:
    """The pieces of a schedule that nobody has touched. tags: those that have rules. Reductions that `fusion` has computed several
    times are cloned. moves: a tail may move what it reads, as a kernel does that is cut once more for its loops."""
    return _Cutter(s, tags, fusion, moves).run()


class _Cutter:
    def __init__(self, s: Schedule, tags: Collection[str], fusion: Fusion, moves: bool) -> None:
        self.s, self.tags, self.fusion, self.moves = s, tags, fusion, moves
        self.again: dict[Operation, None] = {}
        self.in_no_chain: set[Operation] = set()
        self.order = [stage.op for stage in s.stages]
        self.readers: dict[Operation, list[Operation]] = {op: [] for op in self.order}
        for op in self.order:
            for source in dict.fromkeys(tensor.op for tensor in op.input_tensors):
                self.readers[source].append(op)
        self.outputs = {s[op].op for op in s.outputs}
        self.stepwise = {op for each in self.order for op in each.steps(self.order)}
        self.claimed = {
            op
            for op in self.order
            if not op.values
            or op.calls_intrinsic
            or op in self.stepwise
            or s[op].attach_type == "inline"
            or s[op].is_scheduled()
        }
        """Those of a piece; and placeholders, what is no ordinary compute, what is computed step by step within a scan, and what
        was inlined or scheduled before."""
        self.place = {op: at for at, op in enumerate(self.order)}

    def run(self) -> list[Piece]:
        scans = list(self._scans()) if SCAN in self.tags else []
        chains = self._chains()
        parts_of, tags = self._anchors()
        clones = list(self._clones({op for op in parts_of if not tags[op]}))
        for op, reader in clones:
            self.s.clone_in(op.output(0), [reader])
        if clones:
            return _Cutter(self.s, self.tags, self.fusion, self.moves).run()
        return chains + self._scripts() + scans + self._form_groups(parts_of, tags) + self._rest()

    # Chains

    def _chains(self) -> list[Piece]:
        """Return the chains to compute tile by tile, of operations that have no rule of their own."""
        pieces: list[Piece] = []
        tried: set[Operation] = set()
        for op in reversed(self.order) if self.fusion is not APART else ():
            if not self._is_untagged(op) or op in tried or self._is_head(op):
                continue
            beside = self._find_siblings(op)
            chain = self.fusion.chain(op, beside)
            if chain is None:
                continue
            members = {op, *beside}
            for producer in self._walk_producers(members):
                readers = self.readers[producer]
                if (
                    self._is_untagged(producer)
                    and producer not in self.outputs
                    and members.issuperset(readers)
                    and not self._is_tail(producer)
                    and chain.take(producer, readers)
                ):
                    members.add(producer)
            if chain.is_stencil:
                self.claimed.update(members)
                pieces.append(Piece(CHAIN, op, op, parts=chain.stored, inlined=chain.inlined, tiles=chain.ways()))
            else:
                tried |= members.difference(beside)
        return pieces

    def _find_siblings(self, op: Operation) -> tuple[Operation, ...]:
        """Return the operations that alone read, with `op`, something that may become a part of its chain: of the same
        axes, and none computed from another."""
        beside: dict[Operation, None] = {}
        for producer in dict.fromkeys(tensor.op for tensor in op.input_tensors):
            readers = [reader for reader in self.readers[producer] if reader is not op]
            if (
                producer.values
                and producer not in self.outputs
                and self._is_untagged(producer)
                and all(
                    self._is_untagged(each) and not self._is_head(each) and self._is_result_like(each, op)
                    for each in readers
                )
            ):
                beside.update(dict.fromkeys(readers))
        stages = [self.s[each] for each in (op, *beside)]
        if any(one.reads(other) for one in stages for other in stages if one is not other):
            return ()
        return tuple(beside)

    def _is_result_like(self, one: Operation, other: Operation) -> bool:
        """Return whether two operations have as many elements along each axis, of one size."""
        return (
            len(one.axis) == len(other.axis)
            and one.num_outputs == 1
            and is_plain(one)
            and is_plain(other)
            and one.output(0).dtype.bits == other.output(0).dtype.bits
            and all(same_extent(axis_extent(a), axis_extent(b)) for a, b in zip(one.axis, other.axis, strict=True))
        )

    def _is_untagged(self, op: Operation) -> bool:
        """Return whether no rule of its own has it."""
        return op not in self.claimed and op.algorithm.partition(".")[0] not in self.tags

    def _is_head(self, op: Operation) -> bool:
        """Return whether it is of the heads of a reduction that reads it: cheap, or read once."""
        return (
            any(
                reader.reduction is not None and (weight(op) <= TRIVIAL or max_reads(op, [reader]) == 1)
                for reader in self.readers[op]
            )
            and op not in self.outputs
        )

    def _is_tail(self, op: Operation) -> bool:
        """Return whether it follows a reduction, element by element."""
        return op.reduction is None and any(
            tensor.op.reduction is not None
            and self.readers[tensor.op] == [op]
            and self.fusion.chain(tensor.op, ()) is None
            and is_pointwise(op, tensor.op, (tensor.op,), some=False)
            for tensor in op.input_tensors
        )

    def _scripts(self) -> list[Piece]:
        """Operations that are loops already, and what they alone read."""
        loops = [
            op for op in reversed(self.order) if not op.values and op.takes_definitions and op not in self.stepwise
        ]
        return [Piece("", op, op, heads=tuple(self._heads(op, (), ()))) for op in loops]

    def _scans(self) -> Iterator[Piece]:
        """Scans, with what is computed step by step, and what alone reads their states; where they may be fused, with the scans and the
        operations before it that share its columns."""
        fused = set[Operation]()
        for op in reversed(self.order):
            if not op.is_stepwise or op in self.stepwise or op in fused:
                continue
            output, members = next(self._fuse_scans(op), (op, [op]))
            fused.update(members)
            self.claimed.update((output, *members))
            steps = {step for member in members for step in member.steps(self.order)}
            parts = sorted(steps.union(members) - {op, output}, key=self.place.__getitem__)
            yield Piece(SCAN, op, output, parts=tuple(parts))

    def _fuse_scans(self, scan: Operation) -> Iterator[tuple[Operation, list[Operation]]]:
        """Operations that follow a scan, the last one first, each with what is computed for it alone; the one that reads it alone, in
        whatever order of dimensions, where nothing else is fused."""
        tail = [scan]
        while tail[-1] not in self.outputs and len(readers := self.readers[tail[-1]]) == 1:
            if readers[0] in self.claimed or not is_plain(readers[0]) or not is_no_larger(readers[0], tail[-1]):
                break
            tail.append(readers[0])
        if self.fusion is APART:
            if len(tail) > 1 and scan.num_outputs == 1 and is_permutation(tail[1], scan):
                yield tail[1], [scan]
            return
        for end in range(len(tail) - 1, 0, -1):
            shared = SharedColumns(tail[end])
            members = [op for op in reversed(tail[:end]) if shared.take(op, op.steps(self.order))]
            if len(members) == end:
                yield tail[end], [*members, *self._find_fused(shared)]

    def _find_fused(self, shared: SharedColumns) -> list[Operation]:
        """The scans and the operations before those that were taken that share their columns, readers first; not the readers of other
        scans, which are computed with those."""
        group, further = {*shared.taken}, list[Operation]()
        for op in self._walk_producers(group):
            if (
                op not in shared.taken
                and op not in self.outputs
                and group.issuperset(self.readers[op])
                and (op.is_stepwise and op not in self.stepwise or self._is_untagged(op) and not self._is_tail(op))
                and shared.take(op, op.steps(self.order))
            ):
                further.append(op)
            group.update({op} & shared.taken.keys())  # the steps of a scan follow it
        group -= {step for op in further for step in (op, *op.steps(self.order))}
        fused: list[Operation] = []
        for op in further:
            scans = [tensor.op for tensor in op.input_tensors if tensor.op.is_stepwise]
            if group.issuperset(self.readers[op]) and (op.is_stepwise or all(scan in further for scan in scans)):
                fused.append(op)
                group.update((op, *op.steps(self.order)))
        return fused

    # Anchors, their parts, tails and heads

    def _anchors(self) -> tuple[dict[Operation, tuple[Operation, ...]], dict[Operation, str]]:
        """The anchors with their parts, and the tags whose rules they have."""
        parts_of: dict[Operation, tuple[Operation, ...]] = {}
        tags: dict[Operation, str] = {}
        for op in reversed(self.order):
            if op in self.claimed or not op.values:
                continue
            parts = self._parts(op)
            whole = op.algorithm in self.tags and parts is not None
            chain = self._row_chain(op) if ROWS in self.tags and not whole else None
            if chain is not None:
                parts_of[op], tags[op] = chain, ROWS
                self.claimed.update((op, *chain))
            elif whole or op.reduction is not None:
                parts_of[op], tags[op] = (
                    (parts or ()) if whole else self._parts_by_reads(op),
                    op.algorithm if whole else "",
                )
                self.claimed.update((op, *parts_of[op]))
        return parts_of, tags

    def _form_groups(
        self, parts_of: Mapping[Operation, tuple[Operation, ...]], tags: Mapping[Operation, str]
    ) -> list[Piece]:
        """The anchors' pieces; tails go to the last anchor that they follow, being computed after all of them; where they are kernels, to
        the first one, so that layers are cut alike whatever else is added to their results."""
        self._compute_again([member for op, parts in parts_of.items() if not tags[op] for member in (op, *parts)])
        order = [*parts_of][::-1] if self.moves else [*parts_of]
        tails = {op: self._tail(op, self.fusion is not APART and not tags[op]) for op in order}
        heads = {op: self._heads(op, parts, tails[op]) for op, parts in parts_of.items()}
        again = tuple(reversed(self.again))
        pieces: list[Piece] = []
        for op, parts in parts_of.items():
            inlined = (
                *(() if pieces else again),
                *self._find_inlined(tails[op]),
            )  # before any rule looks at what reads them
            pieces.append(
                Piece(
                    tags[op],
                    op,
                    tails[op][-1] if tails[op] else op,
                    tuple(heads[op]),
                    parts,
                    tuple(tails[op][:-1]),
                    inlined,
                )
            )
        return pieces

    def _parts(self, op: Operation) -> tuple[Operation, ...] | None:
        """The other operations of an operator whose last one is `op`, producers first; None where somebody else needs
        them, so that they are operations like any others."""
        prefix = f"{op.algorithm}."
        parts: dict[Operation, None] = {}
        stack = [op]
        while stack and op.algorithm:
            for tensor in stack.pop().input_tensors:
                if tensor.op.algorithm.startswith(prefix) and tensor.op not in parts:
                    parts[tensor.op] = None
                    stack.append(tensor.op)
        own = {op, *parts}
        if any(
            member in self.outputs or member in self.claimed or not own.issuperset(self.readers[member])
            for member in parts
        ):
            return None
        return tuple(sorted(parts, key=self.place.__getitem__))

    def _row_chain(self, op: Operation) -> tuple[Operation, ...] | None:
        """The other operations of a chain of reductions over the same axes that ends with `op`."""
        if op in self.in_no_chain or not (is_plain(op) or op.reduction is not None):
            return None
        chain, visited = match_rows(op, self.place, self._is_free, self.readers)
        if chain is None:
            self.in_no_chain |= visited
        return chain.parts if chain is not None else None

    def _is_free(self, op: Operation) -> bool:
        return bool(op.values) and op not in self.claimed and op not in self.outputs

    def _parts_by_reads(self, op: Operation) -> tuple[Operation, ...]:
        """The reductions that `op`, one without a rule of its own, alone reads, and that can be computed where it reads them: all
        at the same of its axes."""
        parts: list[Operation] = []
        shared: frozenset[IterVar] | None = None
        for producer in dict.fromkeys(tensor.op for tensor in op.input_tensors):
            if (
                producer.reduction is None
                or producer in self.claimed
                or producer in self.outputs
                or producer.algorithm in self.tags
                or self.readers[producer] != [op]
            ):
                continue
            axes = self.fusion.shared(op, producer)
            if axes is not None and shared in (None, axes):
                parts.append(producer)
                shared = axes
        return tuple(sorted(parts, key=self.place.__getitem__))

    def _clones(self, reductions: Collection[Operation]) -> Iterator[tuple[Operation, Operation]]:
        """The reductions that several of these read, but that cost less computed for each of them, as a part of it, than stored;
        with each reader but the last."""
        for op in self.order:
            readers = [reader for reader in self.readers[op] if reader in reductions]
            if (
                op in reductions
                and op not in self.outputs
                and len(readers) > 1
                and len(readers) == len(self.readers[op])
                and self.fusion.cheap(op)
                and all(self.fusion.shared(reader, op) is not None for reader in readers)
            ):
                yield from ((op, reader) for reader in readers[:-1])

    def _compute_again(self, reductions: Collection[Operation]) -> None:
        """Find the plain operations that several of these reductions read, and which each of them computes for itself."""
        values = {op: op.values[0] for op in reductions}
        places = {op: at for at, op in enumerate(values)}
        read_by: dict[Operation, set[Operation]] = {op: {op} for op in values}
        for op in reversed(self.order):
            readers = self.readers[op]
            if (
                op in self.claimed
                or op in self.outputs
                or not is_plain(op)
                or op.algorithm in self.tags
                or not readers
                or len(readers) == 1
                and readers[0] not in self.again
                or not all(reader in values or reader in self.again for reader in readers)
            ):
                continue
            through = sorted(set[Operation]().union(*(read_by[reader] for reader in readers)), key=places.__getitem__)
            reading = [reader for reader in through if reads_output(values[reader], op)]
            if self.fusion.again([(values[reader], reader.axis) for reader in reading], op):
                for reader in reading:
                    values[reader] = inline(values[reader], op.output(0), op.axis, op.values[0])
                self.again[op] = None
                read_by[op] = {*reading}
                self.claimed.add(op)

    def _tail(self, anchor: Operation, some: bool) -> list[Operation]:
        """The operations after the anchor up to the furthest one through which all that depends on it passes. some: they may
        have less than all of its elements, the first ones along each axis."""
        region: dict[Operation, None] = {anchor: None}
        unread = {anchor: len(self.readers[anchor])}  # of each operation of the region, the readers that are not in it
        still_read = {anchor}  # what has such readers, or is an output
        furthest, total = 1, 0
        waiting: list[int] = []
        entered: set[Operation] = set()
        following: Operation | None = anchor
        while following is not None:
            for reader in self.readers[following] if following in region else ():
                if reader not in entered:
                    entered.add(reader)
                    heappush(waiting, self.place[reader])
            following = self.order[heappop(waiting)] if waiting else None
            if (
                following is None
                or following in self.claimed
                or not is_plain(following)
                or not (is_pointwise(following, anchor, region, some) or self.moves and _reads_once(following, region))
            ):
                continue
            total += weight(following)
            if total > MAX_WEIGHT:
                break
            for producer in {tensor.op for tensor in following.input_tensors} & region.keys():
                unread[producer] -= 1
                if not unread[producer] and producer not in self.outputs:
                    still_read.remove(producer)
            region[following] = None
            unread[following] = len(self.readers[following])
            still_read.add(following)
            if len(still_read) == 1:  # `following` alone: all that depends on the anchor passes through it
                furthest = len(region)
        tail = list(region)[1:furthest]
        self.claimed.update(tail)
        return tail

    def _heads(self, anchor: Operation, parts: Iterable[Operation], tail: Iterable[Operation]) -> list[Operation]:
        """The plain operations that this group alone reads, and its anchor or a part of it among the readers."""
        core = {anchor, *parts}
        group = {*core, *tail}
        total = 0
        heads: list[Operation] = []
        for op in self._walk_producers(group):
            readers = self.readers[op]
            if (
                op in self.claimed
                or op in self.outputs
                or not is_plain(op)
                or not group.issuperset(readers)
                or core.isdisjoint(readers)
            ):
                continue
            own = weight(op) * max_reads(op, readers)
            if total + own <= MAX_WEIGHT and (own <= TRIVIAL or max_reads(op, readers) == 1):
                heads.append(op)
                core.add(op)
                group.add(op)
                total += own
        self.claimed.update(heads)
        return heads[::-1]

    def _walk_producers(self, group: set[Operation]) -> Iterator[Operation]:
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
            pieces.append(Piece("", op, op, inlined=tuple(self._find_inlined((op,)))))
        return pieces

    def _find_inlined(self, into: Iterable[Operation]) -> list[Operation]:
        """The plain operations to inline into these and, with them, into each other."""
        takers = set(into)
        total = sum(map(weight, takers))
        inlined: list[Operation] = []
        for op in self._walk_producers(takers):
            readers = self.readers[op]
            if op in self.claimed or op in self.outputs or not is_plain(op) or not takers.issuperset(readers):
                continue
            own = weight(op)
            again = (
                max_reads(op, readers) > 1
                or len(readers) > 1
                or not all(is_no_larger(reader, op) for reader in readers)
            )
            total += own * max_reads(op, readers)
            if total <= MAX_WEIGHT and not (again and (own > TRIVIAL or is_expensive(op))):
                inlined.append(op)
                takers.add(op)
                self.claimed.add(op)
        return inlined[::-1]


def _reads_once(op: Operation, region: Collection[Operation]) -> bool:
    """Return whether each element of `op` is made of one element at most of each operation of a region."""
    return all(max_reads(read, (op,)) <= 1 for read in {tensor.op for tensor in op.input_tensors} & set(region))
