"""Scripts by rule: loops parted and interchanged so that what lies side by side is innermost, sums in lanes, every bit kept where that is
asked for."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te, topi
from tilewright.te.hybrid import allocate, output_tensor, script


def factored(n: int) -> Any:
    """A script: the factors of a matrix by the modified method of Gram and Schmidt."""

    @script
    def orthogonal(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        q = output_tensor((n, n), "float32")
        r = output_tensor((n, n), "float32")
        a = allocate((n, n), "float32")
        for i in range(n):
            for j in range(n):
                a[i, j] = A[i, j]
        for k in range(n):
            for i in range(n):
                r[k, k] = r[k, k] + a[i, k] * a[i, k]
            r[k, k] = sqrt(r[k, k])  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
            for i in range(n):
                q[i, k] = a[i, k] / r[k, k]
            for j in range(k + 1, n):
                for i in range(n):
                    r[k, j] = r[k, j] + q[i, k] * a[i, j]
                for i in range(n):
                    a[i, j] = a[i, j] - q[i, k] * r[k, j]
        return q, r

    return orthogonal


def multiplied(n: int, m: int, depth: int) -> Any:
    """A script: a product of matrices, row by column."""

    @script
    def multiply(A, B):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        c = output_tensor((n, m), "float32")
        for i in range(n):
            for j in range(m):
                c[i, j] = 0.5
                for k in range(depth):
                    c[i, j] = c[i, j] + A[i, k] * B[k, j]
        return c

    return multiply


def transposed_sum(n: int, m: int) -> Any:
    """A script: sums of columns, column by column."""

    @script
    def sums(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        y = output_tensor((m,), "float32")
        for j in range(m):
            for i in range(n):
                y[j] = y[j] + A[i, j]
        return y

    return sums


def decomposed(n: int) -> Any:
    """A script: the factor of a symmetric matrix by Cholesky's method, and the solution of a system with it."""

    @script
    def solved(A, b):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        a = output_tensor((n, n), "float32")
        x = output_tensor((n,), "float32")
        for i in range(n):
            for j in range(n):
                a[i, j] = A[i, j]
        for i in range(n):
            for j in range(i):
                for k in range(j):
                    a[i, j] = a[i, j] - a[i, k] * a[j, k]
                a[i, j] = a[i, j] / a[j, j]
            for k in range(i):
                a[i, i] = a[i, i] - a[i, k] * a[i, k]
            a[i, i] = sqrt(a[i, i])  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
            x[i] = b[i]
            for j in range(i):
                x[i] = x[i] - a[i, j] * x[j]
            x[i] = x[i] / a[i, i]
        return a, x

    return solved


