"""The time of kernels on a GPU, from their work.

Blocks share the multiprocessors in waves; a multiprocessor holds as many at once as their threads, registers and shared memory let it
(occupancy). A kernel takes as long as the unit that its blocks keep busiest, or as its bytes from memory or from the L2 cache, and as
long as its blocks wait; and the launch. (The roofline model of Williams, Waterman and Patterson, 2009, with the waits of
Hong and Kim's analytical model, 2009.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from ...codegen.gpus import Gpu, Occupancy
from ...ir.analysis.warps import WARP, WORD
from ..loop_nest import Nest
from .estimate import Estimate, Parts
from .kernels import KernelWork, Phase, count_kernel

__all__ = [
    "CLUSTER_LATENCY",
    "DEPENDENT",
    "DRAIN",
    "ENGINE_LATENCY",
    "FENCE",
    "FEWEST_REGISTERS",
    "KEPT",
    "OF_COPIES",
    "OTHER_REGISTERS",
    "count_resident",
    "estimate_kernels",
    "estimate_works",
    "least_kernel_seconds",
]

OTHER_REGISTERS = 24
"""Registers of a thread beside its arrays: addresses, counters, what is on its way."""
FEWEST_REGISTERS = 20
"""The same at least, so that no kernel is said to fall short that does not."""
OF_COPIES = 8
"""And for each array that comes asynchronously: the places that it comes from and goes to."""
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
DRAIN, FENCE = 60, 30
"""Cycles until the last of the products of four warps that began together is done; and until these see what threads have copied."""
ENGINE_LATENCY, CLUSTER_LATENCY = 200, 200
"""Cycles beyond those of a load until a barrier tells of what the copy engine fetches; and until a block knows that another one of
its cluster is done with a part."""
KEPT = 0.5
"""The part of the L2 cache that the panels of a product can have."""
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


def count_resident(gpu: Gpu, threads: int, registers: float, shared: int) -> int:
    """The number of blocks that a multiprocessor holds, at least 1. registers: of a thread's arrays; shared: bytes of a block."""
    return max(Occupancy.of(gpu, threads, ceil(registers) + OTHER_REGISTERS, shared).blocks, 1)


def estimate_kernels(nests: Sequence[Nest], gpu: Gpu) -> Estimate:
    """The time of kernels that run one after the other."""
    return estimate_works([count_kernel(nest) for nest in nests], gpu)


def estimate_works(works: Sequence[KernelWork], gpu: Gpu) -> Estimate:
    """The time of kernels whose work is counted."""
    total: dict[str, float] = {}
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


def least_kernel_seconds(kernels: int, slots: float, gpu: Gpu) -> float:
    """The seconds that kernels take at least whose threads together begin so many instructions."""
    return kernels * LAUNCH + slots / WARP / ISSUED / gpu.processors / (gpu.clock * 1e9)


def _kernel_parts(work: KernelWork, unique: float, gpu: Gpu) -> Parts:
    """Blocks share the multiprocessors in waves. One takes what its phases do, one after the other, each as long as the unit that is
    busiest; and waits for memory and for its threads as long as no other block fills that time. All together take no less than
    their bytes from memory and from the L2 cache."""
    waves = ceil(work.blocks / gpu.processors)
    resident = min(count_resident(gpu, work.threads, work.registers, work.shared), waves)
    units, waits, dependent = dict[str, float](), 0.0, 0.0
    pipelined = [phase for phase in work.phases if phase.stages > 1]  # a pipeline's copies run beside the first phase
    for at, phase in enumerate(work.phases):
        dependent += DEPENDENT * phase.of_thread
        if phase.stages == 1:
            cycles, name = max(_unit_cycles([phase] if at else [phase, *pipelined], gpu))
            units[name] = units.get(name, 0.0) + cycles
    busy = sum(units.values())
    for phase in work.phases:
        waits += _waiting_cycles(phase, gpu, busy)
    # dependent instructions of one thread cannot overlap
    waits += max(dependent - busy, 0.0)
    # other blocks of the multiprocessor fill the waits
    idle = max(waits - (resident - 1) * busy, 0.0) / resident
    loaded = work.loaded
    if resident * work.at_once > gpu.shared - resident * work.shared:  # lines are gone before they are read again
        loaded = max(work.moved, loaded)
    bounds = [
        (max(units, key=lambda name: units[name], default=""), waves * (busy + idle)),
        ("memory bandwidth", unique / gpu.memory_rate),
        ("L2 bandwidth", work.blocks * loaded / gpu.l2_rate),
    ]
    if idle > busy:  # a kernel that waits is bound by nothing else
        bounds[0] = ("waiting for memory", bounds[0][1])
    bounds.sort(key=lambda bound: -bound[1])
    step = 1 / (gpu.clock * 1e9)
    hidden = UNHIDDEN * sum(cycles for _, cycles in bounds[1:])
    return (bounds[0][0], bounds[0][1] * step), ("what is not hidden", hidden * step), ("launch", LAUNCH)


def _unit_cycles(phases: Sequence[Phase], gpu: Gpu) -> Sequence[tuple[float, str]]:
    """Cycles of a multiprocessor's units in phases at the same time."""
    tensor = arithmetic = accessed = special = issued = 0.0
    for phase in phases:
        tensor += phase.mma / gpu.tensor + phase.wgmma / (gpu.warpgroup or 1)
        arithmetic += phase.arithmetic
        accessed += phase.accessed
        special += phase.special
        issued += phase.issued
    return (
        (arithmetic / gpu.fma, "fma throughput"),
        (tensor, "tensor throughput"),
        (accessed * WARP * WORD / gpu.shared_rate, "shared memory"),
        (special / SPECIAL, "special functions"),
        (issued / ISSUED, "instructions"),
    )


def _waiting_cycles(phase: Phase, gpu: Gpu, busy: float) -> float:
    """Cycles for which the threads of a block wait for memory and for each other. A pipeline waits until its first part is there, and
    then as long as what is on its way is less than what arrives meanwhile."""
    joins = JOIN * (phase.joins + 2 * phase.crossed) + phase.alone
    latency = gpu.latency + phase.late
    rounds = max(phase.loads / AHEAD, phase.runs) if phase.loads else 0.0
    # a barrier before and after, unless there is one run
    barriers = BARRIER * phase.runs * phase.is_synchronized * (1 if phase.stages > 1 or phase.runs == 1 else 2)
    if phase.stages > 1:
        ahead = phase.stages - 1  # stages ahead hide their share of the latency
        return phase.begins * latency + max(rounds * latency - ahead * busy, 0.0) / ahead + barriers + joins
    return rounds * latency + barriers + joins
