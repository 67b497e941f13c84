"""Processors of AArch64: Arm's, Apple's and Fujitsu's.

| rows | from |
|---|---|
| Cortex-A53, Cortex-A55 | LLVM's AArch64SchedA53 and AArch64SchedA55; Arm Cortex-A55 Software Optimization Guide |
| Cortex-A72 | Arm Cortex-A72 Software Optimization Guide; LLVM's AArch64SchedA57 |
| Cortex-A76, Neoverse N1 | Arm Cortex-A76 and Neoverse N1 Software Optimization Guides; LLVM's AArch64SchedNeoverseN1 |
| Cortex-X2, Neoverse V1, V2 | their Software Optimization Guides; LLVM's AArch64SchedNeoverseV1 and V2 |
| Neoverse N2 | its Software Optimization Guide; LLVM's AArch64SchedNeoverseN2 |
| Apple M1 to M4 | Apple Silicon CPU Optimization Guide; Johnson's measured tables of Firestorm |
| A64FX | A64FX Microarchitecture Manual (Fujitsu); LLVM's AArch64SchedA64FX |

Caches and clocks are those of common products, and are said by options of the target where a board has others.
"""

from __future__ import annotations

from dataclasses import replace

from .model import KIB, MIB, Machine, units

__all__ = ["ROWS"]

REGISTERS = 30
"""Of NEON's 32: an element that is a factor has to be in one, and the next one is loaded ahead. Convolutions that count on all of them
store sums in their loops."""
_NEON = units((4, 2), (2, 2), (3, 2), (10, 1 / 5), (10, 1 / 5), (2, 2), 2, 1 / 4, 2, 2, 0.5, {})
_A53 = units((8, 1), (4, 1), (4, 1), (13, 1 / 20), (12, 1 / 18), (4, 1), 1, 1 / 8, 0.5, 0.5, 0.25, {})
"""Halves of vectors are loaded in a cycle, as on Cortex-A55."""
_A55 = units((4, 1), (4, 1), (4, 1), (13, 1 / 20), (12, 1 / 18), (3, 1), 1, 1 / 8, 0.5, 1, 0.25, {})
_A72 = units((7, 1), (4, 2), (4, 2), (15, 1 / 28), (15, 1 / 28), (3, 2), 2, 1 / 8, 1, 0.5, 0.25, {})
_A76 = units((4, 2), (2, 2), (3, 2), (10, 1 / 9), (10, 1 / 9), (2, 2), 2, 1 / 4, 2, 1, 0.5, {})
_N2 = replace(_A76, load=replace(_A76.load, latency=6, rate=2), store=replace(_A76.store, rate=2))
_X2 = units((4, 4), (2, 4), (3, 4), (10, 2 / 9), (10, 2 / 9), (2, 4), 4, 1 / 3, 3, 2, 1, {})
_V1 = units((4, 2), (2, 2), (3, 2), (10, 1 / 9), (10, 1 / 9), (3, 1), 2, 1 / 8, 2, 1, 1, {"select": "0"})
"""Of vectors of 256 bits, each of which takes two of the four units of 128."""
_FIRESTORM = units((4, 4), (3, 4), (4, 4), (10, 1), (13, 1 / 2), (2, 4), 4, 1 / 2, 3, 2, 1, {})
# LLVM and Fujitsu give 98 cycles for a division or a root of 512 bits, which blocks its unit
_ALONE = {"select": "0", "div": "01", "sqrt": "01"}
_A64FX = units((9, 2), (9, 2), (9, 2), (98, 1 / 98), (98, 1 / 98), (4, 1), 1, 1 / 16, 2, 1, 1, _ALONE)


def _apple(cpu: str, l2: int, clock: float, rate: float, shared: float, cores: int, width: float = 8) -> Machine:
    """One of the fast cores, with its part of the second cache, which those of a cluster share."""
    return Machine(
        "neon",
        "aarch64",
        16,
        REGISTERS,
        _FIRESTORM,
        128 * KIB,
        l2,
        0,
        line=128,
        l2_rate=32,
        memory_rate=rate,
        memory_shared=shared,
        pages=160,
        clock=clock,
        width=width,
        window=630,
        cores=cores,
        dots=4,
        matrices=4,
        cpus=(cpu, *_SAME[cpu]),
    )


_SAME = {
    "apple-m1": ("apple-a14",),
    "apple-m2": ("apple-a15",),
    "apple-m3": ("apple-a16", "apple-a17"),
    "apple-m4": ("apple-a18", "apple-m5"),
}
"""Processors of telephones with the cores of a row."""

