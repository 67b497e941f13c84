"""Machines, as far as schedules depend on them.

A row says what a class of processors has in common, in cycles of one core and whole vectors. The facts are those of the makers'
optimization manuals (Intel 64 and IA-32 Architectures Optimization Reference Manual; AMD's Software Optimization Guides for
families 17h, 19h and 1Ah; Arm's Neoverse Software Optimization Guides), of Fog's Instruction Tables and of uops.info (Abel and
Reineke 2019), rounded; what is sustained from a level of the caches and from memory is about two thirds of what the
manuals name as the peak. A row for the cores of one design is taken where LLVM's name of the processor says so, or else that of
the features. On the machine that the code is made on, sizes of caches are the machine's own, and what `tilewright doctor
--calibrate` measured takes the place of what a row only supposes (calibration.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from math import inf

from ..ir.cached import cached_property
from ..runtime.threads import available_cpus
from .calibration import Calibration, calibration_of
from .llvm.features import target_has
from .target import Target

__all__ = [
    "MACHINES",
    "Instruction",
    "Instructions",
    "Level",
    "Machine",
    "RegisterTile",
    "WAYS",
    "machine_of",
    "register_tiles",
]


@dataclass(frozen=True)
class Instruction:
    """latency: cycles until the result can be used. rate: how many whole vectors a cycle. ports: the units that can do it, a letter
    each, which it has to itself meanwhile; empty for what keeps all of them from the others."""

    latency: float
    rate: float
    ports: str = "01"


@dataclass(frozen=True)
class Instructions:
    """Throughput of instructions on vectors of 32-bit floats. call: a function of mathematics such as exp, as our own code computes it.
    select: a choice, or the processor's own minimum; compare: what it is made by; logic: of bits; shuffle: lanes exchanged, or a
    conversion. gather: as many elements as a vector has from as many places. masked: a load or a store of a part of a vector;
    picked, put: of an element alone."""

    fma: Instruction
    add: Instruction
    mul: Instruction
    div: Instruction
    sqrt: Instruction
    call: Instruction
    select: Instruction
    compare: Instruction
    logic: Instruction
    shuffle: Instruction
    gather: Instruction
    load: Instruction
    store: Instruction
    masked: Instruction
    picked: Instruction
    put: Instruction

    @cached_property
    def groups(self) -> tuple[tuple[tuple[str, float], ...], ...]:
        """Groups of classes that share units: for each set of units, those that have no others, each with the cycles for which one
        keeps the set busy. What is begun takes as long as the busiest set."""
        units = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _MOVING}
        sets = {frozenset(unit.ports) for unit in units.values() if unit.ports}
        for one in tuple(sets):
            sets |= {one | other for other in sets if one & other}
        return tuple(
            tuple(
                (name, len(set(unit.ports) or group) / len(group) / unit.rate)
                for name, unit in units.items()
                if group.issuperset(unit.ports)
            )
            for group in sorted(sets, key=sorted)
        )


_MOVING = ("load", "store", "picked", "put", "shuffle")
"""Classes whose units do nothing else."""


@dataclass(frozen=True)
class Level:
    """A cache, or memory. size: bytes. rate: bytes a cycle that one core takes from it; shared: that all cores take together."""

    name: str
    size: float
    rate: float
    shared: float = inf


@dataclass(frozen=True)
class Machine:
    """vector_bytes, registers: of the vector registers. instructions: see there. l1, l2, l3, line: bytes of the data caches of one
    core, of that which cores share (0: there is none), and of a line. l2_rate, l3_rate, memory_rate: bytes a cycle that one core
    takes from there; memory_shared: that all cores take from memory. write: bytes that cross for one that is written: its line
    comes first, and goes back. pages, page_miss: whose places the core knows, and cycles until it knows that of another. clock:
    10^9 cycles a second. width: instructions begun in a cycle; window: that are looked ahead over. fork: cycles until all threads
    have begun and ended. features: what LLVM calls those that a target needs for this row; cpus: its names for the processors;
    cores: how many threads work is shared among, those of this machine for code that is made for it. padded: whether all arrays
    reach as far as whole vectors do."""

    name: str
    architecture: str
    vector_bytes: int
    registers: int
    instructions: Instructions
    l1: int
    l2: int
    l3: int = 8 << 20
    line: int = 64
    l2_rate: float = 32
    l3_rate: float = 12
    memory_rate: float = 4
    memory_shared: float = 12
    write: float = 2
    pages: int = 64
    page_miss: float = 7
    clock: float = 3.0
    width: float = 4
    window: int = 224
    fork: float = 15000
    cores: int = 16
    padded: bool = False
    features: tuple[str, ...] = ()
    cpus: tuple[str, ...] = ()

    def lanes(self, bits: int) -> int:
        """Return the number of values of `bits` bits that a vector register holds."""
        return max(self.vector_bytes * 8 // max(bits, 8), 1)

    @property
    def masks(self) -> bool:
        """Return whether parts of vectors cost what whole ones do: they are masked, or what lies beside them may be touched too."""
        return self.padded or self.vector_bytes >= 64 or self.name == "sve"

    @property
    def fma_latency(self) -> int:
        """Cycles until a multiply-add's result can be used, or that of a multiplication and an addition."""
        return round(self.instructions.fma.latency)

    @property
    def fma_rate(self) -> int:
        """Multiply-adds of whole vectors a cycle."""
        return max(round(self.instructions.fma.rate), 1)

    @property
    def accumulators(self) -> int:
        """The number of independent sums that keep the multiply-add units busy."""
        return self.fma_latency * self.fma_rate

    @property
    def levels(self) -> tuple[Level, ...]:
        """The caches, the smallest first, and memory. What is loaded from the first costs its load."""
        shared = (Level("L3", self.l3, self.l3_rate),) if self.l3 else ()
        return (
            Level("L1", self.l1, inf),
            Level("L2", self.l2, self.l2_rate),
            *shared,
            Level("memory", inf, self.memory_rate, self.memory_shared),
        )


