"""Minima and maxima take up last what the iteration before computed, and keep every bit."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.te.hybrid import output_tensor, script


def alignment(columns: int, far: tuple[int, int]) -> Any:
    """A script: dynamic time warping with reads of cells so many columns before."""
    one, other = far

    @script
    def warped(c):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        d = output_tensor((9, columns + 4), "float32")
        for i in range(9):
            for j in range(columns + 4):
                d[i, j] = c[i, j]
        for i in range(8):
            for j in range(columns):
                d[i + 1, j + 4] = c[i, j] + min(
                    max(d[i + 1, j + 4 - one], c[i, j + 1]), min(d[i, j + 4], d[i + 1, j + 4 - other])
                )
                d[i + 1, j + 4] = max(max(d[i + 1, j + 4], d[i + 1, j + 3]), max(c[i, j], d[i, j + 3]))
        return d

    return warped


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=x86-64-v2"))
def test_drawn_recurrences_keep_every_bit(target: str) -> None:
    for case in range(drawn.count(8, 300)):
        rng = drawn.rng(f"warped {target}", case)
        columns = int(rng.choice((1, 2, 7, 16, 33)))
        C = te.placeholder((9, columns + 4), name="C")
        D = alignment(columns, (int(rng.integers(1, 5)), int(rng.integers(1, 5))))(C)
        values = rng.choice([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 0.5], (9, columns + 4)).astype("float32")
        results = [np.empty_like(values) for _ in range(2)]
        for result, built in zip(results, (target, "interpret"), strict=True):
            tw.build(te.create_schedule(D.op), [C, D], target=built)(values, result)
        same = results[0].view("uint32") == results[1].view("uint32")
        assert (same | np.isnan(results[0]) & np.isnan(results[1])).all()


def test_the_cell_before_is_the_last_of_the_minimum() -> None:
    C = te.placeholder((40, 40), name="C")

    @script
    def warped(C):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        d = output_tensor((41, 41), "float32")
        for i in range(40):
            for j in range(40):
                d[i + 1, j + 1] = C[i, j] + min(min(d[i, j + 1], d[i + 1, j]), d[i, j])
        return d

    D = warped(C)
    text = tw.build(te.create_schedule(D.op), [C, D]).source("ir")
    assert (
        "min(min(d[int64(i) * 41 + int64(j) + 1], d[int64(i) * 41 + int64(j)]), d[int64(i) * 41 + int64(j) + 41])"
        in text
    )
