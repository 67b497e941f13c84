"""Programs as kernels, for whoever cuts larger ones: which are one group, and the time that one takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from ..codegen.target import Target
from ..schedule import Schedule, Stage, create_schedule
from ..te.operation import Operation
from ..te.tensor import Tensor
from .cpu.rules import RULES
from .factoring import estimate_alone
from .group_partition import cut
from .partition import Piece
from .plan import cheapest
from .scheduler import schedule_groups

__all__ = ["estimate_seconds", "group_operations"]


def group_operations(outputs: Sequence[Tensor], among: Sequence[Operation]) -> dict[Operation, Operation]:
    """Return for each of some operations of a program, producers first, the last one of them in its group. Groups are those that the
    rules schedule, what moves a group's results being of it; but what a sum reads for each of its terms is no part of its group, nor
    is what comes from another group's sum. What only some machines compute together (chains of stencils, sums within sums) is
    no group."""
    place = {op: at for at, op in enumerate(among)}
    stored = dict.fromkeys(tensor.op for tensor in outputs)
    last = {op: op for op in among}
    pieces: list[Piece] = []
    heads = list(stored)
    while heads:
        s = create_schedule(list(stored))
        pieces = cut(s, RULES, moves=True)
        heads = [op for piece in pieces for op in _find_heads(s, piece, place) if op not in stored]
        stored.update(dict.fromkeys(heads))
    for piece in pieces:
        inside = [op for op in piece.operations if op in place]
        last.update(dict.fromkeys(inside, max(inside, key=place.__getitem__, default=piece.output)))
    return last


def _find_heads(s: Schedule, piece: Piece, among: Collection[Operation]) -> list[Operation]:
    """Some of a piece's operations: the last ones before its reductions, which are stored all the same."""
    own = {s[op]: None for op in piece.operations}
    sums = [stage for stage in own if stage.op.reduction is not None]
    after = _reachable(sums, lambda stage: own.keys() & stage.readers.keys())
    before = {stage.op for stage in own.keys() - set(after)}
    heads: dict[Operation, None] = {}
    waiting = list(sums)
    while waiting:
        for producer in waiting.pop().producers:
            if producer.op in before and producer.op in among:
                heads[producer.op] = None
            elif producer.op in before:
                waiting.append(producer)
    return [op for op in heads if not piece.tag or _follows_sum(s[op])]


def _follows_sum(stage: Stage) -> bool:
    """Return whether what a stage computes comes from a reduction."""
    return any(one.op.reduction is not None for one in _reachable([stage], lambda stage: stage.producers))


def _reachable(stages: Sequence[Stage], following: Callable[[Stage], Iterable[Stage]]) -> Iterator[Stage]:
    """Stages, and those that follow them."""
    waiting, met = list(stages), set(stages)
    while waiting:
        stage = waiting.pop()
        yield stage
        further = set(following(stage)) - met
        met |= further
        waiting += further


def estimate_seconds(output: Tensor, target: Target) -> float:
    """Return the time of a program as its operations are declared, without alternatives to them, by the estimates of its plan."""
    scheduled = partial(schedule_groups, target=target, exact=False, chooser=cheapest, known={}, whole=True)
    return estimate_alone(scheduled, output.op).seconds