_A53_ROW = Machine(
    "neon",
    "aarch64",
    16,
    REGISTERS,
    _A53,
    32 * KIB,
    512 * KIB,
    0,
    l2_rate=8,
    memory_rate=1.5,
    memory_shared=2.5,
    pages=10,
    clock=1.4,
    width=2,
    # in order: hardly anything is looked ahead over
    window=8,
    cores=4,
    cpus=("cortex-a53", "cortex-a34", "cortex-a35"),
)
_N1_ROW = Machine(
    "neon",
    "aarch64",
    16,
    REGISTERS,
    _A76,
    64 * KIB,
    1 * MIB,
    2 * MIB,
    l2_rate=24,
    memory_rate=6,
    memory_shared=40,
    pages=48,
    clock=2.6,
    width=4,
    window=128,
    cores=16,
    matrices=0,
    cpus=("neoverse-n1", "ampere1", "ampere1a"),
)
_V2_ROW = Machine(
    "sve",
    "aarch64",
    16,
    REGISTERS,
    _X2,
    64 * KIB,
    2 * MIB,
    16 * MIB,
    l2_rate=48,
    l3_rate=16,
    memory_rate=12,
    memory_shared=100,
    pages=48,
    clock=3.2,
    width=8,
    window=320,
    cores=32,
    dots=4,
    matrices=4,
    cpus=("neoverse-v2", "neoverse-v3", "grace", "gb10"),
)

ROWS = (
    Machine(
        "sve",
        "aarch64",
        64,
        32,
        _A64FX,
        64 * KIB,
        640 * KIB,
        0,
        # four times what others have, so reads at random places cost more
        line=256,
        l2_rate=42,
        memory_rate=20,
        memory_shared=400,
        pages=16,
        clock=2.0,
        width=4,
        window=128,
        cores=48,
        features=("sve",),
        cpus=("a64fx",),
    ),
    Machine(
        "sve",
        "aarch64",
        32,
        32,
        _V1,
        64 * KIB,
        1 * MIB,
        16 * MIB,
        l2_rate=48,
        memory_rate=8,
        memory_shared=80,
        pages=48,
        clock=2.6,
        width=8,
        window=256,
        cores=16,
        dots=4,
        matrices=4,
        features=("sve",),
        cpus=("neoverse-v1",),
    ),
    # V1 for targets without SVE, whose vectors have half the bits
    replace(_V2_ROW, l2=1 * MIB, clock=2.6, width=8, window=256, cores=16, memory_shared=80, cpus=("neoverse-v1",)),
    _V2_ROW,
    replace(
        _V2_ROW,
        l2=512 * KIB,
        l3=6 * MIB,
        memory_shared=14,
        clock=2.9,
        window=288,
        cores=4,
        cpus=("cortex-x2", "cortex-x3", "cortex-x4", "cortex-x925", "cortex-x1", "cortex-x1c"),
    ),
    Machine(
        "sve",
        "aarch64",
        16,
        REGISTERS,
        _N2,
        64 * KIB,
        1 * MIB,
        16 * MIB,
        l2_rate=32,
        memory_rate=8,
        memory_shared=60,
        pages=44,
        clock=2.8,
        width=5,
        window=160,
        cores=16,
        cpus=("neoverse-n2", "neoverse-n3", "cobalt-100", "cortex-a710", "cortex-a715", "cortex-a720"),
    ),
    _N1_ROW,
    replace(
        _N1_ROW,
        l2=512 * KIB,
        memory_rate=5,
        memory_shared=8,
        clock=2.4,
        cores=4,
        cpus=("cortex-a76", "cortex-a75", "cortex-a77", "cortex-a78", "cortex-a78c"),
    ),
    Machine(
        "neon",
        "aarch64",
        16,
        REGISTERS,
        _A72,
        32 * KIB,
        1 * MIB,
        0,
        l2_rate=12,
        memory_rate=2.5,
        memory_shared=3.5,
        pages=32,
        clock=1.5,
        width=3,
        window=128,
        cores=4,
        cpus=("cortex-a72", "cortex-a57", "cortex-a73"),
    ),
    _A53_ROW,
    replace(
        _A53_ROW,
        instructions=_A55,
        l2=128 * KIB,
        l3=1 * MIB,
        l3_rate=6,
        memory_shared=4,
        pages=16,
        clock=1.8,
        dots=1,
        matrices=0,
        cpus=("cortex-a55", "cortex-a510", "cortex-a520"),
    ),
    _apple("apple-m1", 3 * MIB, 3.2, 18, 20, 8),
    _apple("apple-m2", 4 * MIB, 3.5, 22, 27, 8),
    _apple("apple-m3", 4 * MIB, 4.05, 22, 24, 8, 9),
    _apple("apple-m4", 4 * MIB, 4.4, 24, 26, 10, 10),
    Machine(
        "sve",
        "aarch64",
        16,
        REGISTERS,
        _NEON,
        64 * KIB,
        1024 * KIB,
        32 * MIB,
        memory_rate=8,
        memory_shared=40,
        width=5,
        features=("sve",),
    ),
    Machine("neon", "aarch64", 16, REGISTERS, _NEON, 32 * KIB, 512 * KIB, window=128),
)
"""Designs first, then what any processor has. Where a target has no SVE, NEON's vectors take its place (machine.py)."""
