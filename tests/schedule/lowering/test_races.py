"""Arguments that are summed up within another stage's loops, whose iterations run at the same time."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


def program(halo):
    """Row sums and what reads them, both arguments."""
    A = te.placeholder((64 + halo, 24 + halo, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    B = te.compute((64 + halo, 24 + halo), lambda i, j: te.sum(A[i, j, k], axis=k), name="B")
    C = te.compute((64, 24), lambda i, j: B[i, j] + B[i + halo, j + halo], name="C")
    return A, B, C


def attached(halo, fused, annotate):
    A, B, C = program(halo)
    s = te.create_schedule(C.op)
    outer, across, inner, _ = s[C].tile(*C.op.axis, 8, 5)
    loop = s[C].fuse(outer, across) if fused else across
    annotate(s, C, loop, outer, inner)
    s[B].compute_at(s[C], loop)
    return s, [A, B, C]


@pytest.mark.parametrize("fused", [True, False])
def test_parts_that_are_apart_are_summed_in_parallel(fused) -> None:
    s, arguments = attached(0, fused, lambda s, C, loop, outer, _: s[C].parallel(loop if fused else outer))
    a = np.random.default_rng(0).random((64, 24, 8), "float32")
    b, c = np.empty((64, 24), "float32"), np.empty((64, 24), "float32")
    tw.build(s, arguments)(a, b, c)
    np.testing.assert_allclose(b, a.sum(2), rtol=1e-6)
    np.testing.assert_allclose(c, 2 * a.sum(2), rtol=1e-6)


@pytest.mark.parametrize("fused", [True, False])
def test_overlapping_parts_are_refused(fused) -> None:
    for halo in (1, 3):
        s, arguments = attached(halo, fused, lambda s, C, loop, outer, _: s[C].parallel(loop if fused else outer))
        with pytest.raises(tw.LoweringError, match=r"TW0344: cannot lower: B is computed in the loop"):
            tw.lower(s, arguments)
    s, arguments = attached(1, fused, lambda *_: None)
    tw.lower(s, arguments)
    A, B, C = arguments
    s, _ = attached(1, fused, lambda s, C, loop, outer, _: s[C].parallel(loop if fused else outer))
    tw.lower(s, [s.stages[0].op.output(0), s.outputs[0].output(0)])  # B is no argument: each thread has its own


def test_threads_of_a_block_that_sum_the_same_are_refused() -> None:
    def bound(s, C, loop, outer, inner) -> None:
        s[C].bind(loop, te.thread_axis("blockIdx.x"))

    tw.lower(*attached(0, True, bound))
    with pytest.raises(tw.LoweringError, match=r"bound to blockIdx\.x"):
        tw.lower(*attached(2, True, bound))
