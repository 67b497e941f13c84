"""The loop of a kernel that the tables of main loops are about."""

from __future__ import annotations

import shutil

import pytest
from tilewright.codegen.machine import find_machine
from tilewright.codegen.target import Target
from tilewright.tools.benchmarks.mca import main_loop, port_cycles, simulated_cycles, target_text

WITHIN = """.LBB0_1:
\tldr\tq0, [x1], #16
\tfmla\tv1.4s, v0.4s, v8.4s
\tfmla\tv2.4s, v0.4s, v9.4s
\tfmla\tv3.4s, v0.4s, v10.4s
\tfmla\tv4.4s, v0.4s, v11.4s
\tb.ne\t.LBB0_1
"""
AT_THE_BORDER = WITHIN.replace("LBB0_1", "LBB0_2").replace(
    "\tb.ne", "\tfmla\tv5.4s, v0.4s, v12.4s\n\tmov\tv0.s[1], v7.s[0]\n\tmov\tv0.s[2], v7.s[1]\n\tb.ne"
)
SMALL = ".LBB0_3:\n\tfmla\tv1.4s, v0.4s, v8.4s\n\tb.ne\t.LBB0_3\n"


def test_the_main_loop_is_the_one_within_an_image() -> None:
    """That of the border has a multiply-add more, and is run for two blocks of a row; a small one has nothing beside its own."""
    for loops in ((AT_THE_BORDER, WITHIN, SMALL), (SMALL, WITHIN, AT_THE_BORDER)):
        assert main_loop("kernel:\n" + "".join(loops)).names == ["ldr", *["fmla"] * 4, "b.ne"]
    assert main_loop("kernel:\n\tret\n").names == []


@pytest.mark.skipif(shutil.which("llvm-mca-16") is None, reason="llvm-mca 16 is not installed")
@pytest.mark.parametrize("access", ["ldr\tq1, [x12], #16", "ldr\tq1, [x12, #16]!", "ldp\tq1, q2, [x12], #32"])
def test_a_loop_does_not_wait_for_the_address_of_what_it_loads(access: str) -> None:
    loop = main_loop(f".LBB0_1:\n\t{access}\n\tfadd\tv0.4s, v1.4s, v3.4s\n\tstr\tq0, [x11, x12]\n\tb.ne\t.LBB0_1\n")
    simulated = simulated_cycles(loop, "neoverse-n2", "aarch64")
    assert simulated is not None and simulated[1] <= simulated[0] < 2, simulated


def test_ports_of_divisions_are_the_dividers() -> None:
    machine = find_machine(Target.parse(target_text("cortex-a72")))
    loop = main_loop(".LBB0_1:\n\tldr\tq1, [x12]\n\tfdiv\tv0.4s, v1.4s, v3.4s\n\tstr\tq0, [x11]\n\tb.ne\t.LBB0_1\n")
    assert port_cycles(loop, machine)[0] == 1 / machine.instructions.div.rate
