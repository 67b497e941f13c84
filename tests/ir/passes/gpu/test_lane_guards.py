"""Conditions that all lanes of a vector share are one condition."""

from __future__ import annotations

import pytest
from tilewright.ir.passes.gpu.lane_guards import share_lane_guards
from tilewright.ir.text.parser import parse


def guard_of(condition: str, lanes: int = 4) -> str:
    """The guard of a store in vectors, as the pass leaves it."""
    function = parse(f"""
@attrs(stage="loops")
def f(B: out float32[64]):
    for t in 8:
        for v in vectorized({lanes}):
            if likely({condition}):
                B[t * {lanes} + v] = 1.0
""")
    text = str(share_lane_guards(function, function))
    return text[text.index("likely(") + 7 : text.index("):\n", text.index("likely("))]


@pytest.mark.parametrize(
    ("condition", "shared"),
    [
        ("t * 4 + v < 24", "t * 4 < 24"),
        ("t * 4 + v <= 23", "t * 4 <= 23"),
        ("t * 4 + v >= 12", "t * 4 >= 12"),
        ("t * 4 + v > 11", "t * 4 > 11"),
        ("24 - t * 4 - v > 0", "24 - t * 4 > 0"),
        ("t * 8 + v + 4 < 40", "t * 8 + 4 < 40"),
    ],
)
def test_a_limit_at_a_vectors_end_speaks_of_the_first_lane(condition: str, shared: str) -> None:
    assert "v" not in guard_of(condition) and guard_of(condition).count("t") == shared.count("t")


@pytest.mark.parametrize(
    "condition",
    [
        "t * 4 + v < 25",
        "t * 4 + v <= 24",
        "t * 4 + v >= 13",
        "t * 4 + v > 12",
        "t * 2 + v < 24",
        "t * 4 + v * 2 < 24",
    ],
)
def test_a_limit_within_a_vector_stays_each_lanes_own(condition: str) -> None:
    assert "v" in guard_of(condition)


@pytest.mark.parametrize("condition", ["uint8(t) * 4 + uint8(v) + 254 >= 2", "int8(t) * 4 + int8(v) + 126 >= 2"])
def test_sums_that_wrap_within_a_vector_stay_each_lanes_own(condition: str) -> None:
    """254 + 2 is 0 in 8 bits: the first two lanes of t = 0 are above the limit, the others are not."""
    assert "v" in guard_of(condition)


@pytest.mark.parametrize(
    ("outer", "inner", "dropped"),
    [
        ("t * 4 + v >= 3", "t * 4 + v >= 4", True),
        ("t * 4 + v < 29", "t * 4 + v < 28", True),
        ("t * 4 + v >= 5", "t * 4 + v >= 4", True),
        ("t < 6", "t * 4 + v >= 4", False),
    ],
)
def test_choices_within_choices_are_one_without_what_the_others_imply(outer: str, inner: str, dropped: bool) -> None:
    function = parse(f"""
@attrs(stage="loops")
def f(A: float32[64], B: out float32[64]):
    for t in 8:
        for v in vectorized(4):
            B[t * 4 + v] = if_then_else({outer}, if_then_else({inner}, A[t * 4 + v], 0.0), 0.0)
""")
    text = str(share_lane_guards(function, function))
    assert text.count("if_then_else") == 1 and text.count(" and ") == (0 if dropped else 1)


def test_choices_with_other_values_otherwise_stay() -> None:
    function = parse("""
@attrs(stage="loops")
def f(A: float32[64], B: out float32[64]):
    for t in 8:
        for v in vectorized(4):
            B[t * 4 + v] = if_then_else(t * 4 + v >= 3, if_then_else(t * 4 + v >= 4, A[t * 4 + v], 1.0), 0.0)
""")
    assert str(share_lane_guards(function, function)).count("if_then_else") == 2
