"""Loop partition where a pragma asks for it."""

from __future__ import annotations

import pytest
from tilewright.ir.passes.common.loop_partition import loop_partition
from tilewright.ir.passes.common.simplify import simplify
from tilewright.ir.text.parser import parse


@pytest.mark.parametrize(("hint", "whole"), [("", False), (" with loop_partition_hint=True", True)])
def test_a_hint_asks_for_guards_of_values(hint: str, whole: bool) -> None:
    """35 of 40 iterations have none, and what was cut is not cut again."""
    text = str(
        simplify(
            loop_partition(
                parse(f"""
def padded(A: float32[40], C: out float32[40]):
    for i in 40{hint}:
        C[i] = if_then_else(3 <= i and i < 38, A[i - 3], 0.0) + A[max(i - 2, 0)]
""")
            )
        )
    )
    assert ("extent=35" in text) == whole
    assert ("if_then_else" in text) != whole
    assert ("A[i - 2]" in text or "A[i + 1]" in text) == whole
    assert "hint" not in text
