"""Loops over a variable that a condition gives."""

from __future__ import annotations

import pytest
from same_result import after
from tilewright.ir.passes.common.solved_loops import solve_loops


def solved(condition: str, body: str = "H[b] = H[b] + W[i]", extent: str = "8") -> str:
    return str(
        after(
            f"""
def f(P: int32[24], W: float32[24], H: out float32[8]):
    for b in 8:
        H[b] = 0.0
    for i in 24:
        for b in {extent}:
            if {condition}:
                {body}
""",
            solve_loops,
        )
    )


def test_a_cell_that_data_gives_is_computed_alone() -> None:
    text = solved("P[i] == b")
    assert "        b: int32 = P[i]\n        if b >= 0 and b < 8:\n            H[b] = H[b] + W[i]" in text
    assert solved("b == P[i] % 8").count("for b in 8") == 1  # the one that fills H


def test_what_else_the_condition_says_still_holds() -> None:
    text = solved("W[i] > 0.5 and P[i] == b and b != 3")
    assert text.index("W[i]") < text.index("b: int32 = P[i]") < text.index("b != 3")
    text = solved("if_then_else(likely(i < 20), P[i] == b, False)")
    assert text.index("if likely(i < 20):") < text.index("b: int32 = P[i]")


@pytest.mark.parametrize(
    "body", ["H[b] = H[b] + if_then_else(P[i] == b, P[i] * 3, 0)", "H[b] = select(P[i] == b, 2, 0) + H[b]"]
)
def test_a_choice_of_what_is_added_is_a_condition(body: str) -> None:
    text = str(
        after(
            f"""
def f(P: int32[24], H: out int32[8]):
    for i in 24:
        for b in 8:
            {body}
""",
            solve_loops,
        )
    )
    assert "b: int32 = P[i]" in text and "for b in 8" not in text


def of_floats(begin: str, body: str) -> str:
    text = f"""
def f(P: int32[24], W: float32[24, 16], H: out float32[8, 16]):
    for b in 8:
        for j in 16:
            H[b, j] = {begin}
    for i in 24:
        for b in 8:
            for j in vectorized(16):
                {body}
"""
    return str(after(text, solve_loops))


CHOICE = "H[b, j] = H[b, j] + if_then_else(P[i] == b, W[i, j], 0.0)"


def test_floats_that_begin_at_zero_are_added_under_the_condition_alone() -> None:
    text = of_floats("0.0", CHOICE)
    assert text.count("for b in 8") == 1  # the one that fills H
    assert text.index("b: int32 = P[i]") < text.index("for j in vectorized(16)")
    assert "if_then_else" not in text


@pytest.mark.parametrize("begin", ["-0.0", "W[b, j]", "W[b, j] + 1.0"])
def test_minus_zero_becomes_zero_by_adding_zero(begin: str) -> None:
    assert of_floats(begin, CHOICE).count("for b in 8") == 2


@pytest.mark.parametrize("condition", ["P[i] == b and j < 3", "W[i, j] == 2.0 and P[i] == b"])
def test_a_loop_that_the_condition_asks_about_keeps_the_condition_inside(condition: str) -> None:
    assert (
        of_floats("0.0", f"if {condition}:\n                    H[b, j] = H[b, j] + W[i, j]").count("for b in 8") == 2
    )


@pytest.mark.parametrize(
    "body",
    [
        "H[b] = H[b] + if_then_else(P[i] == b, 2, 1)",
        "H[b] = H[7 - b] + if_then_else(P[i] == b, 2, 0)",
        "H[b] = H[b] * if_then_else(P[i] == b, 2, 0)",
    ],
)
def test_a_choice_that_changes_other_cells_is_none(body: str) -> None:
    text = str(
        after(
            f"""
def f(P: int32[24], H: out int32[8]):
    for i in 24:
        for b in 8:
            {body}
""",
            solve_loops,
        )
    )
    assert "for b in 8" in text


def test_loops_within_loops() -> None:
    text = str(
        after(
            """
def f(P: int32[24], Q: int32[24], H: out float32[3, 4]):
    for y in 3:
        for x in 4:
            H[y, x] = 0.0
    for i in 24:
        for y in 3:
            for x in 4:
                if P[i] % 4 == y and Q[i] % 5 == x:
                    H[y, x] = H[y, x] + 1.0
""",
            solve_loops,
        )
    )
    assert "y: int32 = P[i] % 4" in text and "x: int32 = Q[i] % 5" in text and text.count("for x in 4") == 1


@pytest.mark.parametrize(
    ("condition", "body"),
    [
        ("P[b] == b", "H[b] = H[b] + W[i]"),  # no equation for b
        ("P[i] <= b", "H[b] = H[b] + W[i]"),
        ("P[i] == b or b == 3", "H[b] = H[b] + W[i]"),
        ("int32(H[i % 8]) == b", "H[b] = H[b] + W[i]"),  # the body changes what the equation reads
        ("b < 7 and P[i * (b // 7)] == b", "H[b] = W[i]"),
        ("W[b] > 0.5 and P[i] == b", "H[b] = W[i]"),  # may guard the read
    ],
)
def test_other_loops_stay(condition: str, body: str) -> None:
    assert solved(condition, body).count("for b in 8") == 2
