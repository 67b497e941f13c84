"""Unrolled loops and the pragmas that unroll."""

from __future__ import annotations

import pytest
from same_result import after
from tilewright.ir.passes.common.errors import UnrollNotConstant, UnrollTooLarge
from tilewright.ir.passes.common.unroll import unroll
from tilewright.ir.stmt import For
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import stores, walk


def loops(text: str, **scalars: int) -> list[str]:
    return [node.var.name for node in walk(after(text, unroll, **scalars).body) if isinstance(node, For)]


def test_copies_in_order() -> None:
    result = after(
        """
def sums(A: float32[6], C: out float32[3]):
    for i in unrolled(3):
        C[i] = 0.0
        for k in unrolled(2, extent=2):
            C[i] = C[i] + A[i * 2 + k - 2]
""",
        unroll,
    )
    assert [str(store.indices[0]) for store in stores(result.body)] == ["0", "0", "0", "1", "1", "1", "2", "2", "2"]


@pytest.mark.parametrize("extent", [0, 1, 5])
def test_extents(extent: int) -> None:
    assert (
        loops(f"""
def copy(A: float32[5], C: out float32[5]):
    for i in unrolled({extent}):
        C[i] = A[i]
""")
        == []
    )


def test_conditions_are_decided() -> None:
    result = after(
        """
def some(A: float32[5], C: out float32[5]):
    for i in unrolled(5):
        if i < 3:
            C[i] = if_then_else(i > 0, A[i - 1], 0.0)
        else:
            C[i] = 1.0
""",
        unroll,
    )
    assert "if" not in str(result)


def test_allocations_and_inner_loops_are_each_copys_own() -> None:
    result = after(
        """
def local(A: float32[2, 9], C: out float32[2, 9]):
    for i in unrolled(2):
        t: local float32[9]
        for j in 9:
            t[j] = A[i, j]
        for j in 9:
            C[i, j] = t[8 - j]
""",
        unroll,
    )
    variables = [node.var for node in walk(result.body) if isinstance(node, For)]
    assert len(variables) == len(set(variables)) == 4


def test_pragma_unrolls_the_innermost_small_loops() -> None:
    text = """
def sums(A: float32[4, 8], C: out float32[4]):
    for i in 4 with auto_unroll_max_step={steps}, unroll_explicit={explicit}:
        C[i] = 0.0
        for k in 8:
            C[i] = C[i] + A[i, k]
"""
    assert loops(text.format(steps=8, explicit=1)) == ["i"]
    assert loops(text.format(steps=7, explicit=1)) == ["i", "k"]
    assert loops(text.format(steps=100, explicit=1)) == []
    assert loops(text.format(steps=100, explicit=0)) == ["i", "k"]


def test_pragma_leaves_symbolic_loops() -> None:
    assert loops(
        """
def sums(n: int32, A: float32[n], C: out float32[n]):
    for i in n with auto_unroll_max_step=16, unroll_explicit=1:
        C[i] = A[i]
""",
        n=3,
    ) == ["i"]


def test_an_extent_that_a_loop_outside_decides_guards_the_copies() -> None:
    text = """
def corner(A: float32[5], C: out float32[5, 5]):
    for i in 5:
        for k in unrolled({extent}):
            C[i, k] = A[k]
"""
    assert loops(text.format(extent="5 - i")) == ["i"]
    assert loops(text.format(extent="min(i, 3)")) == ["i"]
    with pytest.raises(UnrollNotConstant, match="its extent i \\* 100 \\+ 1 is not known"):  # 401 guards would be
        unroll(parse(text.format(extent="i * 100 + 1")))


def test_symbolic_extent_is_refused() -> None:
    with pytest.raises(UnrollNotConstant, match=r"cannot unroll 'i'\n  its extent n is not known"):
        unroll(
            parse("""
def copy(n: int32, A: float32[n], C: out float32[n]):
    for i in unrolled(n):
        C[i] = A[i]
""")
        )


def test_too_much_is_refused() -> None:
    with pytest.raises(UnrollTooLarge, match="cannot unroll 'i'\n  1000000 copies of 1 statements"):
        unroll(
            parse("""
def fill(C: out float32[1000000]):
    for i in unrolled(1000000):
        C[i] = 0.0
""")
        )
