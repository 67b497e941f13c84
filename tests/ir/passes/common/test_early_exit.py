"""Loops are left where a flag says that nothing is left to do, and nowhere else."""

from __future__ import annotations

from same_result import after
from tilewright.ir.passes.common.early_exit import leave_loops


def left(guard: str, body: str) -> str:
    return str(
        after(
            f"""
def f(P: int32[24], H: out int32[8]):
    done: local bool[1]
    done[0] = False
    for b in 8:
        H[b] = 0
    for i in 24:
        if {guard}:
            {body}
""",
            leave_loops,
        )
    )


def test_a_loop_whose_flag_is_set_is_over() -> None:
    text = left("not done[0]", "done[0] = P[i] > 3")
    assert "while i_next[0] < 24 and not done[0]:" in text and "i: int32 = i_next[0]" in text


def test_what_depends_on_the_iteration_is_asked_within() -> None:
    text = left("not done[0] and P[i] < 2", "done[0] = P[i] == 0")
    assert text.index("while i_next[0] < 24 and not done[0]:") < text.index("if P[i] < 2:")


def test_conditions_that_no_iteration_changes_are_left_alone() -> None:
    assert "while" not in left("P[0] > 3", "H[0] = H[0] + 1")
    assert "while" not in left("P[i] > 3", "H[0] = H[0] + 1")
    assert "while" not in left("H[7] < 3", "H[7] = H[7] + P[i] * P[i]"), (
        "what the caller sees is looked at as the loop says"
    )
