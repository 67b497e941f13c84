"""Machines, as far as schedules depend on them.

A row says what a class of processors has in common. Latencies and rates are those of fused multiply-adds on whole vectors
(of a multiplication followed by an addition where there is none), as the makers' optimization manuals and
instruction tables give them for the cores of that class; caches are the smallest that its common cores have. On the
machine that the code is made on, the caches are the machine's own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache

from ..runtime.threads import available_cpus
from .llvm.features import target_has
from .target import Target

__all__ = ["MACHINES", "Machine", "RegisterTile", "machine_of", "register_tiles"]


@dataclass(frozen=True)
class Machine:
    """vector_bytes, registers: of the vector registers. fma_latency: cycles until a result can be used; fma_rate: vectors
    a cycle. l1, l2, line: bytes of the data caches of one core, and of a line. features: what LLVM calls those that a
    target needs for this row; cores: how many
    threads work is shared among, those of this machine for code that is made for it."""

    name: str
    architecture: str
    vector_bytes: int
    registers: int
    fma_latency: int
    fma_rate: int
    l1: int
    l2: int
    line: int = 64
    cores: int = 16
    features: tuple[str, ...] = ()

    def lanes(self, bits: int) -> int:
        """How many values of `bits` bits a vector register holds."""
        return max(self.vector_bytes * 8 // max(bits, 8), 1)

    @property
    def accumulators(self) -> int:
        """How many independent sums keep the multiply-add units busy."""
        return self.fma_latency * self.fma_rate


KIB = 1024
MACHINES = (
    Machine("avx512", "x86_64", 64, 32, 4, 2, 32 * KIB, 1024 * KIB, features=("avx512f",)),
    Machine("avx2", "x86_64", 32, 16, 4, 2, 32 * KIB, 256 * KIB, features=("avx2", "fma")),
    Machine("avx", "x86_64", 32, 16, 8, 1, 32 * KIB, 256 * KIB, features=("avx",)),
    Machine("sse2", "x86_64", 16, 16, 8, 1, 32 * KIB, 256 * KIB),
    Machine("sve", "aarch64", 16, 32, 4, 2, 64 * KIB, 1024 * KIB, features=("sve",)),
    Machine("neon", "aarch64", 16, 32, 4, 2, 32 * KIB, 512 * KIB),
    Machine("generic", "", 16, 16, 8, 1, 32 * KIB, 256 * KIB),
)
"""The first row that fits a target is its machine. SVE's vectors have 128 bits, which every SVE core runs, where no length
is known (Target.sve_bits)."""


@cache
def machine_of(target: Target) -> Machine:
    """The row for a target; for targets that are no CPU the generic one."""
    if not target.backend.for_processors:
        return MACHINES[-1]
    row = next(row for row in MACHINES if _fits(row, target))
    row = replace(row, vector_bytes=max(row.vector_bytes, target.sve_bits // 8))
    here = not (target.cpu or target.triple)
    return replace(row, l1=_cache(1, row.l1), l2=_cache(2, row.l2), cores=available_cpus()) if here else row


def _fits(row: Machine, target: Target) -> bool:
    """Whether a target has what a row needs. What a processor has that is named without features is seen in what LLVM
    makes of it: the width of its vectors."""
    if row.architecture not in ("", target.architecture):
        return False
    if row.architecture == "x86_64":
        return target.vector_bits >= row.vector_bytes * 8 and all(target_has(target, feature) for feature in row.features)
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
    return tuple(sorted(tiles, key=lambda tile: (-tile.rows * tile.vectors / (tile.rows + tile.vectors), -tile.vectors)))
