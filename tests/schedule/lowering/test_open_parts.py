"""Parts of loops whose sizes are known when a kernel is called: what is computed for them, and parts that hold nothing."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


@pytest.mark.parametrize("factor", [1, 5, 8, 64, "s"])
def test_rows_that_a_part_of_fused_open_axes_reads(factor) -> None:
    m, n, s = te.size_var("m"), te.size_var("n"), te.var("s")
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((m, n), lambda i, j: B[i, j] * 2.0, name="C")
    schedule = te.create_schedule(C.op)
    outer, _ = schedule[C].split(schedule[C].fuse(*C.op.axis), s if factor == "s" else factor)
    schedule[B].compute_at(schedule[C], outer)
    schedule[C].parallel(outer)
    kernel = tw.build(schedule, [A, C, *([s] if factor == "s" else [])])
    if factor == 8:
        rows = next(line for line in str(schedule).split("\n") if "for i in" in line)
        assert rows.strip() == (
            "for i in int32((i.j.fused.outer * 8 + 7) // int64(n)) - int32(i.j.fused.outer * 8 // int64(n)) + 1:"
        )
    for shape in ((5, 7), (0, 7), (7, 0), (0, 0), (1, 100), (100, 1), (3, 64)):
        a, c = np.random.default_rng(0).random(shape, "float32"), np.empty(shape, "float32")
        kernel(a, c, *([3] if factor == "s" else []))
        assert np.array_equal(c, (a + 1) * 2)


@pytest.mark.parametrize("named", ["factor", "nparts"])
def test_a_part_of_open_size_that_holds_nothing_is_an_error_of_the_call(named) -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], **{named: n // 4})
    kernel = tw.build(s, [A, B])
    for count in (0, 4, 17):
        a, b = np.arange(count, dtype="float32"), np.full(count, 7, "float32")
        kernel(a, b)
        assert np.array_equal(b, a * 2)
    with pytest.raises(tw.CallError, match=r"i of B is split by n // 4, which is less than 1"):
        kernel(np.zeros(3, "float32"), np.zeros(3, "float32"))
