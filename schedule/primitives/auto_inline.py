"""AutoInlineElemWise, AutoInlineBroadcast, AutoInlineInjective: inline every stage of a kind that nobody has scheduled.

The names are TVM's. A stage is left alone where it is an output, has several outputs, was scheduled, or was placed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from ...ir import IntImm, IterVar, ProducerLoad, walk
from ...te.operation import Operation
from ..model.schedule import Schedule
from .compute_inline import why_not_inline

__all__ = [
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "is_broadcast",
    "is_elementwise",
    "is_injective",
]


def is_injective(op: Operation) -> bool:
    """Return whether it is not a reduction: each element is an expression of single elements."""
    return op.reduction is None


def is_broadcast(op: Operation) -> bool:
    """Return whether everything is read at some of the axes, in their order, or at constants: A[i], A[0, j], but not A[j, i]."""
    return is_injective(op) and all(_ascending(op, load) for load in _loads(op))


def is_elementwise(op: Operation) -> bool:
    """Return whether everything is read at exactly the axes: A[i, j]."""
    return is_broadcast(op) and all(
        sum(isinstance(index, IterVar) for index in load.indices) == len(op.axis) == len(load.indices)
        for load in _loads(op)
    )


def _loads(op: Operation) -> Iterator[ProducerLoad]:
    return (node for value in op.values for node in walk(value) if isinstance(node, ProducerLoad))


def _ascending(op: Operation, load: ProducerLoad) -> bool:
    places = {axis: at for at, axis in enumerate(op.axis)}
    order = [
        places.get(index, -1) if isinstance(index, IterVar) else -1
        for index in load.indices
        if not isinstance(index, IntImm)
    ]
    return all(place >= 0 for place in order) and all(a < b for a, b in pairwise(order))


def _auto_inline(schedule: Schedule, fits: Callable[[Operation], bool]) -> None:
    for stage in list(schedule.stages):
        op = stage.op
        if op.values and not stage.is_scheduled() and fits(op) and why_not_inline(stage) is None:
            stage.compute_inline()


def AutoInlineElemWise(schedule: Schedule) -> None:
    """Inline the stages that read everything at exactly their axes."""
    _auto_inline(schedule, is_elementwise)


def AutoInlineBroadcast(schedule: Schedule) -> None:
    """Inline the stages that read everything at some of their axes, in order, or at constants."""
    _auto_inline(schedule, is_broadcast)


def AutoInlineInjective(schedule: Schedule) -> None:
    """Inline the stages that are not reductions."""
    _auto_inline(schedule, is_injective)
