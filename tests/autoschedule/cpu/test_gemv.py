"""Products of a matrix and a few vectors, whose rows are read side by side, or one after the other where no cache holds them."""

from __future__ import annotations

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te, topi
from tilewright.autoschedule.cpu import gemv


def product(rows: int, depth: int, few: int) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    x, w = te.placeholder((few, depth), name="x"), te.placeholder((rows, depth), name="w")
    y = topi.nn.dense(x, w)
    return x, w, te.compute(y.shape, lambda i, j: te.max(y[i, j], 0.0), name="z")


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=haswell"))
@pytest.mark.parametrize(
    "rows, depth, few",
    drawn.part([(40, 768, 1), (37, 771, 1), (9, 100, 1), (33, 515, 3), (16, 520, 4), (1, 999, 1), (5, 7, 1)], 3),
)
def test_rows_one_after_the_other_give_the_same(monkeypatch, target, rows, depth, few) -> None:
    monkeypatch.setattr(gemv, "_is_far", lambda group, matrix: True)
    x, w, y = product(rows, depth, few)
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype("float32") for shape in ((few, depth), (rows, depth))]
    out = np.empty((few, rows), "float32")
    tw.build(tw.autoschedule.schedule(y, target), [x, w, y], target)(*arrays, out)
    np.testing.assert_allclose(out, np.maximum(arrays[0] @ arrays[1].T, 0), rtol=1e-3, atol=1e-3)


def test_what_no_cache_holds_is_one_stream(monkeypatch) -> None:
    monkeypatch.setattr(gemv, "LAST_CACHE", 1 << 20)
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"
    for rows, alone in ((64, False), (4096, True)):
        *_, y = product(rows, 768, 1)
        text = str(tw.autoschedule.schedule(y, target))
        assert ("in unrolled(8)" in text.split("mul_add")[0].split("for k.outer")[-1]) != alone, text
