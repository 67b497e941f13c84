"""The table of tuned tasks: what it says of both sides together, and that its tasks can be declared."""

from __future__ import annotations

import pytest
from tilewright import te
from tilewright.tools.benchmarks.tuning_gain import TASKS, draw_arrays, summary


def test_every_task_computes_its_last_tensor_from_the_others() -> None:
    for declare in TASKS.values():
        *inputs, output = declare(te)
        assert all(tensor.op.is_passed for tensor in inputs)
        assert not output.op.is_passed
        assert [array.shape for array in draw_arrays([output])] == [tuple(int(str(extent)) for extent in output.shape)]


def test_the_summary_counts_what_both_sides_measured() -> None:
    rows = [
        {"task": "a", "side": "tilewright", "gain": 2.0, "tuned_ms": 1.0, "wall_s": 1.0},
        {"task": "b", "side": "tilewright", "gain": 0.5, "tuned_ms": 3.0, "wall_s": 4.0},
        {"task": "a", "side": "MetaSchedule", "tuned_ms": 4.0, "wall_s": 4.0},
        {"task": "b", "side": "MetaSchedule", "failed": "nothing was measured"},
    ]
    assert summary(rows) == {
        "gain": pytest.approx(1.0),
        "least_gain": 0.5,
        "times_MetaSchedule": pytest.approx(4.0),
        "ahead": "1 of 1",
        "share_of_its_wall_time": pytest.approx(0.25),
    }