def upper(n: int) -> Any:
    """A script: sums over rows before, in the columns from the diagonal on, which each row's terms are not among."""

    @script
    def summed(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        a = output_tensor((n, n), "float32")
        for i in range(n):
            for j in range(n):
                a[i, j] = A[i, j]
        for i in range(n):
            for j in range(i, n):
                for k in range(i):
                    a[i, j] = a[i, j] - a[i, k] * a[k, j]
        return a

    return summed


def eliminated(n: int) -> Any:
    """A script: LU row by row, each element by a number with a name, a product with a symmetric matrix, and shortest ways downwards."""

    @script
    def eliminate(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        a = output_tensor((n, n), "float32")
        c = output_tensor((n, n), "float32")
        d = output_tensor((n, n), "float32")
        for i in range(n):
            for j in range(n):
                a[i, j] = A[i, j]
        for i in range(n):
            for j in range(i):
                w = a[i, j]
                for k in range(j):
                    w = w - a[i, k] * a[k, j]
                a[i, j] = w / a[j, j]
            for j in range(i, n):
                for k in range(i):
                    a[i, j] = a[i, j] - a[i, k] * a[k, j]
        for i in range(n):
            for j in range(n):
                t = 0.0
                for k in range(i):
                    c[k, j] = c[k, j] + A[i, j] * A[i, k]
                    t = t + A[k, j] * A[i, k]
                c[i, j] = c[i, j] + A[i, j] * A[i, i] + t
        for i in range(1, n):
            for j in range(n):
                d[i, j] = A[i, j] + min(d[i - 1, max(j - 1, 0)], d[i - 1, min(j + 1, n - 1)])
        return a, c, d

    return eliminate


def compared(make: Any, inputs: list[tuple[int, ...]], rng: np.random.Generator) -> Any:
    """The schedule of a script by the rules, after its results were compared bit by bit with those of the script as it is."""
    args = [te.placeholder(shape, name=f"A{at}") for at, shape in enumerate(inputs)]
    made = make(*args)
    outs = [made] if isinstance(made, te.Tensor) else list(made)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in inputs]
    s = tw.autoschedule.schedule(outs[0].op, exact=True)
    results = list[bytes]()
    for each, target in ((te.create_schedule(outs[0].op), "interpret"), (s, "llvm")):
        got = [np.empty([int(str(extent)) for extent in tensor.shape], "float32") for tensor in outs]
        tw.build(each, [*args, *outs], target=target)(*arrays, *got)
        results.append(b"".join(array.tobytes() for array in got))
    assert results[0] == results[1] and s.is_exact
    return s


@pytest.mark.parametrize("n", [1, 2, 7, 33])
def test_columns_are_factored_row_by_row(n: int) -> None:
    s = compared(factored(n), [(n, n)], drawn.rng("factored"))
    if n > 1:
        assert sum(record.primitive == "fission" for record in s.records) == 1
        assert sum(record.primitive == "reorder" for record in s.records) == 2


@pytest.mark.parametrize("n", [1, 2, 7, 41])
def test_numbers_with_names_and_triangles_do_not_keep_loops_from_rows(n: int) -> None:
    s = compared(eliminated(n), [(n, n)], drawn.rng("eliminated"))
    if n > 2:
        used = [record.primitive for record in s.records]
        assert used.count("sink") == 1 and used.count("fission") >= 2
        assert "with unroll_and_jam=1" in str(s) and "with loop_partition_hint=1" in str(s)
        A = te.placeholder((n, n), name="A")
        wide = tw.autoschedule.schedule(list(eliminated(n)(A)), "llvm -mcpu=haswell -cores=1", exact=True)
        assert [record.primitive for record in wide.records] == used  # what is innermost now is left to LLVM's vectors


def test_products_and_sums_have_rows_innermost() -> None:
    for case in range(drawn.count(4, 100)):
        rng = drawn.rng("rows innermost", case)
        n, m, depth = (int(rng.choice((2, 3, 8, 17, 31, 70, 130))) for _ in range(3))
        s = compared(multiplied(n, m, depth), [(n, depth), (depth, m)], rng)
        assert [record.primitive for record in s.records][:2] == ["fission", "reorder"]
        for make, shape in ((transposed_sum(n, m), (n, m)), (upper(n), (n, n))):
            s = compared(make, [shape], rng)
            assert any(record.primitive == "reorder" for record in s.records)


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=haswell"))
def test_sums_are_added_by_lanes_unless_they_keep_their_order(target: str) -> None:
    for n in (1, 2, 7, 33, 90):
        rng = drawn.rng("decomposed", n)
        args = [te.placeholder((n, n), name="A"), te.placeholder((n,), name="b")]
        outs = list(decomposed(n)(*args))
        half = rng.standard_normal((n, n))
        arrays = [(half @ half.T + n * np.eye(n)).astype("float32"), rng.standard_normal(n).astype("float32")]
        results = list[list[np.ndarray]]()
        for exact in (None, True, False):
            s = te.create_schedule(outs[0].op) if exact is None else tw.autoschedule.schedule(outs, target, exact=exact)
            assert bool(s.is_exact) is (exact is not False)
            results.append([np.empty((n, n), "float32"), np.empty(n, "float32")])
            tw.build(s, [*args, *outs], target=target)(*arrays, *results[-1])
        for declared, kept, fast in zip(*results, strict=True):
            assert declared.tobytes() == kept.tobytes()
            np.testing.assert_allclose(fast, declared, rtol=1e-4, atol=1e-5)


def diffused(n: int, m: int) -> Any:
    """A script: differences of neighbours, limited, and their differences, in nests after each other."""

    @script
    def diffuse(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        c = output_tensor((n, m), "float32")
        lap = allocate((n + 2, m), "float32")
        flux = allocate((n + 1, m), "float32")
        for i in range(n + 2):
            for j in range(m):
                lap[i, j] = 2.0 * A[i + 1, j] - (A[i, j] + A[i + 2, j])
        for i in range(n + 1):
            for j in range(m):
                if (lap[i + 1, j] - lap[i, j]) * (A[i + 2, j] - A[i + 1, j]) > 0.0:
                    flux[i, j] = 0.0
                else:
                    flux[i, j] = lap[i + 1, j] - lap[i, j]
        for i in range(n):
            for j in range(m):
                c[i, j] = A[i + 2, j] - 0.5 * (flux[i + 1, j] - flux[i, j])
        return c

    return diffuse


def test_loops_over_rows_are_merged_where_that_takes_less_time() -> None:
    for n, m in ((1, 3), (7, 2), (17, 40)):  # whatever the estimate says of so few
        compared(diffused(n, m), [(n + 4, m)], drawn.rng("diffused", n))
    A = te.placeholder((2004, 1000), name="A")
    for cores, merges in ((1, 2), (64, 0)):
        s = tw.autoschedule.schedule(diffused(2000, 1000)(A), f"llvm -mcpu=haswell -cores={cores}", exact=True)
        used = [record.primitive for record in s.records]
        assert (used.count("merge"), used.count("contract")) == (merges, merges // 2), s.plan
        assert ("merged loops" in str(s.plan)) == bool(merges), s.plan


def permuted(n: int, steps: int) -> Any:
    """A script: elements that are added to in an order that only arithmetic modulo `n` tells apart, again in each of some steps."""

    @script
    def added(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        d = output_tensor((n,), "int32")
        for k in range(steps):
            for i in range(n):
                d[(i * 2 + k) % n] = d[(i * 2 + k) % n] * 3 + A[(i * 2 + k) % n]
                d[(i * 2 + k) % n] = d[(i * 2 + k) % n] % 97
        return d

    return added


def test_threads_take_the_word_of_the_proof_that_shares_a_loop() -> None:
    """No barrier where guards keep some threads off, since no two iterations meet; one from step to step, whose threads do."""
    A = te.placeholder((7,), "int32", name="A")
    given = drawn.rng("permuted", 0).integers(-9, 9, 7).astype("int32")
    for steps, by_rule in ((1, True), (3, False)):
        made = permuted(7, steps)(A)
        s = tw.autoschedule.schedule([made], "cuda -emulate") if by_rule else te.create_schedule(made.op)
        if not by_rule:
            s[made].bind(made.op.axis[1], te.thread_axis("threadIdx.x"))
        kernel = tw.build(s, [A, made], target="cuda -emulate")
        result = np.full(7, 77, "int32")
        kernel(given, result)
        np.testing.assert_array_equal(result, permuted(7, steps)(given))
        *_, body = kernel.source("cuda").split("__global__")  # after the kernel that stores zeros
        assert ("__syncthreads" in body or "tw_barrier" in body) == (steps > 1), body


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=haswell"))
def test_iterations_around_loops_that_carry_something_are_lanes(target: str) -> None:
    rng = drawn.rng("searched")
    n, m = int(rng.integers(1, 1000)), int(rng.integers(64, 200))
    a, v = te.placeholder((n,), "int32", name="a"), te.placeholder((m,), "int32", name="v")
    places = topi.searchsorted(a, v, out_dtype="int32")
    s = tw.autoschedule.schedule([places], f"{target} -cores=1")
    assert any(record.primitive == "vectorize" for record in s.records)
    rows, values = np.sort(rng.integers(-99, 99, n).astype("int32")), rng.integers(-110, 110, m).astype("int32")
    got = np.empty(m, "int32")
    tw.build(s, [a, v, places], f"{target} -cores=1")(rows, values, got)
    np.testing.assert_array_equal(got, np.searchsorted(rows, values))
