"""Sorts on GPUs: by blocks, and by merges of what blocks have sorted."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi

TARGET = "cuda -emulate"


def _expected(values: np.ndarray, ascending: bool) -> np.ndarray:
    """The places in order, of equal ones the first first; NaN the greatest."""
    rows = [(np.isnan(row), np.where(np.isnan(row), 0, row)) for row in values.astype("float64")]
    sign = 1 if ascending else -1
    return np.stack([np.lexsort((np.arange(len(value)), sign * value, sign * nan.astype(int))) for nan, value in rows])


def _run(values: np.ndarray, count: int, ascending: bool, monkeypatch: pytest.MonkeyPatch) -> tw.Kernel:
    """Checks the places that a GPU finds, in three orders of its threads."""
    data = te.placeholder(values.shape, str(values.dtype), name="data")
    places: Any = topi.topk(data, count, ret_type="indices", is_ascend=ascending, dtype="int32")
    kernel = tw.build(tw.autoschedule.schedule([places], target=TARGET), [data, places], target=TARGET)
    for seed in (0, 1, 2):
        monkeypatch.setenv("TILEWRIGHT_EMULATE_SEED", str(seed))
        found = np.full([int(extent) for extent in places.shape], -1, "int32")
        kernel(values, found)
        np.testing.assert_array_equal(found, _expected(values, ascending)[:, : count or None])
    return kernel


@pytest.mark.parametrize(
    ("rows", "extent", "kind", "count"),
    drawn.part(
        [
            (1, 1, "float32", 0),
            (67, 3, "int8", 0),
            (2, 31, "float32", 0),
            (3, 64, "float16", 2),
            (2, 257, "int64", 0),
            (1, 4097, "int32", 3),
        ],
        3,
    ),
)
def test_rows_are_sorted_by_blocks_and_ties_by_place(
    rows: int,
    extent: int,
    kind: str,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(extent).integers(-4, 5, (rows, extent)).astype(kind)
    if values.dtype.kind == "f" and extent > 4:
        values[:, 1], values[0, 2], values[0, 3] = np.nan, -0.0, 0.0
    _run(values, count, extent % 2 == 1, monkeypatch)


def test_pairs_of_a_step_meet_no_bank_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).integers(0, 1000, (3, 200)).astype("int32")
    kernel = _run(values, 0, True, monkeypatch)
    assert sum(launch.bank_conflicts for launch in kernel.kernels) == 0
    assert len(kernel.kernels) == 3, "one clears the places, one sorts, one copies them"


def test_a_target_without_threads_sorts_by_its_own_script() -> None:
    data = te.placeholder((4, 100), name="data")
    places = topi.argsort(data, dtype="int32")
    values, found = np.random.default_rng(1).random((4, 100), "float32"), np.empty((4, 100), "int32")
    for target in ("llvm", "c"):
        tw.build(tw.autoschedule.schedule([places], target=target), [data, places], target=target)(values, found)
        np.testing.assert_array_equal(found, _expected(values, True))
