"""Scans on GPUs: whole rows in shared memory, in the order of their steps."""

from __future__ import annotations

from typing import Any

import drawn
import gpu_choices
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi

TARGET = "cuda -emulate"


@pytest.mark.parametrize(
    ("shape", "axis", "says"),
    drawn.part(
        [
            ((33, 101), 1, "rows a block, whole"),
            ((2, 9, 65), 2, "rows a block, whole"),
            ((40, 1), 1, "rows a block, whole"),
            ((3, 5), 1, "a thread"),
            ((3, 9, 31), 1, "a thread"),
            ((8, 12000), 1, "that lie apart"),
        ],
        3,
    ),
)
def test_a_scan_keeps_its_bits_however_rows_lie(shape: tuple[int, ...], axis: int, says: str) -> None:
    total = topi.cumsum(te.placeholder(shape, name="data"), axis=axis)
    s = tw.autoschedule.schedule([total], target=TARGET)
    assert s.is_exact
    assert says in s.plan[-1].description
    if np.prod(shape) < 10000:
        assert gpu_choices.differs(total, np.random.default_rng(1)) == ""


def test_threads_that_have_columns_to_themselves_do_not_wait_for_each_other() -> None:
    """Without barriers a step's state stays in a register, and what many steps read comes at once."""
    data = te.placeholder((200, 300), name="data")
    total = topi.cumsum(data, axis=0)
    kernel = tw.build(tw.autoschedule.schedule([total], "cuda -arch=sm_80"), [data, total], target="cuda -arch=sm_80")
    assert "__syncthreads" not in kernel.source("cuda")
    counts = kernel.kernels[-1].instructions
    assert counts["LDG.32"] < 1.2 * counts["STG.32"], counts
    assert (
        gpu_choices.differs(topi.cumsum(te.placeholder((9, 70), name="data"), axis=0), np.random.default_rng(5)) == ""
    )


def test_a_scan_of_which_few_columns_are_read_is_computed_whole() -> None:
    """Its blocks and threads are declared for all columns."""
    total = topi.cumsum(te.placeholder((7, 80), name="data"), axis=0)
    few = te.compute((7, 5), lambda t, i: total[t, i + 3] * 2.0, "few")
    assert gpu_choices.differs(few, np.random.default_rng(2)) == ""


@pytest.mark.parametrize("options", [{"exclusive": True}, {"dtype": "int64"}])
def test_rows_in_shared_memory_are_moved_once_and_meet_no_bank_twice(options: dict[str, Any]) -> None:
    data = te.placeholder((28, 128), "int32", name="data")
    total = topi.cumsum(data, axis=1, **options)
    kernel = tw.build(tw.autoschedule.schedule([total], target=TARGET), [data, total], target=TARGET)
    values = np.random.default_rng(2).integers(-9, 9, (28, 128)).astype("int32")
    found = np.empty((28, 128), str(total.dtype))
    kernel(values, found)
    exclusive = values if "exclusive" in options else 0
    np.testing.assert_array_equal(found, values.cumsum(1) - exclusive)
    (launch,) = kernel.kernels
    assert launch.uncoalesced == 0
    assert (
        sum(row.transactions for row in launch.traffic if row.memory == "global") * 32 == values.nbytes + found.nbytes
    )


def test_a_scan_that_mixes_columns_is_shared_as_before() -> None:
    data, state = te.placeholder((16, 8), name="data"), te.placeholder((16, 8), name="state")
    first = te.compute((1, 8), lambda _, i: data[0, i], name="first")
    step = te.compute((16, 8), lambda t, i: state[t - 1, 7 - i] + data[t, i], name="step")
    states = te.scan(first, step, state, inputs=[data], name="states")
    turned = te.compute((8, 16), lambda i, t: states[t, i], name="turned")
    assert gpu_choices.differs(turned, np.random.default_rng(3)) == ""