KIB, MIB = 1024, 1024 * 1024


def _units(
    fma: tuple[float, float],
    add: tuple[float, float],
    mul: tuple[float, float],
    div: tuple[float, float],
    sqrt: tuple[float, float],
    select: tuple[float, float],
    logic: float,
    gather: float,
    loads: float,
    stores: float,
    masked: float,
    ports: Mapping[str, str],
    **others: Instruction,
) -> Instructions:
    """A processor's: (latency, rate) each; logic, gather, loads, stores and masked ones by their rates alone. A call is some twenty
    multiply-adds and what decides between them, begun by all units that do either; what exchanges lanes has one unit. ports: of
    classes that not all of the arithmetic shares; others: comparisons that are not as choices are, and elements that move at other
    rates than vectors."""
    wide = Instruction(*fma, ports.get("fma", "01"))
    alike = len(ports.get("logic", wide.ports)) / len(wide.ports)
    units = {
        "fma": wide,
        "add": Instruction(*add),
        "mul": Instruction(*mul),
        "div": Instruction(*div),
        "sqrt": Instruction(*sqrt),
        "call": Instruction(12 * fma[0], fma[1] * alike / 22, ports.get("logic", wide.ports)),
        "select": Instruction(*select),
        "logic": Instruction(1, logic),
        "shuffle": Instruction(3, 1),
        "gather": Instruction(20, gather, ""),
        "load": Instruction(5, loads),
        "store": Instruction(1, stores),
        "masked": Instruction(5, masked, ""),
    }
    units |= {"compare": units["select"], "picked": units["load"], "put": units["store"]}
    ports = {"compare": ports.get("select", wide.ports), **ports}
    return Instructions(
        **{name: replace(unit, ports=ports.get(name, unit.ports)) for name, unit in units.items()} | others
    )


_HASWELL_PORTS = {"add": "1", "select": "1", "logic": "015"}
_SANDYBRIDGE_PORTS = {"add": "1", "mul": "0", "div": "0", "sqrt": "0", "select": "1", "logic": "05"}
_ZEN_PORTS = {"add": "23", "select": "23", "logic": "0123"}
_SKYLAKE = _units((4, 2), (4, 2), (4, 2), (11, 1 / 5), (12, 1 / 6), (4, 2), 3, 1 / 5, 2, 1, 0.5, {"logic": "015"})
_SKYLAKE_512 = _units(
    (4, 2), (4, 2), (4, 2), (18, 1 / 10), (20, 1 / 12), (4, 2), 2, 1 / 10, 2, 1, 1, {}, compare=Instruction(3, 1, "1")
)
_ICELAKE = replace(_SKYLAKE_512, put=Instruction(1, 2))
"""Two elements are stored in a cycle, of whole vectors one."""
_GOLDEN_COVE = replace(_ICELAKE, picked=Instruction(5, 3))
"""And three elements are loaded."""
_HASWELL = _units((5, 2), (3, 1), (5, 2), (18, 1 / 14), (19, 1 / 14), (3, 1), 3, 1 / 12, 2, 1, 0.5, _HASWELL_PORTS)
_SANDYBRIDGE = _units(
    (8, 1),
    (3, 1),
    (5, 1),
    (29, 1 / 28),
    (29, 1 / 28),
    (3, 1),
    1,
    1 / 24,
    1,
    0.5,
    0.5,
    _SANDYBRIDGE_PORTS,
    picked=Instruction(5, 2),
    put=Instruction(1, 1),
)
_ZEN2 = _units((5, 2), (3, 2), (3, 2), (10, 1 / 5), (14, 1 / 7), (2, 2), 4, 1 / 16, 2, 1, 0.5, _ZEN_PORTS)
_ZEN3 = _units((4, 2), (3, 2), (3, 2), (10, 1 / 5), (14, 1 / 7), (2, 2), 4, 1 / 8, 2, 1, 0.5, _ZEN_PORTS)
_ZEN4 = _units(
    (4, 1),
    (3, 1),
    (3, 1),
    (11, 1 / 10),
    (15, 1 / 14),
    (2, 1),
    2,
    1 / 20,
    1,
    0.5,
    0.5,
    _ZEN_PORTS,
    compare=Instruction(4, 1, "01"),
    picked=Instruction(5, 2),
    put=Instruction(1, 1),
)
_ZEN5 = _units(
    (4, 2),
    (2, 2),
    (3, 2),
    (11, 1 / 10),
    (15, 1 / 14),
    (2, 2),
    4,
    1 / 20,
    2,
    1,
    1,
    _ZEN_PORTS,
    compare=Instruction(4, 2, "01"),
    put=Instruction(1, 2),
)
_SSE2 = _units((8, 1), (3, 1), (5, 1), (14, 1 / 7), (14, 1 / 7), (3, 1), 1, 1 / 8, 1, 1, 0.5, {})
_NEON = _units((4, 2), (2, 2), (3, 2), (10, 1 / 5), (10, 1 / 5), (2, 2), 2, 1 / 4, 2, 2, 0.5, {})

