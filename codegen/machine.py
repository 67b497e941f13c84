"""Machines, as far as schedules depend on them: which row a target has, and its register tiles.

A row (machines/) says what a class of processors has in common, in cycles of one core and whole vectors; what is sustained from a
level of the caches and from memory is about two thirds of what the manuals name as the peak. A row for the cores of one design is
taken where the name of the processor says so, or else that of the features. Sizes of caches and the number of cores are those that
the target says (-l1=32K -l2=1M -l3=0 -cores=4), else those of the machine that the code is made on, where that is it; and what
`tilewright doctor --calibrate` measured takes the place of what a row only supposes (calibration.py).
"""

from __future__ import annotations

from functools import cache

from ..base import dataclass, replace
from ..runtime.hosts import host
from ..runtime.threads import available_cpus
from .calibration import Calibration, read_calibration
from .llvm.features import target_has
from .machines import arm, riscv, x86
from .machines.model import KIB, Instruction, Instructions, Level, Machine
from .target import Target

__all__ = [
    "MACHINES",
    "Instruction",
    "Instructions",
    "Level",
    "Machine",
    "RegisterTile",
    "WAYS",
    "find_machine",
    "register_tiles",
]

MACHINES = (
    *x86.ROWS,
    *arm.ROWS,
    *riscv.ROWS,
    Machine(
        "generic",
        "",
        16,
        16,
        x86.SSE2,
        32 * KIB,
        256 * KIB,
        l2_rate=16,
        window=128,
        minimum=x86.MINIMUM,
        maximum=x86.MAXIMUM,
    ),
)
"""The first row that fits a target is its machine. SVE's vectors have 128 bits, which every SVE core runs, where no length
is known (Target.sve_bits)."""


def find_machine(target: Target) -> Machine:
    """The row for a target, with what was measured of this machine where it is for that; for targets that are no CPU the
    generic one.

    Raises BadCalibration (TW0407) for a file that is damaged."""
    return _calibrate(_row(target), read_calibration(target))


@cache
def _calibrate(row: Machine, measured: Calibration | None) -> Machine:
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
    if row.architecture == "aarch64":
        row = replace(row, name="sve" if target_has(target, "sve") else "neon")
    row = replace(row, vector_bytes=max(row.vector_bytes, target.sve_bits // 8, target.rvv_bits // 8))
    if not (target.cpu or target.triple):
        row = replace(row, l1=host().core_cache(1) or row.l1, l2=host().core_cache(2) or row.l2, cores=available_cpus())
    told = {f"l{level}": target.cache_bytes(level) for level in (1, 2, 3)} | {"cores": target.cores or None}
    return replace(row, **{name: value for name, value in told.items() if value is not None})


def _fits(row: Machine, target: Target) -> bool:
    """Return whether a target has what a row needs. What a processor has that is named without features is seen in what LLVM
    makes of it: the width of its vectors."""
    if row.architecture not in ("", target.architecture):
        return False
    if row.cpus and not {target.cpu, target.llvm_cpu} & set(row.cpus):
        return False
    wide = target.vector_bits if row.architecture == "x86_64" else max(target.sve_bits, target.rvv_bits, 128)
    return wide >= row.vector_bytes * 8 and all(target_has(target, feature) for feature in row.features)


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
