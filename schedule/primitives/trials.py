"""Trials of primitives for `s.options`: one choice of numbers stands for all, on each loop that it could be meant for.

Axes and operations are the same objects in a copy of a schedule; stages are found by their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from ...ir.expr import IterVar
from ...te.operation import Operation
from ..model.primitive import Try
from ..model.stage import Stage

__all__ = ["each_dimension", "each_loop", "neighbours", "once", "find_readers"]


def once(call: Callable[[Stage], object]) -> Callable[[Stage], Iterable[Try]]:
    """The call, without arguments, on a stage that computes."""

    def tries(stage: Stage) -> Iterator[Try]:
        if not stage.op.is_given:
            yield "", call

    return tries


def each_loop(call: Callable[[Stage, IterVar], object]) -> Callable[[Stage], Iterable[Try]]:
    """The call on each of the stage's loops."""

    def tries(stage: Stage) -> Iterator[Try]:
        for axis in stage.leaf_iter_vars:
            yield axis.name, lambda one, axis=axis: call(one, axis)

    return tries


def neighbours(call: Callable[[Stage, IterVar, IterVar], object]) -> Callable[[Stage], Iterable[Try]]:
    """The call on each two loops of which the second stands directly inside the first."""

    def tries(stage: Stage) -> Iterator[Try]:
        for outer, inner in pairwise(stage.leaf_iter_vars):
            yield f"{outer.name}, {inner.name}", lambda one, outer=outer, inner=inner: call(one, outer, inner)

    return tries


def each_dimension(call: Callable[[Stage, IterVar], object]) -> Callable[[Stage], Iterable[Try]]:
    """The call on each data axis of the operation."""

    def tries(stage: Stage) -> Iterator[Try]:
        for axis in stage.op.axis:
            yield axis.name, lambda one, axis=axis: call(one, axis)

    return tries


def find_readers(stage: Stage) -> list[Operation]:
    """The operations that read a result of the stage."""
    return [other.op for other in stage.schedule.sort_stages(stage.readers)]
