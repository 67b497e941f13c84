"""The steps of TVM's auto_scheduler, as its logs hold them, on a schedule of ours.

A step names stages and loops by number: stages in the order of TVM's graph of operations, into which caches and partial results are
put, loops as they stand in a stage.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ....base.arguments import is_a
from ....schedule import Schedule, create_schedule
from ....te import Tensor, thread_axis

__all__ = ["ANNOTATIONS", "Steps", "scheduled"]

_BOUND = {
    4: "vthread",
    5: "blockIdx.x",
    6: "threadIdx.x",
    7: "blockIdx.y",
    8: "threadIdx.y",
    9: "blockIdx.z",
    10: "threadIdx.z",
}
_MARKED = {1: "unroll", 2: "vectorize", 3: "parallel"}
"""What TVM's numbers of annotations mean; 0 is none."""
ANNOTATIONS = {word: number for number, word in (_BOUND | _MARKED).items()}
"""The numbers by the words."""


def scheduled(tensors: Sequence[Tensor], steps: Sequence[Sequence[Any]]) -> Schedule:
    """The schedule of tensors (inputs, then outputs) that steps describe. Raises ValueError, KeyError, IndexError or TypeError for
    steps that say nothing here, and what the primitives raise."""
    state = Steps(tensors)
    for step in steps:
        state.take(step)
    return state.s


