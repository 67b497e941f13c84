"""clone_in: a tensor that some readers compute for themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


def sums(n: int) -> Any:
    """B, row sums of A, which two loop nests read."""
    A = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), "B")
    C = te.compute((n,), lambda i: B[i] + 1, "C")
    D = te.compute((n,), lambda i: B[i] * 2, "D")
    return A, B, C, D


@pytest.mark.parametrize("n", [0, 1, 13])
def test_each_reader_has_its_own_near(n: int) -> None:
    A, B, C, D = sums(n)
    s = te.create_schedule([C, D])
    again = s.clone_in(B, D)
    assert again.name == "B.clone" and s[D].op.input_tensors == (again,) and s[C].op.input_tensors == (B,)
    s[B].compute_at(s[C], C.op.axis[0])
    outer, _ = s[D].split(D.op.axis[0], factor=4)
    s[again].compute_at(s[D], outer)
    s[again].unroll(s[again].op.reduce_axis[0]) if n else None
    assert s[again].op.reduce_axis[0] is not s[B].op.reduce_axis[0]
    a = np.random.default_rng(0).integers(-9, 9, (n, n)).astype(np.float32)
    c, d = np.zeros(n, np.float32), np.zeros(n, np.float32)
    tw.build(s, [A, C, D])(a, c, d)
    np.testing.assert_array_equal(c, a.sum(1) + 1)
    np.testing.assert_array_equal(d, a.sum(1) * 2)


def test_it_is_replayed_and_written_down() -> None:
    A, B, C, D = sums(6)
    s = te.create_schedule([C, D])
    again = s.clone_in(B, [s[D]])
    s[again].compute_at(s[D], D.op.axis[0])
    assert str(te.Schedule.replay(s.trace, [C, D])) == str(s)
    assert "B_clone = s.clone_in(B.output(0), [s[D]]).op" in s.as_python()


def test_several_outputs_domains_that_depend_and_stages_changed_before() -> None:
    A = te.placeholder((9, 9), name="A")
    k = te.reduce_axis((0, 9), "k")
    argmax = te.comm_reducer(
        lambda a, b: (te.select(a[1] >= b[1], a[0], b[0]), te.max(a[1], b[1])),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
        "argmax",
    )
    where, value = te.compute((9,), lambda i: argmax((k, A[i, k]), axis=k), "M")
    C = te.compute((9,), lambda i: where[i] + 1, "C")
    D = te.compute((9,), lambda i: value[i] - where[i].astype("float32"), "D")
    s = te.create_schedule([C, D])
    s[where].split(k, factor=4)
    again = s.clone_in([where, value], D)
    assert [one.name for one in again] == [one.name for one in s[again[0]].op.outputs]
    s[again[0]].compute_at(s[D], D.op.axis[0])
    a = np.random.default_rng(0).permutation(81).reshape(9, 9).astype(np.float32)
    c, d = np.zeros(9, np.int32), np.zeros(9, np.float32)
    tw.build(s, [A, C, D])(a, c, d)
    np.testing.assert_array_equal(c, a.argmax(1) + 1)
    np.testing.assert_array_equal(d, a.max(1) - a.argmax(1))


def test_a_triangle_whose_rows_have_their_own_length() -> None:
    A = te.placeholder((7, 7), name="A")

    def row(i: Any) -> Any:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(A[i, k], axis=k)

    B = te.compute((7,), row, "B")
    C, D = te.compute((7,), lambda i: B[i] + 1, "C"), te.compute((7,), lambda i: B[6 - i], "D")
    s = te.create_schedule([C, D])
    again = s.clone_in(B, C)
    s[again].compute_at(s[C], C.op.axis[0])
    a = np.random.default_rng(0).integers(-9, 9, (7, 7)).astype(np.float32)
    c, d = np.zeros(7, np.float32), np.zeros(7, np.float32)
    tw.build(s, [A, C, D])(a, c, d)
    np.testing.assert_array_equal(c, np.tril(a).sum(1) + 1)
    np.testing.assert_array_equal(d, np.tril(a).sum(1)[::-1])
