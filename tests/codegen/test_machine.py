"""Rows of machines by target, and the options that say more of a machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import tilewright as tw
from tilewright.codegen import machine as machines
from tilewright.codegen.machine import MACHINES, find_machine, register_tiles
from tilewright.codegen.target import Target

ARM, RISCV = "llvm -mtriple=aarch64-unknown-linux-gnu", "llvm -mtriple=riscv64-unknown-linux-gnu"


@pytest.mark.parametrize(
    "target, has",
    [
        (f"{ARM} -mcpu=cortex-a53", {"width": 2, "l3": 0, "cores": 4}),
        (f"{ARM} -mcpu=cortex-a55", {"fma_latency": 4, "fma_rate": 1}),
        (f"{ARM} -mcpu=cortex-a72", {"clock": 1.5, "fma_latency": 7}),
        (f"{ARM} -mcpu=cortex-a76", {"cores": 4, "fma_rate": 2}),
        (f"{ARM} -mcpu=cortex-x2", {"fma_rate": 4, "window": 288}),
        (f"{ARM} -mcpu=neoverse-n1", {"name": "neon", "l2": 1 << 20}),
        (f"{ARM} -mcpu=neoverse-n2", {"name": "sve", "window": 160}),
        (f"{ARM} -mcpu=neoverse-v1 -msve-vector-bits=256", {"vector_bytes": 32, "fma_rate": 2}),
        (f"{ARM} -mcpu=neoverse-v1", {"vector_bytes": 16, "fma_rate": 4, "name": "sve"}),
        (f"{ARM} -mcpu=neoverse-v1 -mattr=-sve", {"vector_bytes": 16, "fma_rate": 4, "name": "neon"}),
        (f"{ARM} -mcpu=neoverse-v2", {"l2": 2 << 20, "fma_rate": 4}),
        *((f"{ARM} -mcpu=apple-m{n}", {"line": 128, "l1": 128 << 10, "fma_rate": 4}) for n in (1, 2, 3, 4)),
        (f"{ARM} -mcpu=a64fx", {"vector_bytes": 64, "line": 256, "fma_latency": 9}),
        (f"{RISCV} -mcpu=sifive-u74", {"name": "scalar", "registers": 8}),
        (f"{RISCV} -mcpu=sifive-p670", {"name": "rvv", "vector_bytes": 16, "fma_rate": 2}),
        (f"{RISCV} -mcpu=spacemit-x60", {"name": "rvv", "vector_bytes": 32}),
        (f"{RISCV} -mcpu=thead-c908", {"name": "rvv", "vector_bytes": 16, "l2": 256 << 10}),
        (f"{RISCV} -mattr=+v,+zvl512b", {"name": "rvv", "vector_bytes": 64}),
        (f"{ARM} -mcpu=cortex-a72 -cores=2 -l1=16K -l2=4M -l3=1G", {"cores": 2, "l1": 16384, "l2": 4 << 20, "l3": 1 << 30}),
        ("llvm -cores=3 -l3=0", {"cores": 3, "l3": 0}),
    ],
)  # fmt: skip
def test_processors_have_the_row_of_their_design(target: str, has: dict[str, Any]) -> None:
    machine = find_machine(Target.parse(target))
    assert {name: getattr(machine, name) for name in has} == has
    assert Target.parse(str(Target.parse(target))) == Target.parse(target)


def test_a_machine_is_added_by_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = replace(MACHINES[-2], name="mine", architecture="aarch64", cpus=("cortex-r82",), registers=32)
    monkeypatch.setattr(machines, "MACHINES", (row, *MACHINES))
    machine = find_machine(Target.parse(f"{ARM} -mcpu=cortex-r82"))
    assert machine.cpus == row.cpus and register_tiles(machine, 32)


@pytest.mark.parametrize("options", ["-cores=0", "-cores=few", "-l1=3X", "-l2=-1", "-l3=1.5M"])
def test_what_is_no_number_of_cores_or_bytes_is_refused(options: str) -> None:
    with pytest.raises(tw.CodegenError, match=r"(?s)TW0402.*is not a number of (cores|bytes).*fix: -"):
        Target.parse(f"llvm {options}")


def test_a_cache_that_is_smaller_than_the_one_before_is_none() -> None:
    machine = find_machine(Target.parse(f"{ARM} -mcpu=cortex-a76 -l2=8M -l3=4M"))
    assert [level.name for level in machine.levels] == ["L1", "L2", "memory"]
