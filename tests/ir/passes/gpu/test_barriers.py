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
    a, b, c = rng.standard_normal(5).astype("float32"), rng.standard_normal(3).astype("float32"), np.empty((5, 3), "float32")
    kernel(a, b, c)
    np.testing.assert_array_equal(c, np.maximum(a[:, None], np.maximum.accumulate(b)))
