"""Stages that are computed some iterations ahead of the one that uses them, in places that take turns.

    for k in 9:                           B: float32[3, 8]                                  # three places, two iterations ahead
        B: float32[8]                     for f in 2:
        for i in 8:                 →         for i in 8: B[f, i] = A[f * 8 + i]
            B[i] = A[k * 8 + i]           for k in 9:
        ... B[i] ...                          if k + 2 < 9:
                                                  for i in 8: B[(k + 2) % 3, i] = A[(k + 2) * 8 + i]
                                              ... B[k % 3, i] ...

Where places are filled asynchronously, what is begun in an iteration is one group, and each iteration first waits until its own
group is there: all but the last `turns` - 2 that were begun. What the copy engine fills is waited for by its place. Targets without
such copies store at once, and wait for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from ...base.errors import user_source
from ...ir import Allocate, Buffer, BufferLoad, Expr, For, If, IntImm, LoopKind, Stmt, Var
from ...ir.accesses import written_buffers
from ...ir.arith.analyzer import Analyzer
from ...ir.copies import asynchronous, bulk_copy, bulk_pipeline, bulk_wait, commit, wait
from ...ir.dtype import INT32
from ...ir.ops import cast, const, floormod, integer_value
from ...ir.passes.common.fresh_copy import fresh_copy
from ...ir.passes.common.simplify import simplify_stmt
from ...ir.pointers import pointed_buffer
from ...ir.visit import seq, substitute, walk
from ..model.checks import outline
from ..model.overlap import Overlap
from ..model.stage import Stage
from .computation import Bounds, Computation, Loop
from .errors import CannotComputeAhead
from .extension import Extension, Place
from .nest import Storage
from .overlap import check_shared, moved_accesses

__all__ = ["Ahead"]

_LINE_BYTES = 64
"""What allocations are aligned to."""

Part = tuple[Computation, Stmt]
"""What is computed ahead, and the statement that does."""


class Ahead(Extension):
    """Lowering of primitives whose stages take turns."""

    def __init__(self, storage: Storage, analyzer: Analyzer) -> None:
        super().__init__(storage, analyzer)
        self.ahead: dict[Place, list[Part]] = {}
        """Statements that are computed ahead, by the loop that they are computed at."""

    def plan(self, bounds: Bounds) -> None:
        for computation in bounds.of:
            if _overlap(computation).turns:
                check_shared(computation)

    def takes(self, bounds: Bounds, computation: Computation, statement: Stmt) -> bool:
        parent = computation.parent
        if parent is None or computation.in_step or not _overlap(computation).turns:
            return False
        if bounds.of[parent].loops[computation.place].var is None:  # one iteration has nothing to be ahead of
            return False  # where the loop runs once, there is no next iteration
        self.ahead.setdefault((parent, computation.place), []).append((computation, statement))
        return True

    def around(self, place: Place, loop: Loop, statement: Stmt) -> Stmt:
        parts = self.ahead.pop(place, [])
        return _taking_turns(loop, statement, parts, self.storage, self.analyzer) if parts else statement


_NONE = Overlap("", "")


def _overlap(computation: Computation) -> Overlap:
    return computation.stage.overlap or _NONE


def _taking_turns(loop: Loop, nest: Stmt, ahead: Sequence[Part], storage: Storage, analyzer: Analyzer) -> Stmt:
    """The loop statement `nest` over `loop`, with the statements `ahead`, which compute what an iteration uses, that many
    iterations before it. Raises CannotComputeAhead (TW0351)."""
    assert isinstance(nest, For) and loop.var is not None
    owners = {storage.buffers[tensor]: computation for computation, _ in ahead for tensor in computation.op.outputs}
    for computation, statement in ahead:
        _check_loop(computation, loop, ahead)
        _check_reads(computation, statement, loop, nest, owners, storage)
    _check_alignment(loop, nest, ahead, storage)
    var = loop.var
    roles = any(_overlap(computation).roles for computation, _ in ahead)
    places: dict[Buffer, tuple[Buffer, Callable[[tuple[Expr, ...]], tuple[Expr, ...]]]] = {}
    for computation, _ in ahead:
        turns = const(_overlap(computation).turns, var.dtype)
        for tensor in computation.op.outputs:
            buffer = storage.buffers[tensor]
            # the places lie one behind the other
            strides = (buffer.strides[0] * buffer.shape[0], *buffer.strides) if buffer.strides else ()
            larger = storage.buffers[tensor] = replace(buffer, shape=(turns, *buffer.shape), strides=strides)
            places[buffer] = larger, lambda indices, turns=turns: (floormod(var, turns), *indices)
    parts = [
        (overlap, moved_accesses(seq(*(statement for _, statement in alike)), places, analyzer))
        for overlap, alike in groupby(
            # copies by the engine are begun in one group, and waited for by place
            sorted(ahead, key=lambda part: _overlap(part[0]).bulk),
            lambda part: _overlap(part[0]),
        )
    ]
    if roles:  # copying warps run ahead by themselves: no prologue is needed
        turns = parts[0][0].turns
        filled = [bulk_copy(part, _turn(var, turns)) for _, part in parts]
        body = seq(*filled, bulk_wait(_turn(var, turns)), moved_accesses(nest.body, places, analyzer))
        return _allocate(places, bulk_pipeline(turns, replace(nest, body=body), roles, _overlap(ahead[0][0]).cluster))
    # the number of groups that may still be under way
    waits = max((overlap.turns for overlap, _ in parts if overlap.asynchronous and not overlap.bulk), default=0)
    boxes = next((overlap.turns for overlap, _ in parts if overlap.bulk), 0)
    before = _first(nest, parts, waits, analyzer)
    following: list[Stmt] = []
    for overlap, part in parts:
        later = var + (overlap.turns - 1)
        begun = _fill(overlap, substitute(part, {var: later}), _turn(later, overlap.turns))
        # the last iterations have nothing left to begin
        following.append(If(later < cast(nest.extent, var.dtype), begun))
    body = seq(
        *([wait(waits - 2)] if waits else []),
        *([bulk_wait(_turn(var, boxes))] if boxes else []),
        *(simplify_stmt(each, analyzer) for each in following),
        *([commit()] if waits else []),
        moved_accesses(nest.body, places, analyzer),
    )
    result = seq(*before, replace(nest, body=body))
    return _allocate(places, bulk_pipeline(boxes, result) if boxes else result)


def _first(nest: For, parts: Sequence[tuple[Overlap, Stmt]], waits: int, analyzer: Analyzer) -> list[Stmt]:
    """Return the prologue before the loop: a loop over the first iterations, where all of what is computed ahead is so alike."""
    turns = {overlap.turns for overlap, _ in parts}
    steps: list[Expr] = [const(step, nest.var.dtype) for step in range(max(turns) - 1)]
    # copies by the engine name their place by a number
    looped = len(steps) > 1 and len(turns) == 1 and not any(overlap.bulk for overlap, _ in parts)
    step = Var(f"first.{nest.var.name}", nest.var.dtype)
    if looped:
        loop = For(
            step,
            const(0, step.dtype),
            const(len(steps), step.dtype),
            LoopKind.SERIAL,
            _begin_iteration(nest, parts, step, waits),
        )
        return [simplify_stmt(loop, analyzer)]
    return [simplify_stmt(_begin_iteration(nest, parts, each, waits), analyzer) for each in steps]


def _begin_iteration(nest: For, parts: Sequence[tuple[Overlap, Stmt]], step: Expr, waits: int) -> Stmt:
    """Return the part of an iteration that begins early."""
    number = integer_value(step, 0)
    filled = [
        _fill(overlap, fresh_copy(part, {nest.var: step}), cast(step, INT32))
        for overlap, part in parts
        if number < overlap.turns - 1
    ]
    # each group is committed even if the loop is too short: waits count groups
    return seq(If(cast(nest.extent, step.dtype) > step, seq(*filled)), *([commit()] if number < waits - 1 else []))


def _allocate(places: Mapping[Buffer, tuple[Buffer, object]], statement: Stmt) -> Stmt:
    for buffer, _ in places.values():
        statement = Allocate(buffer, statement)
    return statement


def _turn(iteration: Expr, turns: int) -> Expr:
    """The place of an iteration."""
    return cast(floormod(iteration, const(turns, iteration.dtype)), INT32)


def _fill(overlap: Overlap, part: Stmt, place: Expr) -> Stmt:
    if overlap.bulk:
        return bulk_copy(part, place)
    return asynchronous(part) if overlap.asynchronous else part


def _check_loop(computation: Computation, loop: Loop, ahead: Sequence[Part]) -> None:
    """Check that iterations follow each other, and that all that is waited for is waited for alike."""
    if loop.attr.kind not in ("serial", "unrolled"):  # ahead means a later iteration of the same thread
        kind = loop.thread or loop.attr.kind
        raise _refusal(
            computation.stage,
            loop,
            f"the iterations of {loop.axis.name} do not follow each other: it is {kind}",
            "compute it at a serial loop inside",
        )
    own = _overlap(computation)
    for other, _ in ahead:
        if own.roles and own.cluster != _overlap(other).cluster:  # a barrier counts the arrivals of one cluster size
            raise _refusal(
                computation.stage,
                loop,
                f"{own.cluster} blocks copy it together, and {_overlap(other).cluster} copy {other.name}, "
                "at the same loop",
                f's[{other.name}].pipeline({own.turns}, by="tma", warp_specialize=True, cluster={own.cluster})',
            )
        if own.roles != _overlap(other).roles:
            raise _refusal(
                computation.stage,
                loop,
                f"it has {'' if own.roles else 'no '}warps of its own, and {other.name}, at the same "
                f"loop, {'none' if own.roles else 'has'}",
                f's[{other.name}].pipeline({own.turns}, by="tma", warp_specialize=True)',
            )
        # one wait per iteration serves all asynchronous copies
        if own.asynchronous and _overlap(other).asynchronous and _overlap(other).turns != own.turns:
            raise _refusal(
                computation.stage,
                loop,
                f"it takes {own.turns} turns and {other.name}, at the same loop, {_overlap(other).turns}: "
                "what is begun in an iteration is waited for together",
                f"s[{other.name}].pipeline({own.turns})",
            )


def _check_alignment(loop: Loop, nest: For, ahead: Sequence[Part], storage: Storage) -> None:
    """Code that gets pointers was promised alignments, which the other places have too where they begin on a cache line."""
    pointed = {
        target[0]
        for part in (nest.body, *(statement for _, statement in ahead))
        for node in walk(part)
        if (target := pointed_buffer(node)) is not None
    }
    for computation, _ in ahead:
        for tensor in computation.op.outputs:
            buffer = storage.buffers[tensor]
            size = _bytes(buffer)
            # the second place begins where the first one ends
            if buffer in pointed and (size is None or size % _LINE_BYTES):
                raise _refusal(
                    computation.stage,
                    loop,
                    f"code that gets a pointer to {buffer.name} relies on its alignment, and the second "
                    f"place would begin at byte {'?' if size is None else size}",
                    f"make the part of {buffer.name} a multiple of {_LINE_BYTES} bytes, or drop {_overlap(computation).primitive}",
                )


def _bytes(buffer: Buffer) -> int | None:
    """The size of one place, where it is known."""
    first = buffer.strides[:1] + buffer.shape[:1] if buffer.strides else buffer.shape
    size = buffer.dtype.bytes
    for extent in first:
        if not isinstance(extent, IntImm):
            return None
        size *= extent.value
    return size


def _refusal(stage: Stage, loop: Loop | None, reason: str, fix: str) -> CannotComputeAhead:
    """The error for a stage that cannot be computed ahead."""
    where = stage.attach_stage
    return CannotComputeAhead(
        f"cannot give stage {stage.name} a {stage.overlap} buffer",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops="" if loop is None or where is None else outline(where, [loop.axis]),
        fix=fix,
    )


def _check_reads(
    computation: Computation,
    statement: Stmt,
    loop: Loop,
    nest: For,
    owners: dict[Buffer, Computation],
    storage: Storage,
) -> None:
    """Check the reads of a stage computed ahead:

    only what does not change in the loop, or is computed ahead as far and is there at once.
    """
    # what the loop writes may not be there yet
    changed, own = written_buffers(nest.body) | {*owners}, _overlap(computation)
    inside = {node.buffer for node in walk(statement) if isinstance(node, Allocate)} | {
        storage.buffers[tensor] for tensor in computation.op.outputs
    }
    for node in walk(statement):
        if not isinstance(node, BufferLoad) or node.buffer not in changed or node.buffer in inside:
            continue
        name, owner = node.buffer.name, owners.get(node.buffer)
        # a producer that is as far ahead is computed just before
        if owner is not None and not _overlap(owner).asynchronous and _overlap(owner).turns == own.turns:
            continue
        if owner is not None:
            raise _refusal(
                computation.stage,
                loop,
                f"it reads {name}, which is not there that many iterations ahead",
                f"compute {name} at root, or inline one of the two",
            )
        too = not own.asynchronous and any(buffer is node.buffer for buffer in storage.buffers.values())
        raise _refusal(
            computation.stage,
            loop,
            f"it reads {name}, which an iteration of {loop.axis.name} computes itself",
            f"s[{name}].{own.primitive}() too" if too else f"compute {name} outside of the loop",
        )