MACHINES = (
    Machine(
        "avx512",
        "x86_64",
        64,
        32,
        _ZEN5,
        48 * KIB,
        1 * MIB,
        32 * MIB,
        l2_rate=64,
        l3_rate=48,
        memory_rate=8,
        memory_shared=24,
        clock=4.0,
        width=6,
        window=448,
        features=("avx512f",),
        cpus=("znver5",),
    ),
    Machine(
        "avx512",
        "x86_64",
        64,
        32,
        _ZEN4,
        32 * KIB,
        1 * MIB,
        32 * MIB,
        l2_rate=48,
        l3_rate=48,
        memory_rate=7,
        memory_shared=20,
        clock=3.7,
        width=6,
        window=320,
        features=("avx512f",),
        cpus=("znver4",),
    ),
    Machine(
        "avx512",
        "x86_64",
        64,
        32,
        _GOLDEN_COVE,
        48 * KIB,
        2 * MIB,
        32 * MIB,
        l2_rate=40,
        l3_rate=8,
        memory_shared=24,
        width=6,
        window=512,
        features=("avx512f",),
        cpus=("sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d"),
    ),
    Machine(
        "avx512",
        "x86_64",
        64,
        32,
        _ICELAKE,
        48 * KIB,
        1280 * KIB,
        24 * MIB,
        l2_rate=40,
        l3_rate=8,
        memory_shared=24,
        width=5,
        window=352,
        features=("avx512f",),
        cpus=("icelake-server", "icelake-client", "tigerlake", "rocketlake"),
    ),
    Machine(
        "avx512",
        "x86_64",
        64,
        32,
        _SKYLAKE_512,
        32 * KIB,
        1024 * KIB,
        16 * MIB,
        l2_rate=40,
        l3_rate=8,
        memory_shared=24,
        features=("avx512f",),
    ),
    Machine(
        "avx2",
        "x86_64",
        32,
        16,
        _ZEN3,
        32 * KIB,
        512 * KIB,
        32 * MIB,
        l2_rate=48,
        l3_rate=48,
        memory_rate=6,
        memory_shared=16,
        clock=3.4,
        width=6,
        window=256,
        features=("avx2", "fma"),
        cpus=("znver3",),
    ),
    Machine(
        "avx2",
        "x86_64",
        32,
        16,
        _ZEN2,
        32 * KIB,
        512 * KIB,
        16 * MIB,
        l2_rate=48,
        l3_rate=32,
        memory_rate=6,
        memory_shared=16,
        clock=3.3,
        width=5,
        features=("avx2", "fma"),
        cpus=("znver2",),
    ),
    Machine(
        "avx2",
        "x86_64",
        32,
        16,
        _SKYLAKE,
        32 * KIB,
        256 * KIB,
        l3_rate=16,
        memory_rate=5,
        clock=3.8,
        features=("avx2", "fma"),
        cpus=("skylake",),
    ),
    Machine(
        "avx2",
        "x86_64",
        32,
        16,
        _HASWELL,
        32 * KIB,
        256 * KIB,
        l3_rate=14,
        memory_rate=5,
        window=192,
        features=("avx2", "fma"),
        cpus=("haswell", "broadwell"),
    ),
    Machine("avx2", "x86_64", 32, 16, _SKYLAKE, 32 * KIB, 256 * KIB, features=("avx2", "fma")),
    Machine("avx", "x86_64", 32, 16, _SANDYBRIDGE, 32 * KIB, 256 * KIB, l2_rate=20, window=168, features=("avx",)),
    Machine("sse2", "x86_64", 16, 16, _SSE2, 32 * KIB, 256 * KIB, l2_rate=16, window=128),
    Machine(
        "sve",
        "aarch64",
        16,
        32,
        _NEON,
        64 * KIB,
        1024 * KIB,
        32 * MIB,
        memory_rate=8,
        memory_shared=40,
        width=5,
        features=("sve",),
    ),
    Machine("neon", "aarch64", 16, 32, _NEON, 32 * KIB, 512 * KIB, window=128),
    Machine("generic", "", 16, 16, _SSE2, 32 * KIB, 256 * KIB, l2_rate=16, window=128),
)
"""The first row that fits a target is its machine. SVE's vectors have 128 bits, which every SVE core runs, where no length
is known (Target.sve_bits)."""


