"""Asynchronous copies: what a pipeline compiles to, that it computes the bits of the program, and planted faults in its waits."""

from __future__ import annotations

import re

import drawn
import gpu_programs
import numpy as np
import pytest
import tilewright as tw
from gpu_faults import FAULTS
from gpu_programs import pipelined_matmul
from planted_faults import BARRIER, built
from tilewright.base.errors import CudaError

SHAPES = [(17, 33, 21, 3, 4), (32, 16, 24, 2, 1), (16, 16, 8, 4, 4), (1, 1, 1, 3, 4), (31, 20, 40, 5, 4)]


@pytest.mark.parametrize("shape", drawn.part(SHAPES, 2), ids=str)
def test_a_pipeline_keeps_every_bit_at_any_size_and_in_any_order_of_threads(
    shape: tuple[int, int, int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = pipelined_matmul(*shape)
    inputs, expected, found = program.inputs(), program.output(), program.output()
    tw.build(program.schedule, program.args, target="llvm")(*inputs, expected)
    kernel = tw.build(program.schedule, program.args, target="cuda -emulate")
    for seed in range(3):
        monkeypatch.setenv("TILEWRIGHT_EMULATE_SEED", str(seed))
        kernel(*inputs, found)
        np.testing.assert_array_equal(found, expected)


def test_copies_go_past_the_registers_16_bytes_at_once_with_one_barrier_an_iteration() -> None:
    program = pipelined_matmul(32, 32, 64, 3, 4)
    kernel = tw.build(program.schedule, program.args, target="cuda -arch=sm_80")
    loop = kernel.source("cuda").partition("for (int k_outer")[2]
    assert loop.count(BARRIER) == 1 and loop.count("tw_copy<16>") == 2 and "tw_copies_wait<1>" in loop
    code = kernel.source("sass")
    assert len(re.findall(r"LDGSTS\.E\.BYPASS\.128", code)) >= 6 and "DEPBAR.LE SB0, 0x1" in code
    assert not re.search(r"\b(LDG|STS|STL|LDL)\b", code)


def test_elements_of_two_bytes_are_stored_at_once_and_zeros_come_by_the_copy() -> None:
    halves = pipelined_matmul(32, 32, 16, 2, 1, "float16")
    text = tw.build(halves.schedule, halves.args, target="cuda -emulate").source("cuda")
    assert "tw_copy<" not in text and "tw_copies_wait" in text
    padded = pipelined_matmul(20, 20, 20, 3, 4, padded=True)
    kernel = tw.build(padded.schedule, padded.args, target="cuda -emulate")
    assert re.search(r"tw_copy<16>\(&A_padded_shared\[.*\], &A\[.*\], .*< 20", kernel.source("cuda"))
    inputs, found = padded.inputs(), padded.output()
    kernel(*inputs, found)
    np.testing.assert_allclose(found, padded.reference(*inputs), rtol=1e-5, atol=1e-5)


def test_arguments_that_are_not_aligned_are_copied_an_element_at_a_time() -> None:
    program = pipelined_matmul(16, 16, 16, 3, 4)
    a, b = program.inputs()
    shifted = np.zeros(a.size + 1, a.dtype)[1:].reshape(a.shape)
    shifted[:] = a
    found = program.output()
    tw.build(program.schedule, program.args, target="cuda -emulate")(shifted, b, found)
    np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-5)


def test_what_is_found_too_early_is_said_with_both_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    program: gpu_programs.Program = pipelined_matmul(32, 32, 64, 3, 4)
    kernel = built(monkeypatch, program, FAULTS["copies: there is no wait"].mutate)
    with pytest.raises(
        CudaError,
        match=r"(?s)TW0826: too early in main_kernel0, line \d+: thread \(\d, \d, 0\) of block .* reads"
        r" byte \d+ of shared memory.*began a copy to it at line \d+, and has not waited for it",
    ):
        kernel(*program.inputs(), program.output())
