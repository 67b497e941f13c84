"""Faults planted in the CUDA text, as a wrong compiler would make them: the emulator finds each, and names its line."""

from __future__ import annotations

import gpu_programs
import pytest
from planted_faults import built, replaced
from tilewright.base.errors import CudaError


def test_a_race_names_both_lines_both_threads_and_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    program = gpu_programs.PROGRAMS["vector_add"]()
    kernel = built(monkeypatch, program, replaced("C[block_x * 64 + thread_x]", "C[0]"))
    with pytest.raises(
        CudaError,
        match=r"(?s)TW0820: race in main_kernel0, line 7: thread \(\d+, 0, 0\) of block \(\d+, 0, 0\) "
        r"stores element 0 of 'C'.*thread \(\d+, 0, 0\) stored it at line 7, with no barrier between the two",
    ):
        kernel(*program.inputs(), program.output())


def test_out_of_bounds_names_the_element_and_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    program = gpu_programs.PROGRAMS["vector_add"]()
    kernel = built(monkeypatch, program, replaced("< 1003", "< 1004"))
    with pytest.raises(CudaError, match=r"(?s)reads element 1003 of '[AB]'.*has 1003 elements"):
        kernel(*program.inputs(), program.output())
