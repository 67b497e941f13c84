"""Sums of which a guard leaves out some lanes, in memory of the function's own."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen.target import Target


@pytest.mark.skipif(Target().architecture != "x86_64", reason="looks at code for x86-64")
def test_sums_of_some_lanes_are_registers_and_leave_the_others_alone() -> None:
    """Lanes that a guard leaves out, which nobody else sees, are blended: a masked store would be memory in each step."""
    n = te.var("n")
    a, b = te.placeholder((4, 9), name="A"), te.placeholder((9, n), name="B")
    k = te.reduce_axis((0, 9), "k")
    c = te.compute((4, n), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="C")

    def built(target: str) -> tw.Kernel:
        s = te.create_schedule(c.op)
        sums = s[s.cache_write(c, "local")]
        i, j = s[c].op.axis
        tiles, j = s[c].split(j, factor=16)
        s[c].reorder(tiles, i, j)
        sums.compute_at(s[c], tiles)
        sums.reorder(*sums.op.reduce_axis, *sums.op.axis)
        for stage, rows, lanes in ((s[c], i, j), (sums, *sums.op.axis)):
            stage.unroll(rows)
            stage.vectorize(lanes)
        return tw.build(s, [a, b, c], target=target)

    text = built("llvm -mcpu=haswell").source("llvm")
    assert text.count("call void @llvm.masked.store") == 4, "a row of the result each, and no sum"
    kernel, rng = built("llvm"), np.random.default_rng(0)
    for wide in (1, 15, 16, 17, 43):
        left, right, out = (
            rng.random((4, 9), "float32"),
            rng.random((9, wide), "float32"),
            np.full((4, wide), np.nan, "float32"),
        )
        kernel(left, right, out)
        np.testing.assert_allclose(out, left @ right, rtol=1e-5)


def test_a_tail_of_one_lane_is_one_element_and_no_loop_of_questions() -> None:
    a, b = te.placeholder((8, 5), name="A"), te.placeholder((5, 65), name="B")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((8, 65), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="C")
    s = te.create_schedule(c.op)
    tiles, lanes = s[c].split(c.op.axis[1], factor=32)
    s[c].reorder(tiles, c.op.axis[0], k, lanes)
    s[c].vectorize(lanes)
    kernel = tw.build(s, [a, b, c])
    assert "j.inner" not in kernel.source("ir"), "the 65th column is computed alone"
    rng, out = np.random.default_rng(0), np.full((8, 65), np.nan, "float32")
    left, right = rng.random((8, 5), "float32"), rng.random((5, 65), "float32")
    kernel(left, right, out)
    np.testing.assert_allclose(out, left @ right, rtol=1e-5)
