"""Exponentials that loops do not change."""

from __future__ import annotations

from tilewright.ir.passes.gpu.row_values import move_row_values
from tilewright.ir.text.parser import parse


def moved(body: str) -> str:
    head = '@attrs(stage="loops")\ndef main(A: float32[8], C: out float32[8]):\n'
    head += "    S: local float32[2, 4]\n    T: local float32[2]\n"
    return str(move_row_values(parse(head + body)))


def test_a_row_has_one_and_elements_share_it() -> None:
    text = moved("""    for i in 2:
        for j in unrolled(4):
            x: float32 = T[i]
            S[i, j] = S[i, j] * exp(x - A[i]) + exp(x)
    for i in 2:
        for j in 4:
            C[i * 4 + j] = S[i, j] * exp2(T[i] * 2.0)
""")
    lines = [line.strip() for line in text.splitlines()]
    assert (
        lines.index("x: float32 = T[i]") < lines.index("moved: float32 = exp(x)") < lines.index("for j in unrolled(4):")
    )
    assert "S[i, j] = S[i, j] * exp(x - A[i]) + moved" in lines, "memory that others store to may change"
    assert "C[i * 4 + j] = S[i, j] * moved" in lines


def test_what_a_loop_stores_or_may_not_do_stays() -> None:
    for body in (
        "T[0] = T[0] + exp(T[0])",
        "if A[j] < 1.0:\n                C[j] = exp(T[1])",
        "C[j] = if_then_else(A[j] < 1.0, exp(T[1]), 0.0)",
        "C[j] = exp(float32(j))",
    ):
        assert "moved" not in moved(f"    for i in 2:\n        for j in 4:\n            {body}\n")
