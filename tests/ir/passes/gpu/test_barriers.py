"""Barriers: none where threads of a block meet in no element, however that is told."""

from __future__ import annotations

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.te.hybrid import output_tensor


@te.hybrid.script
def largest_so_far(a, b):  # type: ignore[no-untyped-def]
    c = output_tensor((5, 3), "float32")
    for i in range(5):
        for j in range(3):
            c[i, j] = a[i]
    for i in range(5):
        for j in range(3):
            for k in range(j + 1):
                c[i, j] = max(b[k], c[i, j])
    return c


def test_a_quotient_and_a_remainder_together_tell_the_thread() -> None:
    """The innermost loop is as long as the thread says, and no barrier could stand in it."""
    A, B = te.placeholder((5,), name="A"), te.placeholder((3,), name="B")
    C = largest_so_far(A, B)
    s = tw.autoschedule.schedule([C], "cuda -emulate")
    kernel = tw.build(s, [A, B, C], target="cuda -emulate")
    rng = np.random.default_rng(0)
    a, b, c = (
        rng.standard_normal(5).astype("float32"),
        rng.standard_normal(3).astype("float32"),
        np.empty((5, 3), "float32"),
    )
    kernel(a, b, c)
    np.testing.assert_array_equal(c, np.maximum(a[:, None], np.maximum.accumulate(b)))


@te.hybrid.script
def sorted_rows(a):  # type: ignore[no-untyped-def]
    c = output_tensor((5, 6), "float32")
    for i in range(5):
        for j in range(6):
            c[i, j] = a[i, j]
        for _ in range(6):
            for j in range(5):
                if c[i, j + 1] < c[i, j]:
                    t = c[i, j]
                    c[i, j] = c[i, j + 1]
                    c[i, j + 1] = t
    return c


def test_the_row_tells_the_thread_whatever_the_column() -> None:
    A = te.placeholder((5, 6), name="A")
    C = sorted_rows(A)
    kernel = tw.build(tw.autoschedule.schedule([C], "cuda -emulate"), [A, C], target="cuda -emulate")
    assert "__syncthreads" not in kernel.source("cuda")
    a, c = np.random.default_rng(1).standard_normal((5, 6)).astype("float32"), np.empty((5, 6), "float32")
    kernel(a, c)
    np.testing.assert_array_equal(c, np.sort(a, 1))


@te.hybrid.script
def one_sorted_row(a):  # type: ignore[no-untyped-def]
    c = output_tensor((1, 9), "float32")
    for i in range(1):
        for j in range(9):
            c[i, j] = a[i, j]
        for _ in range(9):
            for j in range(8):
                if c[i, j + 1] < c[i, j]:
                    t = c[i, j]
                    c[i, j] = c[i, j + 1]
                    c[i, j + 1] = t
    return c


def test_what_the_least_thread_does_alone_needs_no_barrier() -> None:
    A = te.placeholder((1, 9), name="A")
    C = one_sorted_row(A)
    D = te.compute((1, 9), lambda i, j: C[i, j] + 1.0, name="D")
    kernel = tw.build(tw.autoschedule.schedule([D], "cuda -emulate"), [A, D], target="cuda -emulate")
    a, d = np.random.default_rng(2).standard_normal((1, 9)).astype("float32"), np.empty((1, 9), "float32")
    kernel(a, d)
    np.testing.assert_array_equal(d, np.sort(a, 1) + 1)
