"""Rows that blocks have whole on GPUs: what is moved, counted by the emulator."""

from __future__ import annotations

import gpu_choices
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi

TARGET = "cuda -emulate"


@pytest.mark.parametrize("extent", [32, 768])
def test_each_element_of_a_row_is_moved_once_by_16_bytes(extent: int) -> None:
    rng = np.random.default_rng(extent)
    output = topi.nn.softmax(te.placeholder((6, extent), name="A"))
    s = tw.autoschedule.schedule([output], target=TARGET)
    kernel = tw.build(s, [*gpu_choices.inputs_of(output), output], target=TARGET)
    kernel(rng.standard_normal((6, extent), "float32"), np.empty((6, extent), "float32"))
    (launch,) = kernel.kernels
    moved = [row for row in launch.traffic if row.memory == "global"]
    assert {row.bytes for row in moved} == {16}
    assert sum(row.transactions for row in moved) * 32 == 2 * 6 * extent * 4
    assert launch.bank_conflicts == 0


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((8, 1024), "in registers"),
        ((8, 1001), "by 4 bytes since a row has 1001"),
        ((2, 40000), "too long for registers"),
    ],
)
def test_a_plan_says_why_rows_are_not_loaded_once_by_vectors(shape: tuple[int, int], says: str) -> None:
    s = tw.autoschedule.schedule([topi.nn.softmax(te.placeholder(shape, name="A"))], target="cuda -arch=sm_80")
    assert s.plan[0].description.count(says) == 1


def test_a_row_of_several_dimensions_stays_in_registers_too() -> None:
    rng = np.random.default_rng(1)
    A, gamma = te.placeholder((2, 6, 5, 8), name="A"), te.placeholder((6,), name="gamma")
    assert gpu_choices.differs(topi.nn.group_norm(A, gamma, te.placeholder((6,), name="beta"), 3), rng) == ""


def test_a_row_may_have_another_axis_between_its_own() -> None:
    rows = topi.nn.layer_norm(te.placeholder((3, 4, 63, 3), name="A"), axis=(0, 2))
    assert gpu_choices.differs(rows, np.random.default_rng(2), lambda ways: len(ways) - 1, bits=False) == ""


def test_few_sums_of_many_terms_are_shared_among_blocks() -> None:
    output = topi.sum(te.placeholder((1 << 19,), name="A"))
    s = tw.autoschedule.schedule([output], target=TARGET)
    kernel = tw.build(s, [*gpu_choices.inputs_of(output), output], target=TARGET)
    values, total = np.arange(1 << 19, dtype="float32") % 7, np.empty((), "float32")
    kernel(values, total)
    assert total == values.sum(dtype="float64")
    first, last = kernel.kernels
    assert first.grid[0] > 1 and last.grid == (1, 1, 1)
    assert first.uncoalesced == 0


@pytest.mark.parametrize("shape", [(1,), (3, 1)])
def test_a_row_of_one_element_is_a_row(shape: tuple[int, ...]) -> None:
    A = te.placeholder(shape, name="A")
    k = te.reduce_axis((0, 1), name="k")
    squares = te.compute(shape[:-1], lambda *row: te.sum(A[(*row, k)] * A[(*row, k)], axis=k), name="squares")
    output = te.compute(shape, lambda *at: A[at] * te.rsqrt(squares[at[:-1]] + 1.0), name="scaled")
    assert gpu_choices.differs(output, np.random.default_rng(5), bits=False) == ""