class Steps:
    """A schedule on its way. steps: those taken. stages: by TVM's numbers. axes: the loops of each as they stand."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.steps: list[Sequence[Any]] = []
        self.s = create_schedule([tensor.op for tensor in tensors if not tensor.op.is_passed])
        self.stages: list[Any] = [self.s[op] for op in _sort_operations(tensors)]
        self.axes: dict[Any, list[Any]] = {}
        for stage in self.stages:
            self.learn(stage)

    def take(self, step: Sequence[Any]) -> None:
        """One more step."""
        _STEPS[step[0]](self, *step[1:])
        self.steps.append(step)

    def learn(self, stage: Any) -> None:
        """The loops that a stage begins with."""
        op = stage.op
        self.axes[stage] = [] if op.is_passed else [*op.axis, *op.reduce_axis]

    def split(self, at: int, loop: int, lengths: Sequence[int], inner_to_outer: bool) -> None:
        """One loop into one more than there are lengths."""
        stage = self.stages[at]
        rest, parts = self.axes[stage][loop], list[Any]()
        if inner_to_outer:
            for length in reversed(lengths):
                rest, inner = stage.split(rest, factor=length)
                parts.insert(0, inner)
            parts.insert(0, rest)
        else:
            for length in lengths:
                outer, rest = stage.split(rest, nparts=length)
                parts.append(outer)
            parts.append(rest)
        self.axes[stage][loop : loop + 1] = parts

    def lengths(self, number: int) -> list[int]:
        """Lengths of a split that was one of the steps."""
        step = self.steps[number]
        if step[0] != "SP":
            raise ValueError(f"step {number} is not a split")
        return [int(length) for length in step[4]]


def _sort_operations(tensors: Sequence[Tensor]) -> list[Any]:
    """The operations in TVM's order: each after its inputs, and of those that can stand next the one that was found last, going
    from the outputs to the inputs."""
    found: dict[Any, int] = {}
    readers: dict[Any, list[Any]] = {}
    waiting: dict[Any, int] = {}
    stack = [tensor.op for tensor in tensors]
    while stack:
        op = stack.pop()
        if op in found:
            continue
        found[op] = len(found)
        inputs = list(dict.fromkeys(tensor.op for tensor in op.input_tensors))
        waiting[op] = len(inputs)
        for source in inputs:
            readers.setdefault(source, []).append(op)
            stack.append(source)
    queue = [(-found[op], op) for op in found if not waiting[op]]
    heapq.heapify(queue)
    ordered: list[Any] = []
    while queue:
        _, op = heapq.heappop(queue)
        ordered.append(op)
        for reader in readers.get(op, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(queue, (-found[reader], reader))
    return ordered


def _annotate(state: Steps, at: int, loop: int, kind: int) -> None:
    stage = state.stages[at]
    axis = state.axes[stage][loop]
    if kind in _BOUND:
        stage.bind(axis, thread_axis(_BOUND[kind]))
    elif kind:
        getattr(stage, _MARKED[kind])(axis)


def _fuse(state: Steps, at: int, loops: Sequence[int]) -> None:
    stage = state.stages[at]
    axes = state.axes[stage]
    if loops:
        axes[loops[0] : loops[-1] + 1] = [stage.fuse(*(axes[loop] for loop in loops))]


def _reorder(state: Steps, at: int, loops: Sequence[int]) -> None:
    stage = state.stages[at]
    state.axes[stage] = [state.axes[stage][loop] for loop in loops]
    stage.reorder(*state.axes[stage])


def _split(state: Steps, at: int, loop: int, extent: object, lengths: Sequence[int], inner_to_outer: int) -> None:
    del extent  # of the loop, which is known
    state.split(at, loop, lengths, bool(inner_to_outer))


def _follow_split(state: Steps, at: int, loop: int, source: int, parts: int) -> None:
    lengths = state.lengths(source)
    state.split(at, loop, [*lengths[: parts - 1], prod(lengths[parts - 1 :])], inner_to_outer=True)


def _follow_fused_split(state: Steps, at: int, loop: int, sources: Sequence[int], level: int, is_factor: int) -> None:
    state.split(at, loop, [prod(state.lengths(source)[level] for source in sources)], bool(is_factor))


def _align(state: Steps, at: int, loop: int, factor: int, offset: int) -> None:
    stage = state.stages[at]
    stage.storage_align(state.axes[stage][loop], factor, offset)


def _inline(state: Steps, at: int) -> None:
    state.stages[at].compute_inline()


def _root(state: Steps, at: int) -> None:
    state.stages[at].compute_root()


def _replay_attach(state: Steps, at: int, target: int, loop: int) -> None:
    consumer = state.stages[target]
    state.stages[at].compute_at(consumer, state.axes[consumer][loop])


def _pragma(state: Steps, at: int, loop: int, text: str) -> None:
    stage = state.stages[at]
    name, _, value = text.partition("$")
    if name == "auto_unroll_max_step":
        stage.pragma(state.axes[stage][loop], name, int(value))
        stage.pragma(state.axes[stage][loop], "unroll_explicit", True)


def _cache_read(state: Steps, at: int, scope: str, readers: Sequence[int]) -> None:
    tensor = state.stages[at].origin_op.output(0)
    cached = state.s.cache_read(tensor, scope, [state.stages[reader].op for reader in readers])
    _insert(state, at + 1, cached)


def _cache_write(state: Steps, at: int, scope: str) -> None:
    stage = state.stages[at]
    tensors = [stage.origin_op.output(number) for number in range(stage.origin_op.num_outputs)]
    cached = state.s.cache_write(tensors, scope)
    state.learn(stage)
    _insert(state, at, cached)


def _rfactor(state: Steps, at: int, loop: int, place: int) -> None:
    stage = state.stages[at]
    output: Tensor = stage.origin_op.output(0)
    partial = state.s.rfactor(output, state.axes[stage][loop], place)
    state.learn(stage)
    _insert(state, at, partial)


def _insert(state: Steps, at: int, made: Any) -> None:
    stage = state.s[made[0] if is_a(made, list) else made]
    state.stages.insert(at, stage)
    state.learn(stage)


_STEPS: dict[str, Callable[..., None]] = {
    "AN": _annotate,
    "FU": _fuse,
    "RE": _reorder,
    "SP": _split,
    "FSP": _follow_split,
    "FFSP": _follow_fused_split,
    "SA": _align,
    "CA": _replay_attach,
    "CI": _inline,
    "CR": _root,
    "CHR": _cache_read,
    "CHW": _cache_write,
    "RF": _rfactor,
    "PR": _pragma,
}
"""By TVM's name for a step, what it does with what stands behind the name in the log."""
