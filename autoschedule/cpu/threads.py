"""Threads of a processor: when they are worth waking, and how work is cut for them."""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.machine import Machine
from ...ir.expr import IterVar
from .lanes import length

__all__ = ["PARTS", "TASKS", "WORTH_THREADS", "are_enough_tasks", "worth_threads"]

WORTH_THREADS = 1 << 17
"""Operators on elements below which one thread is done before others are awake: of vectors of 8 some 16,000 cycles, as many as a
fork-join takes (`Machine.fork`)."""
TASKS = 4
"""Tasks for each thread, so that one that is held up leaves some to others."""
PARTS = 32
"""Parts of a reduction that has too few results for threads to share: several for each of a few threads, one for each of many."""


def worth_threads(axes: Sequence[IterVar], operators: float = 1) -> bool:
    """Return whether loops over these axes are long enough to wake threads for; where that is not known, they are."""
    size = length(axes)
    return size is None or size * operators >= WORTH_THREADS


def are_enough_tasks(tasks: int | None, machine: Machine) -> bool:
    """Return whether threads share so many tasks evenly; where their number is not known, they do."""
    return tasks is None or tasks >= TASKS * machine.cores
