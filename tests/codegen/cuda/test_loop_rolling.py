"""Loops that NVRTC is told to leave rolled: those over arrays that lie in memory whatever it does."""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright import te
from tilewright.te.hybrid.runtime import allocate, output_tensor


@te.hybrid.script
def _counted(digits: Any) -> Any:
    """How often each digit comes, behind the sum of the first sixteen of a row."""
    counts = output_tensor((digits.shape[0], 17), "int32")
    for r in range(digits.shape[0]):
        often = allocate((16,), "int32")
        first = allocate((16,), "int32")
        total = 0
        for i in range(digits.shape[1]):
            often[digits[r, i] & 15] += 1
        for i in range(16):
            first[i] = digits[r, i]
        for i in range(16):
            total = total + first[i]
        counts[r, 0] = total
        for i in range(16):
            counts[r, 1 + i] = often[i]
    return counts


def test_only_loops_over_what_data_choose_stay_rolled() -> None:
    digits = te.placeholder((64, 100), "int32", name="digits")
    counts = _counted(digits)
    kernel = tw.build(tw.autoschedule.schedule([counts], target="cuda"), [digits, counts], target="cuda -arch=sm_80")
    lines = kernel.source("cuda").splitlines()
    rolled = [lines[at + 1 : at + 3] for at, line in enumerate(lines) if "#pragma unroll 4" in line]
    assert any("< 100" in begin and "often[" in body for begin, body in rolled)
    assert any("< 16" in begin and "counts[" in body and "often[" in body for begin, body in rolled)
    assert not any("first[" in body for _, body in rolled), "what unrolling puts in registers is unrolled"
