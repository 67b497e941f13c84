"""What simplifying decides about statements."""

from __future__ import annotations

import pytest
from same_result import after
from tilewright.ir.arith import Analyzer
from tilewright.ir.contents import keep_results
from tilewright.ir.expr import Expr
from tilewright.ir.passes.common.simplify import simplify
from tilewright.ir.structural import equal
from tilewright.ir.text.parser import parse

LOOP = "for i in 8:\n        "
PLAIN = LOOP + "C[i] = A[i]"
GUARDED = LOOP + "if {}:\n            C[i] = A[i]"
CASES = {
    "a loop of one iteration": ("for i in range(2, extent=1):\n        C[i] = A[i]", "C[2] = A[2]"),
    "an empty loop": ("C[0] = A[0]\n    for i in 0:\n        C[i] = A[i]", "C[0] = A[0]"),
    "an extent that cannot be positive": ("C[0] = A[0]\n    for i in min(n, 0):\n        C[i] = A[i]", "C[0] = A[0]"),
    "a guard that its loop implies": (GUARDED.format("i < 8"), PLAIN),
    "a guard that is never met": (GUARDED.format("i > 9") + "\n        else:\n            C[i] = 1", LOOP + "C[i] = 1"),
    "a guard within the same guard": (
        LOOP + "if i < n:\n            if i < n + 1:\n                C[i] = A[i]",
        GUARDED.format("i < n"),
    ),
    "the opposite within else": (
        LOOP + "if i < n:\n            C[i] = 1\n        else:\n            if i >= n:\n                C[i] = A[i]",
        LOOP + "if i < n:\n            C[i] = 1\n        else:\n            C[i] = A[i]",
    ),
    "likely of what is sure": (GUARDED.format("likely(i * 2 < 16)"), PLAIN),
    "likely of what is not": (GUARDED.format("likely(i + 0 < n)"), GUARDED.format("likely(i < n)")),
    "an index that comes back": (
        "for i in 4:\n        for j in 2:\n            C[(i * 2 + j) // 2 * 2 + (i * 2 + j) % 2] = 7",
        "for i in 4:\n        for j in 2:\n            C[i * 2 + j] = 7",
    ),
    "a let of a constant": ("x: int32 = 3\n    C[x] = A[x + 1]", "C[3] = A[4]"),
    "memory that nothing uses": ("t: float32[4]\n    if False:\n        t[0] = 1.0\n    C[0] = 1", "C[0] = 1"),
    "nothing left in a loop": ("C[0] = 1\n    for i in 8:\n        if i > 8:\n            C[i] = 2", "C[0] = 1"),
}
HEAD = "def f(n: int32, A: int32[8], C: out int32[8]):\n    "


@pytest.mark.parametrize("name", CASES)
def test_statement(name: str) -> None:
    text, expected = CASES[name]
    result = after(HEAD + text + "\n", simplify, n=3)
    wanted = parse(HEAD + expected + "\n")
    assert equal(result, wanted), str(result)


def test_what_was_left_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where as much is known of it, for the length of a pipeline."""
    function = parse(HEAD + GUARDED.format("i + 0 < n") + "\n")
    with keep_results():
        once = simplify(function)
        looked: list[Expr] = []
        monkeypatch.setattr(Analyzer, "simplify", lambda _, node: looked.append(node) or node)
        assert simplify(once).body is once.body and not looked
    assert simplify(once).body is once.body and looked


def test_extents_are_not_negative() -> None:
    result = after(
        """
def f(n: int32, A: int32[n], C: out int32[8]):
    if n >= 0:
        C[0] = 1
    if n + 1 > 0:
        C[1] = 1
    if n > 0:
        C[2] = 1
""",
        simplify,
        n=3,
    )
    assert str(result).count("if") == 1


def test_a_pragma_keeps_its_loop() -> None:
    result = after(
        """
def f(C: out int32[8]):
    for i in 1 with auto_unroll_max_step=8:
        C[i] = 1
""",
        simplify,
    )
    assert "auto_unroll_max_step" in str(result)


def test_allocated_extents() -> None:
    result = after(
        """
def f(A: int32[8], C: out int32[8]):
    for i in 2:
        t: int32[i - i + 4]
        for j in 4:
            t[j] = A[i * 4 + j]
        for j in 4:
            C[i * 4 + j] = t[j]
""",
        simplify,
    )
    assert "t: int32[4]" in str(result)


def test_nothing_to_do_gives_the_same_loops() -> None:
    function = simplify(
        parse("""
def f(A: int32[8], C: out int32[8]):
    for i in 8:
        C[i] = A[i]
""")
    )
    assert simplify(function) is function
