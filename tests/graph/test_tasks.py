"""The distinct kernels of a graph, and what a model's plan says of them."""

from __future__ import annotations

import numpy as np
import tilewright as tw
from tilewright.graph import Builder


def layers() -> tw.graph.Graph:
    """Three equal layers, and parts of what they give."""
    random = np.random.default_rng(0)
    b = Builder("layers")
    x = b.input("x", ("n", 9))
    for at in range(3):
        w = b.param(f"w{at}", random.standard_normal((9, 9)).astype("float32"))
        x = b.node("relu", b.node("matmul", x, w), source=f"layer {at}")
    low, high = b.nodes("split", x, sizes=(4, 5), axis=1)
    b.output("low", low)
    b.output("high", high)
    return b.graph()


def test_equal_layers_are_one_task_that_runs_as_often() -> None:
    g = layers()
    tasks = g.tasks()
    assert (tasks[0].operators, tasks[0].count) == ("matmul+relu", 3)
    assert tasks[0].nodes == ("layer 0", "layer 1", "layer 2") and tasks[0].shapes == "float32[n, 9]"
    assert len(g.tasks(buckets=[{"n": 1}])) == 2 * len(tasks)
    for task in tasks:
        assert task.schedule(exact=True).is_exact


def test_a_plan_says_what_was_chosen_for_each_kernel_of_each_variant() -> None:
    m = tw.build(layers())
    assert len(m.plan) == 0, "no size was met"
    m(np.zeros((2, 9), "float32"))
    assert [task.name for task in m.plan] == list(m.kernels) and [task.count for task in m.plan] == list(
        m.kernels.values()
    )
    first = str(m.plan).splitlines()[1].split()
    assert first[:3] == ["3", "matmul+relu", "float32[2,"] and "contraction" in first, first
    bucketed = tw.build(layers(), buckets=[{"n": 2}])
    said = str(bucketed.plan)
    assert "n = 2:" in said and "any size:" in said and "float32[n, 9]" in said
    assert {task.name for task in m.plan} == {task.name for task in bucketed.plan if task.bucket == "n = 2"}
