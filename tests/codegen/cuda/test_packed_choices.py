"""Vectors that all lanes take from one side of a choice: loads of 16 bytes where they are done, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi


def built(*tensors: te.Tensor) -> tw.Kernel:
    return tw.build(
        tw.autoschedule.schedule([tensors[-1]], target="cuda -emulate"), list(tensors), target="cuda -emulate"
    )


@pytest.mark.parametrize("swapped", [False, True])
def test_one_load_under_two_conditions_is_done_under_each(swapped: bool) -> None:
    A = te.placeholder((8, 128), name="A")

    def element(i: Any, j: Any) -> Any:
        x = A[i, j]
        inside, half = te.if_then_else(j < 128, x, 0.0), te.if_then_else(j < 64, x, 1.0)
        return half - inside if swapped else inside - half

    B = te.compute((8, 256), element, name="B")
    f = built(A, B)
    a, b = np.random.default_rng(3).random((8, 128), "float32") + 2, np.full((8, 256), 9, "float32")
    f(a, b)
    inside, half = np.zeros((8, 256), "float32"), np.ones((8, 256), "float32")
    inside[:, :128], half[:, :64] = a, a[:, :64]
    assert (b == (half - inside if swapped else inside - half)).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "int64"])
def test_parts_of_a_concatenation_are_read_by_16_bytes(dtype: str) -> None:
    widths = (32, 96, 64)
    parts = [te.placeholder((6, width), dtype, name=f"part{at}") for at, width in enumerate(widths)]
    f = built(*parts, topi.concatenate(parts, 1))
    rng = np.random.default_rng(4)
    given = [rng.integers(0, 2, (6, width)).astype(dtype) for width in widths]
    f(*given, found := np.zeros((6, sum(widths)), dtype))
    assert (found == np.concatenate(given, 1)).all()
    item = np.dtype(dtype).itemsize
    (kernel,) = f.kernels
    assert {row.bytes for row in kernel.traffic} == {16} and kernel.uncoalesced == 0, f"{16 // item} elements at once"


def test_sides_that_compute_keep_their_loads() -> None:
    A, B = te.placeholder((5, 64), name="A"), te.placeholder((5, 64), name="B")
    C = te.compute(
        (5, 128),
        lambda i, j: te.if_then_else(
            j < 64, A[i, j] * 2 + A[i, j], te.if_then_else(j < 96, B[i, j - 64], B[i, j - 64] * A[i, j - 64])
        ),
        name="C",
    )
    f = built(A, B, C)
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 9, (5, 64)).astype("float32"), rng.integers(0, 9, (5, 64)).astype("float32")
    f(a, b, found := np.zeros((5, 128), "float32"))
    assert (found == np.concatenate([a * 3, b[:, :32], b[:, 32:] * a[:, 32:]], 1)).all()
    assert {row.bytes for row in f.kernels[0].traffic} == {16}
