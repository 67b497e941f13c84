"""Faults planted in the CUDA text, as a wrong compiler would make them: the emulator finds each, and names its line."""

from __future__ import annotations

import re
from collections.abc import Callable

import gpu_programs
import pytest
from planted_faults import BARRIER, built, dropped, replaced
from tilewright.errors import CudaError


def moved_up(text: str) -> str:
    """transpose: the barrier before the fetch instead of after it."""
    text = dropped(0)(text)
    return replaced("  if (block_x * 16 + thread_y", f"  {BARRIER}\n  if (block_x * 16 + thread_y")(text)


def into_guard(text: str) -> str:
    """transpose: the barrier where only the threads with an element come by."""
    text = dropped(0)(text)
    return replaced("    if (block_y * 16 + thread_x", f"    {BARRIER}\n    if (block_y * 16 + thread_x")(text)


def reused_staging(text: str) -> str:
    """softmax: both reductions stage in one buffer, and nothing between them waits."""
    text = text.replace("total_partial_staging", "top_partial_staging")
    text = re.sub(r"  __shared__ __align__\(16\) float top_partial_staging\[2\];\n", "", text, count=1)
    for number in (2, 1):
        text = dropped(number)(text)
    return text


def under_condition(text: str) -> str:
    """softmax: half of a warp skips a shuffle that the other half waits in."""
    old = "const float top_partial_other = tw_shuffle_down(top_partial[0], 8, 32);"
    return replaced(old, "float top_partial_other = 0.0f;\n    if (thread_x < 16) {\n      top_partial_other = "
                    "tw_shuffle_down(top_partial[0], 8, 32);\n    }")(text)


FAULTS: dict[str, tuple[str, Callable[[str], str], str]] = {
    "the barrier between fetching and using tiles is dropped": ("matmul", dropped(1), "TW0820: race"),
    "the barrier between using tiles and fetching the next is dropped": ("matmul", dropped(0), "TW0820: race"),
    "the barrier of a transpose is dropped": ("transpose", dropped(0), "TW0820: race"),
    "the barrier of a transpose is moved before the fetch": ("transpose", moved_up, "TW0820: race"),
    "the barrier of a transpose is moved into a guard": ("transpose", into_guard, "TW082[02]"),
    "the barrier between staging a result and reading it is dropped": ("softmax", dropped(0), "TW0820: race"),
    "a shuffle names half of the lanes that execute it": ("softmax", replaced("0xffffffffu", "0x0000ffffu"), "TW0823: shuffle"),
    "a shuffle stands under a divergent condition": ("softmax", under_condition, "TW0823: shuffle"),
    "two reductions share a staging buffer without a barrier": ("softmax", reused_staging, "TW0820: race"),
    "threads return before a barrier": (
        "transpose", replaced("  __shared__", "  if (thread_x > 12) return;\n  __shared__"), "TW0822: barrier"),
    "every thread accumulates what one thread should": ("row_norm", replaced("if (thread_x == 0)", "if (true)", 9), "TW0820: race"),
    "the result of a tree is read while it is made": ("row_sums_odd", dropped(4), "TW0820: race"),
    "blocks store to each other's elements": ("vector_add", replaced("C[block_x * 64 + thread_x]", "C[thread_x]"), "TW0820: race"),
    "a guard is too wide": ("vector_add", replaced("< 1003", "< 1004"), "TW0821: out of bounds"),
    "an array is too short": ("transpose", replaced("A_shared[256]", "A_shared[255]"), "TW0821: out of bounds"),
}
"""(program, mutation of its text, the error)."""


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found_in_every_order_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program_name, mutate, message = FAULTS[name]
    program = gpu_programs.PROGRAMS[program_name]()
    kernel = built(monkeypatch, program, mutate)
    text = kernel.source("cuda").splitlines()
    for seed in range(3):
        monkeypatch.setenv("TILEWRIGHT_EMULATE_SEED", str(seed))
        with pytest.raises(CudaError, match=message) as caught:
            kernel(*program.inputs(), program.output())
        line = re.search(r"main_kernel0, line (\d+)", str(caught.value))
        assert line, caught.value
        assert text[int(line[1]) - 1].strip() in str(caught.value), "the line is quoted"


def test_text_that_is_left_alone_has_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {program for program, _, _ in FAULTS.values()}:
        program = gpu_programs.PROGRAMS[name]()
        kernel = built(monkeypatch, program, lambda text: text)
        kernel(*program.inputs(), program.output())


def test_a_race_names_both_lines_both_threads_and_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    program = gpu_programs.PROGRAMS["vector_add"]()
    kernel = built(monkeypatch, program, replaced("C[block_x * 64 + thread_x]", "C[0]"))
    with pytest.raises(CudaError, match=r"(?s)TW0820: race in main_kernel0, line 7: thread \(\d+, 0, 0\) of block \(\d+, 0, 0\) "
                       r"stores element 0 of 'C'.*thread \(\d+, 0, 0\) stored it at line 7, and nothing orders the two"):
        kernel(*program.inputs(), program.output())


def test_out_of_bounds_names_the_element_and_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    program = gpu_programs.PROGRAMS["vector_add"]()
    kernel = built(monkeypatch, program, replaced("< 1003", "< 1004"))
    with pytest.raises(CudaError, match=r"(?s)reads element 1003 of '[AB]'.*has 1003 elements"):
        kernel(*program.inputs(), program.output())
