"""Stages that are computed in the same loops (compute_with): the outermost loops of one, the leader, are its followers' too.

    for i in 64:                       for i in 64:
        B[i] = 0                           C[i] = 0                     # what a follower does before its next shared loop
        for k in 32: B[i] += A[i, k]       B[i] = 0
    for i in 64:                 →         for k in 32:
        C[i] = 0                               B[i] += A[i, k]
        for k in 32: C[i] += ...               C[i] += ...

The nest of a follower is built as ever, with the variables of the shared loops. Then it is taken apart at these: what stands around
the first of them, around each next one, and within the last. The leader's nest takes these parts up while it is built, so that what
is computed at its shared loops, and the storage of that, lies around the followers' parts as well.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import TypeAlias

from ...base.errors import user_source
from ...ir import Allocate, Attr, Expr, For, IntImm, IterVar, LetStmt, Seq, Stmt, Var
from ...ir.accesses import reads_memory
from ...ir.arith.analyzer import Analyzer
from ...ir.visit import seq
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..model.checks import outline
from .computation import Computation, Loop, StageBounds
from .errors import LoopsNotShared

__all__ = [
    "Parts",
    "SharedLoops",
    "check_extent",
    "check_shared_loops",
    "children_first",
    "follow",
    "sort_for_building",
    "sort_by_dependence",
]

SharedLoops: TypeAlias = "dict[tuple[Computation, int], Loop]"
"""By leader and place: the loop, as the first of the stages that share it has it."""

_Around: TypeAlias = Callable[[Stmt], Stmt]


def follow(computation: Computation, leader: Computation, place: int) -> None:
    """Note that a computation shares the loops of another up to the one at `place`. Raises LoopsNotShared (TW0342)."""
    computation.leader, computation.shared = leader, place + 1
    leader.shared = max(leader.shared, computation.shared)
    leader.followers.append(computation)
    count = len(computation.stage.leaf_iter_vars)
    if count < computation.shared:  # a follower cannot share more loops than it has
        axis = leader.stage.leaf_iter_vars[place]
        raise _refusal(
            computation,
            f"'{axis.name}' is loop {place + 1} of {leader.name} from outside, and {computation.name} has {count}",
            f"share a loop further out, or split loops of {computation.name}",
        )


def _refusal(computation: Computation, reason: str, fix: str, axis: IterVar | None = None) -> LoopsNotShared:
    leader, stage = computation.leader, computation.stage
    name = leader.name if leader is not None else "another stage"
    loops = [outline(stage, [] if axis is None else [axis]), "" if leader is None else outline(leader.stage)]
    return LoopsNotShared(
        f"cannot compute {computation.name} with {name}",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops="\n".join(filter(None, loops)),
        fix=fix,
    )


def check_extent(computation: Computation, axis: IterVar, extent: Expr, twin: Loop, analyzer: Analyzer) -> None:
    """Raise LoopsNotShared (TW0342) unless a loop runs as often as the other one that it is to be."""
    known = isinstance(extent, IntImm) and isinstance(twin.extent, IntImm)
    if (
        extent.value == twin.extent.value
        if isinstance(extent, IntImm) and isinstance(twin.extent, IntImm)
        else not known and not reads_memory(extent) and analyzer.can_prove_equal(extent, twin.extent)
    ):
        return  # data may give both loops other extents
    name, other = computation.name, twin.stage.name
    follower = computation if computation.leader is not None else computation.followers[0]
    raise _refusal(
        follower,
        f"'{axis.name}' of {name} runs {extent} times, and '{twin.axis.name}' of {other} {twin.extent} times",
        "split the loops so that those which are shared run equally often (what a split leaves over is guarded), or "
        "share a loop further out",
        axis if follower is computation else None,
    )


def check_shared_loops(bounds: StageBounds, leader: StageBounds) -> None:
    """Raise LoopsNotShared (TW0342) where the loops of a follower cannot run as those of its leader do."""
    computation = bounds.computation
    stage = computation.stage
    for member in (computation, leader.computation):
        turns = member.stage.overlap is not None and member.stage.overlap.turns
        # steps of a scan and turns of a buffer have an order of their own
        if member.in_step or member.home is not None or turns:
            how = f"has a {member.stage.overlap} buffer" if turns else "is computed in the steps of a scan"
            raise _refusal(
                computation, f"{member.name} {how}, which has an order of its own", f"s[{stage.name}].compute_root()"
            )
    for place, (own, theirs) in enumerate(zip(bounds.loops[: computation.shared], leader.loops, strict=False)):
        noted, attr = stage.attr(own.axis), theirs.attr
        # notes such as prefetches are each stage's own
        if replace(noted, notes=()).annotates_loop and not noted.has_kind(attr):
            kind = noted.kind if noted.bind_thread is None else f"bound to {noted.bind_thread.thread_tag}"
            kind = f"has the pragma {noted.pragmas[0][0]}" if noted.pragmas else f"is {kind}"
            raise _refusal(
                computation,
                f"'{own.axis.name}' of {stage.name} {kind}, and '{theirs.axis.name}' of "
                f"{leader.computation.name}, which it is to be, does not run so",
                f"annotate the loop of {leader.computation.name}: that is how both run",
                own.axis,
            )
        reduced = next(
            (each for each, loop in ((bounds, own), (leader, theirs)) if each.marks.get(loop.axis, 0) & 2), None
        )
        # iterations at once would race on the sum
        if reduced is not None and (theirs.thread or attr.kind in ("parallel", "vectorized")):
            raise _refusal(
                computation,
                f"loop {place + 1} is {theirs.thread or attr.kind}, and {reduced.computation.name} is a "
                "reduction over it: what runs at once would race on its results",
                "share loops further out, or leave the loop serial",
                own.axis,
            )


class Parts:
    """The nest of a follower, taken apart at the loops that it shares."""

    def __init__(self, bounds: StageBounds, statement: Stmt) -> None:
        self.shared = bounds.computation.shared
        self.contexts: list[_Around] = []
        """For each shared loop what stands around it within the one before."""
        for loop in bounds.loops[: self.shared]:
            around, statement = _open_loop(bounds.computation, statement, loop.var)
            self.contexts.append(around)
        self.inside = statement
        self.taken = 0

    def within(self, place: int, body: Stmt) -> Stmt:
        """The body of the leader's loop at a place with what the follower does there."""
        if place >= self.shared:
            return body
        self.taken += 1  # each shared loop of the leader asks once
        return seq(body, self.inside) if place == self.shared - 1 else self.contexts[place + 1](body)

    def around(self, statement: Stmt) -> Stmt:
        """The leader's nest with what the follower does before and after its loops."""
        assert self.taken == self.shared, "a loop of the leader was left out"
        return self.contexts[0](statement)


