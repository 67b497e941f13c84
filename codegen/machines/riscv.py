"""Processors of RISC-V.

| rows | from |
|---|---|
| SiFive U74 | SiFive U74 Core Complex Manual; LLVM's RISCVSchedSiFive7 |
| SiFive P670, P470 | SiFive's product briefs; LLVM's RISCVSchedSiFiveP600 and P400 |
| SiFive X280 | LLVM's RISCVSchedSiFive7 with vectors of 512 bits |
| SpacemiT X60 | LLVM's RISCVSchedSpacemitX60, measured on a board with K1: half a vector in a cycle |
| T-Head C908 | XuanTie C908 User Manual, whose units the X60's model describes too |

A processor without vectors has four registers of one float in place of each vector of four: LLVM writes vectors out in this way, and
tiles are as large as registers allow.
"""

from __future__ import annotations

from dataclasses import replace

from .model import KIB, MIB, Machine, units

__all__ = ["ROWS"]

_SCALARS = units(
    (5, 0.25), (5, 0.25), (5, 0.25), (27, 1 / 100), (27, 1 / 100), (4, 0.25), 0.25, 1 / 8, 0.25, 0.25, 1 / 8, {}
)
_P600 = units((4, 2), (4, 2), (4, 2), (14, 1 / 12), (14, 1 / 12), (2, 2), 2, 1 / 8, 1, 1, 0.5, {})
_X280 = units((8, 0.5), (4, 0.5), (4, 0.5), (30, 1 / 60), (30, 1 / 60), (4, 0.5), 0.5, 1 / 16, 0.5, 0.5, 0.5, {})
_X60 = units((5, 0.5), (4, 0.5), (4, 0.5), (15, 1 / 30), (15, 1 / 30), (4, 0.5), 0.5, 1 / 16, 0.5, 0.5, 0.5, {})
_C908 = units((5, 1), (4, 1), (4, 1), (12, 1 / 15), (12, 1 / 15), (4, 1), 1, 1 / 8, 1, 1, 0.5, {})

_U74 = Machine(
    "scalar",
    "riscv64",
    16,
    8,
    _SCALARS,
    32 * KIB,
    2 * MIB,
    0,
    l2_rate=8,
    memory_rate=1.5,
    memory_shared=2.5,
    pages=40,
    clock=1.5,
    width=2,
    window=8,
    cores=4,
    cpus=("sifive-u74", "sifive-7-series"),
)
_X60_ROW = Machine(
    "rvv",
    "riscv64",
    32,
    32,
    _X60,
    32 * KIB,
    512 * KIB,
    0,
    l2_rate=12,
    memory_rate=2,
    memory_shared=4,
    pages=16,
    clock=1.6,
    width=2,
    window=8,
    cores=8,
    features=("v",),
    cpus=("spacemit-x60",),
)

_EXTREMUM = ("select", "compare", "compare", "select", "select")
"""The instruction gives the number where one of two is a NaN: both are asked whether they are."""
_ROWS = (
    _X60_ROW,
    replace(
        _X60_ROW, vector_bytes=16, instructions=_C908, l2=256 * KIB, memory_shared=3, cores=4, cpus=("thead-c908",)
    ),
    Machine(
        "rvv",
        "riscv64",
        64,
        32,
        _X280,
        32 * KIB,
        512 * KIB,
        2 * MIB,
        memory_rate=4,
        clock=1.5,
        width=2,
        window=16,
        cores=4,
        features=("v",),
        cpus=("sifive-x280", "sifive-x390"),
    ),
    Machine(
        "rvv",
        "riscv64",
        16,
        32,
        _P600,
        32 * KIB,
        512 * KIB,
        4 * MIB,
        memory_rate=4,
        clock=2.5,
        width=4,
        window=160,
        cores=16,
        features=("v",),
        cpus=("sifive-p670", "sifive-p470", "sifive-p870"),
    ),
    _U74,
    Machine("rvv", "riscv64", 16, 32, _C908, 32 * KIB, 512 * KIB, memory_rate=3, window=64, cores=8, features=("v",)),
    replace(_U74, cpus=(), l2=512 * KIB, cores=8),
)
ROWS = tuple(replace(row, minimum=_EXTREMUM, maximum=_EXTREMUM) for row in _ROWS)
"""Designs first, then what any processor has."""
