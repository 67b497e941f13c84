"""Loops whose iterations store to elements of their own, though they read the buffer elsewhere: LLVM is told, and values stay."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.te.hybrid import output_tensor, script


def shifted(rows: int, columns: int, at: tuple[int, int, int, int]) -> Any:
    """A script that stores rows of a matrix from other rows and columns of it, `at` by how much they lie apart."""
    down, right, row, column = at

    @script
    def moved(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        a = output_tensor((rows + 4, columns + 4), "float32")
        for i in range(rows + 4):
            for j in range(columns + 4):
                a[i, j] = A[i, j]
        for i in range(rows):
            for j in range(columns):
                a[i + row, j + column] = a[i + row, j + column] * 0.5 + a[i + down, j + right] * A[i, columns - j]
        return a

    return moved


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=x86-64-v2"))
def test_drawn_loops_over_one_matrix_have_the_values_of_the_interpreter(target: str) -> None:
    for case in range(drawn.count(12, 400)):
        rng = drawn.rng(f"shifted {target}", case)
        rows, columns = (int(rng.choice((1, 2, 7, 16, 17, 33))) for _ in range(2))
        at = tuple(int(n) for n in rng.integers(0, 5, 4))
        A = te.placeholder((rows + 4, columns + 4), name="A")
        B = shifted(rows, columns, (at[0], at[1], at[2], at[3]))(A)
        values = rng.integers(-2, 3, (rows + 4, columns + 4)).astype("float32")
        results = [np.empty_like(values) for _ in range(2)]
        for result, built in zip(results, (target, "interpret"), strict=True):
            tw.build(te.create_schedule(B.op), [A, B], target=built)(values, result)
        assert np.array_equal(*results, equal_nan=True), (rows, columns, at)


def eliminated(n: int) -> Any:
    """A script: elimination without pivots."""

    @script
    def eliminate(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        a = output_tensor((n, n), "float32")
        for i in range(n):
            for j in range(n):
                a[i, j] = A[i, j]
        for k in range(n):
            for i in range(k + 1, n):
                a[i, k] = a[i, k] / a[k, k]
                for j in range(k + 1, n):
                    a[i, j] = a[i, j] - a[i, k] * a[k, j]
        return a

    return eliminate


@pytest.mark.parametrize("n", [1, 2, 31, 65])
def test_elimination_runs_in_vectors(n: int) -> None:
    A = te.placeholder((n, n), name="A")
    B = eliminated(n)(A)
    f = tw.build(te.create_schedule(B.op), [A, B])
    assert ("llvm.loop.parallel_accesses" in f.source("llvm")) == (n > 2)
    values = drawn.rng("elimination").standard_normal((n, n)).astype("float32") + 4 * np.eye(n, dtype="float32")
    result, want = np.empty_like(values), values.copy()
    f(values, result)
    for k in range(n):
        want[k + 1 :, k] /= want[k, k]
        want[k + 1 :, k + 1 :] -= np.outer(want[k + 1 :, k], want[k, k + 1 :])
    np.testing.assert_allclose(result, want, rtol=1e-3, atol=1e-4)


def test_a_row_that_may_be_the_one_that_is_stored_to_is_no_such_loop() -> None:
    A = te.placeholder((40, 40), name="A")

    @script
    def shortest(A, P):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        a = output_tensor((40, 40), "float32")
        for i in range(40):
            for j in range(40):
                a[i, j] = A[i, j]
        for k in range(40):
            for i in range(40):
                for j in range(40):
                    a[i, j] = a[i, j] + a[i, k] * a[P[k], 39 - j]
        return a

    P = te.placeholder((40,), "int32", "P")
    B = shortest(A, P)
    assert "parallel_accesses" not in tw.build(te.create_schedule(B.op), [A, P, B]).source("llvm")