def _open_loop(computation: Computation, statement: Stmt, var: Var | None) -> tuple[_Around, Stmt]:
    """Return the statements around the loop over a variable in a statement, and the loop's body; where there is no such loop, since it runs
    once, nothing and all of it."""
    if var is None:  # the loop ran once and vanished
        return lambda inner: inner, statement
    found = next(_enumerate_entries(statement, var), None)
    if found is None:
        raise _refusal(  # a guard or a prologue stands between the loops
            computation,
            f"the loops of {computation.name} are not one nest any more where they are to be shared",
            "share a loop further out",
        )
    return found


def _enumerate_entries(statement: Stmt, var: Var) -> Iterator[tuple[_Around, Stmt]]:
    if isinstance(statement, For) and statement.var is var:
        yield lambda inner: inner, statement.body
    elif isinstance(statement, (Allocate, Attr, LetStmt)):
        for around, body in _enumerate_entries(statement.body, var):
            yield lambda inner, around=around: replace(statement, body=around(inner)), body
    elif isinstance(statement, Seq):
        for at, part in enumerate(statement.body):
            for around, body in _enumerate_entries(part, var):
                yield (
                    lambda inner, around=around, at=at: seq(
                        *statement.body[:at], around(inner), *statement.body[at + 1 :]
                    ),
                    body,
                )


# Orders


