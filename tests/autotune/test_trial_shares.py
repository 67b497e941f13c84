"""Graphs whose kernels are tuned: trials are shared among them, and tw.build takes what was found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import autotune
from tilewright.autotune.trial_shares import shares
from tilewright.cli import main
from tilewright.graph import Builder


def layers(rows: int | str = 3, width: int = 17) -> tw.graph.Graph:
    """Two equal layers, and a softmax."""
    random = np.random.default_rng(0)
    b = Builder("layers")
    x = b.input("x", (rows, width))
    for at in range(2):
        x = b.node(
            "relu", b.node("matmul", x, b.param(f"w{at}", random.standard_normal((width, width)).astype("float32")))
        )
    b.output("y", b.node("softmax", x))
    return b.graph()


def test_trials_are_shared_by_the_time_that_kernels_take() -> None:
    tasks = layers(512, 257).tasks()
    given = shares(tasks, "llvm -mcpu=haswell", 100)
    assert list(given) == [task.name for task in tasks] and min(given.values()) >= 2
    assert given[tasks[0].name] > given[tasks[1].name] and 100 <= sum(given.values()) <= 102


def test_a_graph_is_tuned_once_and_built_from_what_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    g, database = layers(), tmp_path / "tune.sqlite"
    result = autotune.tune(g, trials=4, database=database, progress=False)
    assert list(result.results) == [task.name for task in g.tasks()] and list(result.counts.values()) == [2, 1]
    assert result.seconds == sum(result.counts[name] * one.best.seconds for name, one in result.results.items())
    m = tw.build(g, tuned=database)
    assert "as it is tuned" in str(m.plan)
    x = np.random.default_rng(1).standard_normal((3, 17)).astype("float32")
    np.testing.assert_allclose(m(x), g.run(x)[0], rtol=1e-4, atol=1e-6)
    g.save(tmp_path / "g.safetensors")
    assert main(["tune", str(tmp_path / "g.safetensors"), "--trials", "4", "--database", str(database)]) == 0
    said = capsys.readouterr().out
    assert "2 in a call, after 2 trials" in said.replace("3 trials", "2 trials") and "in all" in said


def test_kernels_for_any_size_are_not_tuned() -> None:
    with pytest.raises(tw.TuningError, match=r"(?s)TW0601: cannot tune kernels for any size.*buckets"):
        autotune.tune(layers("n"), trials=2)
