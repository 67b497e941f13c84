"""Loops over the iterations that a guard lets through."""

from __future__ import annotations

import drawn
import numpy as np
import pytest
import tilewright as tw
from same_result import after
from tilewright import te
from tilewright.ir.passes.common.loop_partition import loop_partition
from tilewright.ir.passes.common.simplify import simplify
from tilewright.ir.passes.common.trim_loops import trim_loops


def trimmed(condition: str, around: str = "for j in 4:") -> str:
    return str(
        after(
            f"""
def f(A: float32[8, 32], C: out float32[8, 4]):
    for i in 8:
        for k in 32:
            {around}
                if {condition}:
                    C[i, j] = C[i, j] + A[i, k]
""",
            trim_loops,
            simplify,
        )
    )


def test_a_triangle_takes_the_time_of_a_triangle() -> None:
    text = trimmed("k <= i * 4 + j")
    assert "for k in i * 4 + 4:" in text
    assert "for j in range(max(k - i * 4, 0)" in text and "if " not in text  # and inside, what is left of the row
    vectors = trimmed("k <= i * 4 + j", "for j in vectorized(4):")
    assert "for k in i * 4 + 4:" in vectors and "if k <= i * 4 + j:" in vectors


def test_a_guard_that_is_the_same_for_all_inside_goes() -> None:
    text = trimmed("k < i + 3 and i <= k")
    assert "for k in range(i, extent=3):" in text and "if " not in text
    assert "for k in 3:" in trimmed("k < 3")


@pytest.mark.parametrize("condition", ["likely(k < i * 4)", "k < i or j == 0", "k * k < i", "A[i, j] < 0.0"])
def test_what_bounds_nothing_leaves_the_loop(condition: str) -> None:
    assert "for k in 32:" in trimmed(condition)


def test_statements_beside_the_guarded_one_run_in_every_iteration() -> None:
    text = str(
        after(
            """
def f(A: float32[8, 32], C: out float32[8, 32]):
    for i in 8:
        for k in 32:
            C[i, k] = A[i, k]
            if k <= i:
                C[i, k] = C[i, k] + 1.0
""",
            trim_loops,
        )
    )
    assert "for k in 32:" in text


@pytest.mark.parametrize("case", range(drawn.count(40, 4000)))
def test_drawn_guards(case: int) -> None:
    rng = drawn.rng("trimmed loops", case)

    def some(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    signs = ["<", "<=", ">", ">="]
    guards = " and ".join(
        f"k * {some(-3, 4)} + i * {some(-2, 3)} + j * {some(-2, 3)} + n * {some(-1, 2)} {rng.choice(signs)} {some(-8, 9)}"
        for _ in range(some(1, 4))
    )
    begin, extent, width = some(0, 4), some(0, 12), some(0, 4)
    after(
        f"""
def drawn{case}(n: int32, A: float32[16], C: out float32[5, 4]):
    for i in 5:
        for k in range({begin}, extent={extent}):
            for j in {width}:
                if {guards}:
                    C[i, j] = C[i, j] * 2.0 + A[k]
""",
        trim_loops,
        simplify,
        loop_partition,
        simplify,
        n=some(-4, 9),
    )


@pytest.mark.parametrize("target", ["llvm", "c", "interpret"])
def test_a_triangular_product(target: str) -> None:
    n, m = 37, 5
    a, x = te.placeholder((n, n), name="a"), te.placeholder((n, m), name="x")
    k = te.reduce_axis((0, n), "k")
    y = te.compute((n, m), lambda i, j: te.sum(a[i, k] * x[k, j], axis=k, where=k <= i), "y")
    f = tw.build([a, x, y], target=target)
    given = drawn.normal(drawn.rng("triangle"), n, n), drawn.normal(drawn.rng("triangle", 1), n, m)
    got = np.empty((n, m), "float32")
    f(*given, got)
    np.testing.assert_allclose(got, np.tril(given[0]) @ given[1], rtol=1e-4, atol=1e-5)
