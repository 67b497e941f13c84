"""Tuning for GPUs: without one, candidates are checked on the emulator and ranked; with one, they would be measured there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import autotune, te, topi
from tilewright.autotune import worker as worker_module
from tilewright.autotune.errors import CannotBeChecked, TargetCannotBeTuned
from tilewright.autotune.gpu_ranking import rank_candidate
from tilewright.autotune.outcome import Limits
from tilewright.autotune.ranking import probe_text
from tilewright.autotune.records import Database
from tilewright.autotune.runners import make_runner
from tilewright.autotune.task import Task
from tilewright.codegen.target import Target
from tilewright.driver.library import Library
from tilewright.schedule import from_json, to_json
from tilewright.schedule.lowering.lower import lower

TARGET = "cuda -arch=sm_80"


def product(rows: int = 300, columns: int = 40, terms: int = 33) -> list[Any]:
    a, b = te.placeholder((rows, terms), name="A"), te.placeholder((terms, columns), name="B")
    return [a, b, topi.matmul(a, b)]


def probed(target: str = TARGET) -> tuple[Task, dict[str, Any]]:
    """The task of a product, and what a process is told of its first candidate."""
    task = Task.of(product(), target)
    made = task.space.make(next(task.space.begin()))
    return task, json.loads(probe_text(task, made.schedule, lower(made.schedule, list(made.args), "main")))


def test_candidates_are_ranked_and_kept_and_found(tmp_path: Path) -> None:
    database = tmp_path / "tune.sqlite"
    result = autotune.tune(product(), TARGET, trials=1, database=database, progress=False, limits=Limits(workers=1))
    assert result.baseline is None and "unscheduled" not in repr(result) and not result.failures
    again = autotune.tune(product(), TARGET, trials=1, database=database, progress=False)
    assert [trial.uid for trial in again.history] == [trial.uid for trial in result.history], "it returns at once"
    estimate = tw.autoschedule.schedule(product()[2], TARGET).plan[0].seconds
    assert estimate <= result.best.seconds <= 2 * estimate, "the estimate, made worse by what is counted"
    with Database(database) as opened:
        assert [row.key.machine for row in opened.tasks()] == ["no GPU, ranks for A100"]
    kernel = tw.build(product(), target=TARGET, tuned=database)
    best = tw.build(result.schedule, result.task.args, target=TARGET)
    assert [(k.grid, k.block) for k in kernel.kernels] == [(k.grid, k.block) for k in best.kernels]
    library = Library("tuned", tuned=database)
    library.add("product", product(), target=TARGET)


def test_a_candidate_is_checked_at_sizes_with_the_same_remainders() -> None:
    task, told = probed()
    assert [int(extent) for extent in task.args[0].shape] == [300, 33]
    assert "172" in told["small"], "128, and what is over at the end of 300 rows"
    assert "300" in told["loops"] and "300" not in told["small"]


def test_a_candidate_that_computes_something_else_is_found_on_the_emulator() -> None:
    _, told = probed()
    other = Task.of(
        [
            a := te.placeholder((300, 33), name="A"),
            b := te.placeholder((33, 40), name="B"),
            te.compute((300, 40), lambda i, j: topi.matmul(a, b)[i, j] + 1.0, name="C"),
        ],
        TARGET,
    )
    made = other.space.make(next(other.space.begin()))
    wrong = json.loads(probe_text(other, made.schedule, lower(made.schedule, list(made.args), "main")))
    _, said = rank_candidate(json.dumps(told | {"plain": wrong["plain"]}), Target.parse(TARGET))
    assert said.startswith("on the emulator, at sizes cut down: ") and "elements differ" in said


def test_what_cannot_be_ranked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetCannotBeTuned, match="TW0603: cannot tune for target 'cuda -emulate'"):
        autotune.tune(product(), "cuda -emulate", trials=1, database=tmp_path / "a.sqlite", progress=False)
    a = te.placeholder((300,), name="A")
    row = te.constant(np.arange(300, dtype="float32"), name="row")
    program = [a, te.compute((300,), lambda i: a[i] + row[i], name="B")]
    with pytest.raises(TargetCannotBeTuned, match="TW0603: cannot rank candidates of B"):
        autotune.tune(program, TARGET, trials=1, database=tmp_path / "b.sqlite", progress=False)
    large = Task.of(
        [a := te.placeholder((2,) * 24, name="A"), te.compute((2,) * 24, lambda *at: a[at] + 1.0, name="B")], TARGET
    )
    s = te.create_schedule(large.outputs[0].op)
    loops = lower(s, list(large.args), "main")
    with pytest.raises(
        CannotBeChecked, match=r"(?s)TW0614: a candidate of B cannot be checked on the emulator.*too many elements"
    ):
        probe_text(large, s, loops)


def test_on_a_gpu_candidates_would_be_timed_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With arrays of the host in the place of the GPU's, and the emulator in its own."""
    monkeypatch.setattr(worker_module, "device_array", tw.array)
    task, told = probed()
    small = told["small"]
    worker = worker_module.Worker()
    shapes = [((172, 33), "float32"), ((33, 40), "float32"), ((172, 40), "float32")]
    rng = np.random.default_rng(0)
    for at, (shape, dtype) in enumerate(shapes[:2]):
        rng.random(shape, np.float32).astype(dtype).tofile(tmp_path / str(at))
    worker.setup(
        {
            "threads": 1,
            "target": "cuda -emulate",
            "folder": str(tmp_path),
            "outputs": [2],
            "args": shapes,
            "constants": 0,
        }
    )
    worker.on_gpu = True
    (tmp_path / "plain.ir").write_text(told["plain"])
    (tmp_path / "small.ir").write_text(small)
    assert worker.reference({"function": str(tmp_path / "plain.ir")})["seconds"] > 0
    worker.load({})
    worker.build({"id": 1, "function": str(tmp_path / "small.ir")})
    monkeypatch.setattr(worker_module, "_ROUNDS", 1)
    assert len(worker.run({"id": 1})["times"]) == 1
    worker.references[0].wanted += 1
    worker.build({"id": 2, "function": str(tmp_path / "small.ir")})
    assert worker.run({"id": 2})["failure"] == "wrong output"
    assert type(make_runner(None, task.target)).__name__ in ("Emulator", "FirstGpu")


def rows() -> list[Any]:
    x = te.placeholder((1024, 1000), name="x")
    return [x, topi.nn.softmax(x)]


def convolution() -> list[Any]:
    x, w = te.placeholder((1, 32, 14, 14), name="x"), te.placeholder((48, 32, 3, 3), name="w")
    return [x, w, topi.nn.conv2d(x, w, stride=1, padding=1)]


def pool() -> list[Any]:
    x = te.placeholder((1, 64, 56, 56), name="x")
    return [x, topi.nn.max_pool2d(x, 3, 2, 1)]


@pytest.mark.parametrize("declared", [rows, convolution, pool])
def test_the_rules_choice_is_checked_at_sizes_that_it_fits(declared: Any) -> None:
    """Threads that share a row find their part in it, long sums come to an end, and the records come back from text."""
    task = Task.of(declared(), TARGET)
    made = task.space.make(next(task.space.begin()))
    records = from_json(to_json(made.schedule.trace), foreign=True)
    assert str(te.Schedule.replay(records, [tensor.op for tensor in task.outputs])) == str(made.schedule)
    told = json.loads(probe_text(task, made.schedule, lower(made.schedule, list(made.args), "main")))
    assert told["plain"] and told["small"] != told["loops"], "cut down"
