"""Extents that are products of symbols: computed in 64 bits, and refused where no memory is that large."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from exported import as_dlpack
from tilewright import te
from tilewright.runtime.abi import Check, pack_status
from tilewright.runtime.errors import ExtentTooLarge, KernelOutOfMemory, SymbolDisagrees
from tilewright.views.sparse import sparse as sparse_array

TARGETS = ["llvm", "c", "interpret"]
AROUND = sorted({(1 << bits) + more for bits in (15, 16) for more in (-1, 0, 1)})


def sparse(count: int, dtype: str = "int8") -> Any:
    """Zeros that take no memory until they are written."""
    return np.asarray(sparse_array((count,), dtype))


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
    found, count = np.zeros(1, "int64"), 300 if target == "interpret" else 1500
    f(np.zeros(count, "int32"), found)
    assert found[0] == count * count
    assert "int64(n) * int64(n)" in f.source("ir"), "not by int32, in which 50,000 * 50,000 is negative"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [3, 2_097_151, 2_097_152, 4_194_304, 5_000_000])
def test_a_product_that_64_bits_do_not_hold_is_an_error(n: int, target: str) -> None:
    """From 2**21 on n * n * n is negative, or 0, or anything, though no memory of that size is asked for."""
    size = te.var("n")
    A = te.placeholder((size,), "int8", name="A")
    T = te.compute((size * size * size,), lambda i: A[i % size] + te.const(1, "int8"), name="T")
    B = te.compute((3,), lambda i: T[i], name="B")
    f = tw.build(te.create_schedule(B.op), [A, B], target=target)
    b = np.zeros(3, "int8")
    if n < 1 << 21:
        f(np.ones(n, "int8"), b)
        assert b.tolist() == [2, 2, 2]
        return
    with pytest.raises(tw.TilewrightError, match=r"the extent .* of T is too large: 64 bits do not hold it"):
        f(np.ones(n, "int8"), b)


def test_a_sum_of_more_terms_than_64_bits_count_is_an_error() -> None:
    """It was a loop of no iterations, and a call that succeeds."""
    n = te.var("n")
    A = te.placeholder((n,), "int8", name="A")
    k = te.reduce_axis((0, n * n * n), "k")
    B = te.compute((1,), lambda _: te.max(A[k % n], axis=k), name="B")
    f = tw.build(te.create_schedule(B.op), [A, B])
    with pytest.raises(tw.CallError, match="of B along k is too large"):
        f(np.ones(1 << 22, "int8"), np.zeros(1, "int8"))


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


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("m", AROUND)
def test_the_ends_of_a_matrix_of_more_elements_than_int32_counts(m: int, target: str) -> None:
    rows, columns = te.var("m"), te.var("n")
    A = te.placeholder((rows, columns), "int8", name="A")
    B = te.compute((3, 5), lambda i, j: A[rows - 1 - i, columns - 5 + j] + A[i, j], name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[1])
    f = tw.build(s, [A, B], target=target)
    a, b = sparse(m * 65537).reshape(m, 65537), np.zeros((3, 5), "int8")
    a[:3, :5], a[-3:, -5:] = 1, np.arange(15).reshape(3, 5)
    f(a, b)
    assert np.array_equal(b, a[-3:, -5:][::-1] + 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [(1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) + 1])
def test_an_extent_of_more_than_int32_takes_a_symbol_of_int64(n: int, target: str) -> None:
    wide = te.var("n", "int64")
    A = te.placeholder((wide,), "int8", name="A")
    T = te.compute((wide,), lambda i: A[i] + 1, name="T")
    B = te.compute((7,), lambda i: T[wide - 1 - i] * 2, name="B")
    s = te.create_schedule(B.op)
    f = tw.build(s, [A, B], target=target)
    a, b = sparse(n), np.zeros(7, "int8")
    a[-7:] = np.arange(7)
    f(a, b)
    assert b.tolist() == [14, 12, 10, 8, 6, 4, 2]
    narrow = te.var("n")
    A = te.placeholder((narrow,), "int8", name="A")
    B = te.compute((7,), lambda i: A[narrow - 1 - i], name="B")
    with pytest.raises(ExtentTooLarge, match="A"):
        tw.build(te.create_schedule(B.op), [A, B], target=target)(a, b)


def end_of_matrix() -> tw.Kernel:
    """The last two elements of a flat square matrix, added to the last of its side."""
    n = te.var("n")
    A = te.placeholder((n * n,), "int8", name="A")
    side = te.placeholder((n,), "int8", name="side")
    B = te.compute((2,), lambda i: A[n * n - 1 - i] + side[n - 1], name="B")
    return tw.build(te.create_schedule(B.op), [A, side, B], name="end")


def test_a_library_takes_extents_around_the_ends_of_int32(tmp_path: Path) -> None:
    path = tmp_path / "libend.so"
    end_of_matrix().export(path)
    library, loaded = ctypes.CDLL(str(path)), tw.load(path)
    for n in (*AROUND, 46340, 46341):
        a, side, b = sparse(n * n), sparse(n), np.zeros(2, "int8")
        a[-2:], side[-1] = [3, 4], 1
        assert library.end_checked(*(ctypes.byref(as_dlpack(x)) for x in (a, side, b))) == 0
        assert b.tolist() == [5, 4]
        b[:] = 0
        loaded(a, side, b)
        assert b.tolist() == [5, 4]
        wrong = a[1:]
        assert library.end_checked(*(ctypes.byref(as_dlpack(x)) for x in (wrong, side, b))) == pack_status(
            Check.SYMBOL, 0, 0
        )
    huge = sparse(1 << 32)
    assert library.end_checked(*(ctypes.byref(as_dlpack(x)) for x in (huge, huge, b))) == pack_status(
        Check.TOO_LARGE, 1, 0
    )


def fourth_power(target: str) -> Callable[..., Any]:
    """A kernel that computes n * n * n * n elements before it reads two of them for each that it returns."""
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    P = te.compute((n, n, n, n), lambda i, j, k, m: A[i] + A[j] + A[k] + A[m], name="P")
    Q = te.compute((n,), lambda i: P[i, n - 1 - i, 0, n - 1] + P[n - 1 - i, i, n - 1, 0], name="Q")
    s = te.create_schedule(Q.op)
    if target.startswith("cuda"):
        s[P].bind(s[P].fuse(*P.op.axis), te.thread_axis("blockIdx.x"))
        s[Q].bind(Q.op.axis[0], te.thread_axis("blockIdx.x"))
    return tw.build(s, [A, Q], target=target)


@pytest.mark.parametrize("target", [*TARGETS, "cuda -emulate"])
def test_an_intermediate_of_a_fourth_power_is_an_error_where_it_overflows(target: str) -> None:
    f = fourth_power(target)
    a, q = np.arange(3, dtype="float32"), np.zeros(3, "float32")
    f(a, q)
    assert q.tolist() == [(i + 2 - i + 0 + 2) * 2.0 for i in range(3)]
    large = sparse(1 << 16, "float32")
    with pytest.raises(KernelOutOfMemory, match="could not get memory"):
        f(large, large.copy())  # (2^16)^4 elements: as many bytes as 2^66, which is 0 in 64 bits


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_of_int32_is_cut_where_int64_says(target: str) -> None:
    """What `n - 1 - x` leaves inside is decided by a comparison of x with an n that int32 does not hold."""
    n, count = te.var("n", "int64"), (1 << 31) + 2
    A = te.placeholder((n,), name="A")
    T = te.compute((n,), lambda i: te.max(A[i], te.const(1.0, "float32")), name="T")
    k = te.reduce_axis((0, 5), "k")
    R = te.compute((5,), lambda i: te.max(T[n - 1 - (i * 5 + k).astype("int64")], axis=k), name="R")
    s = te.create_schedule(R.op)
    s[R].parallel(R.op.axis[0])
    s[T].compute_at(s[R], k)
    a, r = sparse(count, "float32"), np.zeros(5, "float32")
    a[-25:] = np.arange(25, 0, -1)
    tw.build(s, [A, R], target=target)(a, r)
    assert r.tolist() == [5, 10, 15, 20, 25]
