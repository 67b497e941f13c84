"""Processors of x86-64. The facts are those of the makers' optimization manuals (Intel 64 and IA-32 Architectures Optimization
Reference Manual; AMD's Software Optimization Guides for families 17h, 19h and 1Ah), of Fog's Instruction Tables and of uops.info
(Abel and Reineke 2019), rounded."""

from __future__ import annotations

from dataclasses import replace

from .model import KIB, MIB, Instruction, Machine, units

__all__ = ["ROWS", "SSE2"]

# Fog: multiply-adds and products on ports 0 and 1, sums of floats on 1 alone
_HASWELL_PORTS = {"add": "1", "select": "1", "logic": "015"}
# without FMA: a product on port 0, then a sum on port 1, hence 8 cycles below
_SANDYBRIDGE_PORTS = {"add": "1", "mul": "0", "select": "1", "logic": "05"}
# AMD: pipes 0 and 1 multiply, 2 and 3 add, so that sums cost products nothing
_ZEN_PORTS = {"add": "23", "select": "23", "logic": "0123"}
# sums are done by the units of multiply-adds here, and so as late as they
_SKYLAKE = units((4, 2), (4, 2), (4, 2), (11, 1 / 5), (12, 1 / 6), (4, 2), 3, 1 / 5, 2, 1, 0.5, {"logic": "015"})
_SKYLAKE_512 = units(
    (4, 2), (4, 2), (4, 2), (18, 1 / 10), (20, 1 / 12), (4, 2), 2, 1 / 10, 2, 1, 1, {}, compare=Instruction(3, 1, "1")
)
_ICELAKE = replace(_SKYLAKE_512, put=Instruction(1, 2))
"""Two elements are stored in a cycle, of whole vectors one."""
_GOLDEN_COVE = replace(_ICELAKE, picked=Instruction(5, 3))
"""And three elements are loaded."""
_HASWELL = units((5, 2), (3, 1), (5, 2), (18, 1 / 14), (19, 1 / 14), (3, 1), 3, 1 / 12, 2, 1, 0.5, _HASWELL_PORTS)
_SANDYBRIDGE = units(
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
_ZEN2 = units((5, 2), (3, 2), (3, 2), (10, 1 / 5), (14, 1 / 7), (2, 2), 4, 1 / 16, 2, 1, 0.5, _ZEN_PORTS)
_ZEN3 = units((4, 2), (3, 2), (3, 2), (10, 1 / 5), (14, 1 / 7), (2, 2), 4, 1 / 8, 2, 1, 0.5, _ZEN_PORTS)
# vectors of 512 bits pass units of 256 twice: half the rates of Zen 3
_ZEN4 = units(
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
_ZEN5 = units(
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
# without FMA: 5 cycles of a product and 3 of a sum
SSE2 = units((8, 1), (3, 1), (5, 1), (14, 1 / 7), (14, 1 / 7), (3, 1), 1, 1 / 8, 1, 1, 0.5, {})
MINIMUM, MAXIMUM = ("select", "select", "logic"), ("select", "select", "compare", "logic", "logic")
"""A minimum is asked for in both orders, since instructions give the second operand where both are equal or one is a NaN; of a maximum
it is asked as well whether either is a NaN."""
_WIDE_MAXIMUM = ("select", "compare", "logic")
"""AVX-512 has one that knows zeros apart."""
_ROWS = (
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
    Machine("sse2", "x86_64", 16, 16, SSE2, 32 * KIB, 256 * KIB, l2_rate=16, window=128),
)
ROWS = tuple(
    replace(
        row,
        minimum=MINIMUM,
        maximum=_WIDE_MAXIMUM if row.vector_bytes == 64 else MAXIMUM,
        table=128
        if row.name == "avx512" and row.cpus
        else 16
        if row.name in ("avx512", "avx2")
        else 0,  # VBMI, shuffles
    )
    for row in _ROWS
)
"""The most demanding first."""
