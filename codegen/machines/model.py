"""Rows of machines: cycles of one core and whole vectors, caches, and how many cores there are."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from ...base import dataclass, fields, replace
from ...ir.lazy_values import cached_property

__all__ = ["Instruction", "Instructions", "KIB", "Level", "MIB", "Machine", "units"]


@dataclass(frozen=True)
class Instruction:
    """Costs of a class of instructions.

    latency: cycles until the result can be used. rate: how many whole vectors a cycle. ports: the units that can do it, a letter
    each, which it has to itself meanwhile; empty for what keeps all of them from the others.
    """

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


@dataclass(frozen=True, repr=False)
class Machine:
    """Model of a processor.

    vector_bytes, registers: of the vector registers. instructions: see there. l1, l2, l3, line: bytes of the data caches of one
    core, of that which cores share (0: there is none), and of a line. l2_rate, l3_rate, memory_rate: bytes a cycle that one core
    takes from there; memory_shared: that all cores take from memory. write: bytes that cross for one that is written: its line
    comes first, and goes back. pages, page_miss: whose places the core knows, and cycles until it knows that of another. clock:
    10^9 cycles a second. width: instructions begun in a cycle; window: that are looked ahead over. fork: cycles until all threads
    have begun and ended. features: what LLVM calls those that a target needs for this row; cpus: its names for the processors;
    cores: how many threads work is shared among, those of this machine for code that is made for it. padded: whether all arrays
    reach as far as whole vectors do. dots: dot products of four bytes in each lane of 32 bits, of 128 bits, that begin in a cycle;
    matrices: products of two rows of eight bytes by two columns; both where the target has such an instruction. table:
    bytes of which an instruction picks any, for each lane; 0 where they are loaded. minimum, maximum: the classes of instructions
    for that of two floats, by which -0 is less than 0 and a NaN stays one (codegen/llvm/arithmetic.py).
    """

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
    dots: float = 2
    matrices: float = 2
    table: int = 0
    minimum: tuple[str, ...] = ("select",)
    maximum: tuple[str, ...] = ("select",)
    features: tuple[str, ...] = ()
    cpus: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Machine({self.name}, {self.architecture}, {self.cores} cores)"

    def lanes(self, bits: int) -> int:
        """Return the number of values of `bits` bits that a vector register holds."""
        return max(self.vector_bytes * 8 // max(bits, 8), 1)

    @property
    def masks(self) -> bool:
        """Return whether parts of vectors cost what whole ones do: they are masked, or what lies beside them may be touched too."""
        return self.padded or self.vector_bytes >= 64 or self.name in ("sve", "rvv")

    @property
    def groups_registers(self) -> bool:
        """Return whether several vectors side by side are one operand, of which there are the fewer."""
        return self.name == "rvv"

    @property
    def is_latency_bound(self) -> bool:
        """Return whether one vector after another leaves units idle: instructions begin in order, or too few are looked ahead over for
        as many sums as units work on."""
        return self.window < 8 * self.accumulators

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
        shared = (Level("L3", self.l3, self.l3_rate),) if self.l3 > self.l2 else ()
        return (
            Level("L1", self.l1, inf),
            Level("L2", self.l2, self.l2_rate),
            *shared,
            Level("memory", inf, self.memory_rate, self.memory_shared),
        )


KIB, MIB = 1024, 1024 * 1024


def units(
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
    multiply-adds and what decides between them, begun by all units that do either; what exchanges lanes has one unit, and so have
    divisions and roots, beside which others begin. ports: of classes that not all of the arithmetic shares; others: comparisons that
    are not as choices are, and elements that move at other rates than vectors."""
    wide = Instruction(*fma, ports.get("fma", "01"))
    alike = len(ports.get("logic", wide.ports)) / len(wide.ports)
    units = {
        "fma": wide,
        "add": Instruction(*add),
        "mul": Instruction(*mul),
        "div": Instruction(*div, "d"),
        "sqrt": Instruction(*sqrt, "d"),
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
