"""The time of a kernel on a GPU, in closed form.

Blocks share the multiprocessors in waves; a multiprocessor holds as many at once as their threads, registers and shared memory let it
(occupancy). A kernel takes as long as the unit that its blocks keep busiest, or as its bytes from memory or from the L2 cache, and as
long as its blocks wait; and the launch. (The roofline model of Williams, Waterman and Patterson, 2009, with the waits of
Hong and Kim's analytical model, 2009.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ...codegen.gpus import Gpu, Occupancy
from .estimate import Estimate

__all__ = ["LAUNCH", "Waves", "busiest", "kernel_time", "max_resident"]

LAUNCH = 3e-6
"""Seconds until a kernel runs."""

Part = tuple[str, float]
"""A resource, and cycles or seconds of it."""


@dataclass(frozen=True)
class Waves:
    """The blocks of a kernel on the multiprocessors: one after another `count` of them, `resident` at a time."""

    count: int
    resident: int

    @staticmethod
    def of(gpu: Gpu, blocks: float, threads: int, registers: int, shared: int) -> Waves:
        """The waves of blocks with so many threads, registers of a thread and bytes of shared memory."""
        count = ceil(blocks / gpu.processors)
        return Waves(count, min(max_resident(gpu, threads, registers, shared), count))


def max_resident(gpu: Gpu, threads: int, registers: int, shared: int) -> int:
    """The number of blocks that a multiprocessor holds, at least 1. registers: of a thread; shared: bytes of a block."""
    return max(Occupancy.of(gpu, threads, registers, shared).blocks, 1)


def busiest(*units: Part) -> Part:
    """The unit that takes the most cycles, the first of equals."""
    return max(units, key=lambda unit: unit[1])


def kernel_time(
    gpu: Gpu, work: Part, *waits: Part, unique: float = 0.0, moved: float = 0.0, launches: int = 1, later: float = 0.0
) -> Estimate:
    """The time of a kernel.

    work: the unit that is busiest and its cycles; waits: cycles beside it. unique: bytes that come from memory; moved: bytes that
    come from the L2 cache. later: seconds of a kernel that adds up parts of sums.
    """
    memory, cache = unique / gpu.memory_rate, moved / gpu.l2_rate
    if work[1] < max(memory, cache):
        work = ("memory bandwidth", memory) if memory >= cache else ("L2 bandwidth", cache)
    step = 1 / (gpu.clock * 1e9)
    parts = [(name, cycles * step) for name, cycles in (work, *waits)]
    parts += [("launch", LAUNCH * launches), *([("sum of parts", later)] if later else [])]
    return Estimate(tuple(parts))