def children_first(
    computations: Sequence[Computation],
    consumers: Mapping[Operation, Sequence[Computation]],
) -> list[Computation]:
    """Computations, given producers first, so that what is computed at a loop stands before the stage whose loop that is, even
    where a follower of that stage alone reads it. Raises LoopsNotShared (TW0342) where there is no such order."""
    followers = [computation for computation in computations if computation.leader is not None]
    if not followers:  # without followers producers first is the order
        return list(computations)
    place = {computation: at for at, computation in enumerate(computations)}
    after = [
        {place[reader] for reader in (*consumers.get(computation.op, ()), computation.parent) if reader in place}
        for computation in computations
    ]
    return [
        computations[at]
        for at in _sort_numbers(after, lambda stuck: _stuck(followers[0], [computations[at] for at in stuck]))
    ]


def sort_for_building(computations: Sequence[Computation]) -> Iterator[Computation]:
    """Computations, producers first; leaders after all of their followers, whose parts they take up."""
    waiting = {
        computation: {computation, *computation.followers} for computation in computations if computation.followers
    }
    for computation in computations:
        leader = computation if computation in waiting else computation.leader
        if computation is not leader:  # a leader waits for its followers, whose parts it takes up
            yield computation
        if leader is not None:
            waiting[leader].remove(computation)
            if not waiting[leader]:
                yield leader


def sort_by_dependence(
    built: list[tuple[Computation, Stmt]],
    bounds: Mapping[Computation, StageBounds],
) -> list[tuple[Computation, Stmt]]:
    """Order the stages at one place, producers first, where some of it is several stages in one nest.

    Raises LoopsNotShared (TW0342) where two of these nests would have to stand before each other.
    """
    leaders = [leader for leader, _ in built if leader.followers]
    if not leaders:  # without shared nests statements are already in order
        return built
    nest_of = {member: at for at, (leader, _) in enumerate(built) for member in (leader, *leader.followers)}
    after: list[set[int]] = [set() for _ in built]
    for producer, reader, computation in _reads_among(nest_of, bounds):
        first, then = nest_of[producer], nest_of[reader]
        if first == then:  # one nest cannot stand before itself
            raise _refusal(
                producer if reader.leader is None else reader,
                f"{computation.name} reads {producer.name}, which has to be computed before",
                f"s[{producer.name}].compute_root()",
            )
        after[first].add(then)
    order = _sort_numbers(after, lambda stuck: _stuck(leaders[0].followers[0], [built[at][0] for at in stuck]))
    return [built[at] for at in order]


def _reads_among(
    members: Container[Computation],
    computations: Iterable[Computation],
) -> Iterator[tuple[Computation, Computation, Computation]]:
    """Return the members that read each other: the producer, the reader, and what within the reader reads it."""
    producers: dict[Tensor, Computation] = {}
    for computation in computations:
        if computation in members:
            producers.update(dict.fromkeys(computation.op.outputs, computation))
    for computation in computations:
        reader = next((each for each in computation.path() if each in members), None)
        if reader is not None:
            found = (producers[tensor] for tensor in computation.reads if tensor in producers)
            yield from ((producer, reader, computation) for producer in found if producer is not reader)


def _stuck(follower: Computation, computations: Sequence[Computation]) -> LoopsNotShared:
    names = ", ".join(each.name for each in computations)
    return _refusal(
        follower, f"each of {names} would have to be computed before the others", f"s[{follower.name}].compute_root()"
    )


def _sort_numbers(after: Sequence[set[int]], stuck: Callable[[list[int]], LoopsNotShared]) -> list[int]:
    """The numbers below len(after), each before those that come after it, in their order as far as that goes."""
    missing = [0] * len(after)
    for later in after:
        for at in later:
            missing[at] += 1
    ready = [at for at, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        order.append(heappop(ready))  # the smallest ready number first: the order stays close to the given one
        for at in after[order[-1]]:
            missing[at] -= 1
            if not missing[at]:
                heappush(ready, at)
    if len(order) < len(after):  # a cycle leaves somebody waiting
        raise stuck([at for at, count in enumerate(missing) if count])
    return order
