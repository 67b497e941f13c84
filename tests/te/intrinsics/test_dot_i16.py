"""The shipped dot products of numbers of 16 bits: exact for all that differences of bytes can be."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


@pytest.mark.parametrize("kind, most", [("int16", 255), ("int8", 127)])
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64", "interpret"])
def test_sums_of_products_are_exact(kind: str, most: int, target: str) -> None:
    rows, panels, depth = 3, 2, 14
    a, b = te.placeholder((rows, depth), "int16", "a"), te.placeholder((panels, depth // 2, 16, 2), kind, "b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((rows, panels, 16), lambda i, p, lane: te.sum(
        a[i, k].astype("int32") * b[p, k // 2, lane, k % 2].astype("int32"), axis=k), "c")
    s = te.create_schedule(c.op)
    i, p, lane = c.op.axis
    pair, inner = s[c].split(k, factor=2)
    s[c].reorder(i, p, pair, lane, inner)
    s[c].tensorize(lane, te.intrinsics.get("x86.dot_i16_16x2" if kind == "int16" else "x86.dot_i16i8_16x2"))
    random = np.random.default_rng(0)
    x, w = random.integers(-255, 256, a.shape).astype("int16"), random.integers(-most - 1, most + 1, b.shape).astype(kind)
    x[0], w[0] = 255, -most - 1
    found = np.zeros((rows, panels, 16), "int32")
    tw.build(s, [a, b, c], target=target)(x, w, found)
    np.testing.assert_array_equal(found, np.einsum("iqt,pqlt->ipl", x.reshape(rows, -1, 2).astype("int32"), w.astype("int32")))
