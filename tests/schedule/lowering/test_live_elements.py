"""Stages within loops that are arguments too: what a caller gets of them, and how often it is computed."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


def chain(rows: int, reach: int) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    A = te.placeholder((rows + reach, 5), name="A")
    B = te.compute((rows + reach, 5), lambda i, j: A[i, j] + 1, name="B")
    return A, B, te.compute((rows, 5), lambda i, j: B[i, j] * 2 + B[i + reach, j], name="C")


def test_an_argument_is_computed_part_by_part_where_the_parts_are_all_of_it() -> None:
    """All of it was computed for each of the parts."""
    A, B, C = chain(10, 0)
    s = te.create_schedule(C)
    rows, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], rows)
    assert "    for i.outer in 3:\n        for i in 4:\n" in str(tw.lower(s, [A, B, C]))


def test_what_no_part_needs_is_computed_too() -> None:
    A = te.placeholder((9,), name="A")
    B = te.compute((9,), lambda i: A[i] + 1, name="B")
    C = te.compute((4,), lambda i: B[2 * i], name="C")
    s = te.create_schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    b, c = np.zeros(9, "float32"), np.zeros(4, "float32")
    tw.build(s, [A, B, C])(np.arange(9, dtype="float32"), b, c)
    assert b.tolist() == [*range(1, 10)] and c.tolist() == [1, 3, 5, 7]


@pytest.mark.parametrize("rows, factor, reach", [(1, 3, 0), (7, 4, 1), (10, 3, 2), (16, 8, 0)])
@pytest.mark.parametrize("how", ["serial", "parallel", "fused", "reversed"])
def test_every_element_is_there(rows: int, factor: int, reach: int, how: str) -> None:
    A, B, C = chain(rows, reach)
    s = te.create_schedule(C)
    i, j = C.op.axis
    outer, _ = s[C].split(s[C].fuse(i, j) if how == "fused" else i, factor)
    if how == "parallel":
        s[C].parallel(outer)
    elif how == "reversed":
        s[C].reorder(j, outer)
    s[B].compute_at(s[C], outer)
    a = np.random.default_rng(0).random((rows + reach, 5), "float32")
    b, c = np.full_like(a, np.nan), np.full((rows, 5), np.nan, "float32")
    tw.build(s, [A, B, C])(a, b, c)
    np.testing.assert_array_equal(b, a + 1)
    np.testing.assert_array_equal(c, (a + 1)[:rows] * 2 + (a + 1)[reach:])


def test_threads_store_a_part_each() -> None:
    """Each stored all of it: a race."""
    A, B, C = chain(7, 0)
    s = te.create_schedule(C)
    block, _, row, column = s[C].tile(*C.op.axis, 4, 5)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(row, te.thread_axis("threadIdx.y"))
    s[C].bind(column, te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], column)
    a = np.random.default_rng(0).random((7, 5), "float32")
    b, c = np.zeros_like(a), np.zeros_like(a)
    tw.build(s, [A, B, C], target="cuda -emulate")(a, b, c)
    np.testing.assert_array_equal(b, a + 1)
    np.testing.assert_array_equal(c, (a + 1) * 2 + (a + 1))
