"""The time of a kernel on a GPU, in closed form.

Blocks share the multiprocessors in waves; a multiprocessor holds as many at once as their threads, registers and shared memory let it
(occupancy). A kernel takes as long as the unit that its blocks keep busiest, or as its bytes from memory or from the L2 cache, and as
long as its blocks wait; and the launch. (The roofline model of Williams, Waterman and Patterson, 2009, with the waits of
Hong and Kim's analytical model, 2009.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from ...codegen.gpus import Gpu, Occupancy
from ..loop_nest import Nest
from .estimate import Estimate, Parts
from .kernels import WARP, KernelWork, Phase, count_kernel

__all__ = ["LAUNCH", "Waves", "busiest", "estimate_kernels", "kernel_time", "max_resident"]

OTHER_REGISTERS = 24
"""Registers of a thread beside its arrays: addresses, counters, what is on its way."""
AHEAD = 8
"""Loads from memory that a thread begins before the first has ended."""
JOIN = 30
"""Cycles of a step in which threads of a warp exchange what they have; with the barriers of several warps twice as much."""
BARRIER = 40
"""Cycles until all threads of a block have met."""
SPECIAL = 16
"""Threads of which the unit for special functions of a multiprocessor takes a cycle (CUDA C++ Programming Guide, table 5)."""
ISSUED = 4
"""Instructions of warps that a multiprocessor begins in a cycle."""
CACHED = 0.25
"""The part of the L2 cache in which what one kernel has stored is found by the next."""
DEPENDENT = 2
"""Cycles until a thread's next instruction begins: 4 where it waits for the one before (Jia et al., Dissecting the NVIDIA Volta GPU
Architecture via Microbenchmarking, 2018), as about half of them do."""
UNHIDDEN = 0.1
"""Of what binds less, the part that the longest does not hide."""

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


def estimate_kernels(nests: Sequence[Nest], gpu: Gpu) -> Estimate:
    """The time of kernels that run one after the other."""
    total: dict[str, float] = {}
    works = [count_kernel(nest) for nest in nests]
    between = {array for work in works for array, stored in work.unique if not stored}
    between &= {  # an intermediate that fits stays in the second cache
        array for work in works for (array, stored), size in work.unique.items() if stored and size < CACHED * gpu.l2
    }
    for work in works:
        # bytes of such arrays cost no memory bandwidth
        unique = sum(size for (array, _), size in work.unique.items() if array not in between)
        for name, seconds in _kernel_parts(work, unique, gpu):
            total[name] = total.get(name, 0.0) + seconds
    return Estimate(tuple(total.items()))


def _kernel_parts(work: KernelWork, unique: float, gpu: Gpu) -> Parts:
    """Blocks share the multiprocessors in waves. One takes what its phases do, one after the other, each as long as the unit that is
    busiest; and waits for memory and for its threads as long as no other block fills that time. All together take no less than
    their bytes from memory and from the L2 cache."""
    registers = ceil(work.registers) + OTHER_REGISTERS
    waves = Waves.of(gpu, work.blocks, work.threads, registers, work.shared)
    units: dict[str, float] = {}
    pipelined = [phase for phase in work.phases if phase.stages > 1]  # a pipeline's copies run beside the phases
    for phase in (each for each in work.phases if each.stages == 1):
        name, cycles = busiest(*_unit_cycles(phase, gpu, pipelined if phase is work.phases[0] else ()))
        units[name] = units.get(name, 0.0) + cycles
    busy = sum(units.values())
    waits = sum(_waiting_cycles(phase, gpu, busy) for phase in work.phases)
    # dependent instructions of one thread cannot overlap
    waits += max(DEPENDENT * sum(phase.of_thread for phase in work.phases) - busy, 0.0)
    # other blocks of the multiprocessor fill the waits
    idle = max(waits - (waves.resident - 1) * busy, 0.0) / waves.resident
    loaded = work.loaded
    if (
        waves.resident * work.at_once > gpu.shared - waves.resident * work.shared
    ):  # lines are gone before they are read again
        loaded = max(work.moved, loaded)
    bounds = [
        (max(units, key=lambda name: units[name], default=""), waves.count * (busy + idle)),
        ("memory bandwidth", unique / gpu.memory_rate),
        ("L2 bandwidth", work.blocks * loaded / gpu.l2_rate),
    ]
    if idle > busy:  # a kernel that waits is bound by nothing else
        bounds[0] = ("waiting for memory", bounds[0][1])
    bounds.sort(key=lambda bound: -bound[1])
    step = 1 / (gpu.clock * 1e9)
    hidden = UNHIDDEN * sum(cycles for _, cycles in bounds[1:])
    return (bounds[0][0], bounds[0][1] * step), ("what is not hidden", hidden * step), ("launch", LAUNCH)


def _unit_cycles(phase: Phase, gpu: Gpu, others: Sequence[Phase]) -> Sequence[Part]:
    """Cycles of a multiprocessor's units in a phase, with those of others at the same time."""
    phases = (phase, *others)
    return (
        ("fma throughput", sum(each.arithmetic for each in phases) / gpu.fma),
        ("shared memory", sum(each.accessed for each in phases) * WARP * 4 / gpu.shared_rate),
        ("special functions", sum(each.special for each in phases) / SPECIAL),
        ("instructions", sum(each.issued for each in phases) / ISSUED),
    )


def _waiting_cycles(phase: Phase, gpu: Gpu, busy: float) -> float:
    """Cycles for which the threads of a block wait for memory and for each other."""
    joins = JOIN * (phase.joins + 2 * phase.crossed)
    rounds = max(phase.loads / AHEAD, phase.runs) if phase.loads else 0.0
    # a barrier before and after, unless there is one run
    barriers = BARRIER * phase.runs * phase.is_synchronized * (1 if phase.stages > 1 or phase.runs == 1 else 2)
    if phase.stages > 1:
        ahead = phase.stages - 1  # stages ahead hide their share of the latency
        return max(rounds * gpu.latency - ahead * busy, 0.0) / ahead + barriers + joins
    return rounds * gpu.latency + barriers + joins
