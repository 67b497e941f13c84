"""Extents that are products of symbols: computed in 64 bits, and refused where no memory is that large."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.runtime.errors import KernelOutOfMemory, SymbolDisagrees

TARGETS = ["llvm", "c"]


def sparse(count: int, dtype: str = "int8") -> Any:
    """Zeros that take no memory until they are written."""
    size = max(count * np.dtype(dtype).itemsize, 1)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, dtype, count)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [3, 46340, 46341, 50_000, (1 << 16) + 1])
def test_a_diagonal_of_more_elements_than_int32_counts(n: int, target: str) -> None:
    size = te.var("n")
    A = te.placeholder((size * size,), "int8", name="A")
    D = te.compute((size,), lambda i: A[i * size + i], name="D")
    f = tw.build(te.create_schedule(D.op), [A, D], target=target)
    a, d = sparse(n * n), np.full(n, 9, "int8")
    a[:: n + 1][-3:] = [5, 6, 7]
    f(a, d)
    assert d[-3:].tolist() == [5, 6, 7] and not d[:-3].any()


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_of_more_iterations_than_int32_counts(target: str) -> None:
    """50,000 * 50,000 iterations that do nothing but for the last ones: the rows of what is not read are skipped."""
    n = te.var("n")
    X = te.placeholder((n,), "int32", name="X")
    k = te.reduce_axis((0, n * n), "k")
    C = te.compute((1,), lambda _: te.sum(te.const(1, "int64") + X[k % n].astype("int64") * 0, axis=k), name="C")
    f = tw.build(te.create_schedule(C.op), [X, C], target=target)
    found = np.zeros(1, "int64")
    f(np.zeros(1500, "int32"), found)
    assert found[0] == 1500 * 1500
    assert "int64(n) * int64(n)" in f.source("ir"), "not by int32, in which 50,000 * 50,000 is negative"


@pytest.mark.parametrize("target", TARGETS)
def test_an_intermediate_that_no_memory_holds_is_an_error(target: str) -> None:
    m, n, o = te.var("m"), te.var("n"), te.var("o")
    A, B, C = (te.placeholder((extent,), name=name) for extent, name in ((m, "A"), (n, "B"), (o, "C")))
    P = te.compute((m, n, o), lambda i, j, k: A[i] + B[j] + C[k], name="P")
    Q = te.compute((m, n, o), lambda i, j, k: P[i, j, k] * P[m - 1 - i, n - 1 - j, o - 1 - k], name="Q")
    axes = [te.reduce_axis((0, extent), name) for extent, name in ((m, "x"), (n, "y"), (o, "z"))]
    S = te.compute((1,), lambda _: te.sum(Q[tuple(axes)], axis=axes), name="S")
    f = tw.build(te.create_schedule(S.op), [A, B, C, S], target=target)
    s = np.zeros(1, "float32")
    f(np.ones(2, "float32"), np.ones(3, "float32"), np.ones(5, "float32"), s)
    assert s[0] == 270
    large = sparse(1 << 22, "float32")
    with pytest.raises(KernelOutOfMemory, match="could not get memory"):
        f(large, large, large, s)  # 2^66 elements: as many bytes as 2^68, which is 0 in 64 bits


@pytest.mark.parametrize("target", TARGETS)
def test_a_shape_that_overflows_fits_no_array(target: str) -> None:
    n = te.var("n")
    A = te.placeholder((n,), "int8", name="A")
    B = te.compute((n * n * n * n,), lambda i: A[i % n], name="B")
    f = tw.build(te.create_schedule(B.op), [A, B], target=target)
    b = np.zeros(16, "int8")
    f(np.array([3, 4], "int8"), b)
    assert b.tolist() == [3, 4] * 8
    with pytest.raises(SymbolDisagrees, match="B"):
        f(np.zeros(1 << 16, "int8"), np.zeros(0, "int8"))  # (2^16)^4 is 0 in 64 bits