def machine_of(target: Target) -> Machine:
    """The row for a target, with what was measured of this machine where it is for that; for targets that are no CPU the
    generic one.

    Raises BadCalibration (TW0407) for a file that is damaged."""
    return _calibrated(_row(target), calibration_of(target))


@cache
def _calibrated(row: Machine, measured: Calibration | None) -> Machine:
    """A row with values that were measured in place of its own. Latencies are whole cycles."""
    fields: dict[str, float] = {}
    instructions = row.instructions
    for name, value in () if measured is None else measured.values:
        unit, _, part = name.partition(".")
        if part:
            of_unit: Instruction = getattr(instructions, unit)
            of_unit = replace(of_unit, rate=value) if part == "rate" else replace(of_unit, latency=round(value))
            instructions = replace(instructions, **{unit: of_unit})
        else:
            fields[name] = value
    return replace(row, instructions=instructions, **fields)  # pyright: ignore[reportArgumentType]


@cache
def _row(target: Target) -> Machine:
    if not target.backend.for_processors:
        return MACHINES[-1]
    row = next(row for row in MACHINES if _fits(row, target))
    row = replace(row, vector_bytes=max(row.vector_bytes, target.sve_bits // 8))
    here = not (target.cpu or target.triple)
    if not here:
        return row
    return replace(row, l1=_cache(1, row.l1), l2=_cache(2, row.l2), l3=_cache(3, row.l3), cores=available_cpus())


def _fits(row: Machine, target: Target) -> bool:
    """Return whether a target has what a row needs. What a processor has that is named without features is seen in what LLVM
    makes of it: the width of its vectors."""
    if row.architecture not in ("", target.architecture) or row.cpus and target.llvm_cpu not in row.cpus:
        return False
    if row.architecture == "x86_64":
        return target.vector_bits >= row.vector_bytes * 8 and all(
            target_has(target, feature) for feature in row.features
        )
    return all(target_has(target, feature) for feature in row.features)


def _cache(level: int, otherwise: int) -> int:
    """The bytes of this machine's data cache, or of what is usual where the system does not say."""
    name = f"SC_LEVEL{level}_{'DCACHE' if level == 1 else 'CACHE'}_SIZE"
    size = os.sysconf(name) if name in os.sysconf_names else 0
    return size if size > 0 else otherwise


# Register tiles

WAYS = 8
"""Lines that the first cache holds of those that lie a multiple of its eighth apart, as rows of a matrix may: as many rows of a
tile can be read side by side."""
MAX_VECTORS = 4


@dataclass(frozen=True)
class RegisterTile:
    """`rows` times `vectors` accumulators, one register each; columns: elements in a row."""

    rows: int
    vectors: int
    columns: int


@cache
def register_tiles(machine: Machine, bits: int) -> tuple[RegisterTile, ...]:
    """The tiles of a product of matrices of elements of `bits` bits that fit the registers, best first: the one with most
    multiply-adds for each load. A step along the sum takes a register for each vector of the row and one for the element
    that is multiplied with it."""
    lanes = machine.lanes(bits)
    tiles: list[RegisterTile] = []
    for vectors in range(1, MAX_VECTORS + 1):
        rows = min((machine.registers - vectors - 1) // vectors, WAYS)
        if rows * vectors >= min(machine.accumulators, WAYS):
            tiles.append(RegisterTile(rows, vectors, vectors * lanes))
    return tuple(
        sorted(tiles, key=lambda tile: (-tile.rows * tile.vectors / (tile.rows + tile.vectors), -tile.vectors))
    )
