"""Whatever a candidate does, it becomes a typed failure, and neither the tuner nor the next candidate notices."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import autotune_faults as faults
import drawn
import numpy as np
import pytest
from this_machine import PATIENCE
from tilewright import autotune
from tilewright.autoschedule.search.space import Config, Configurator, TemplateSpace
from tilewright.autotune.errors import NoCandidate, WorkerFailed, WrongInputs
from tilewright.autotune.measure import Measurer
from tilewright.autotune.outcome import Failure, Limits
from tilewright.autotune.records import Database
from tilewright.autotune.search import Candidate, CandidateFactory
from tilewright.autotune.trial import Trial
from tilewright.schedule import to_json

LIMITS = Limits(timeout=2.0 * PATIENCE, budget=0.005)


@pytest.fixture(scope="module")
def measurer() -> Iterator[Measurer]:
    with Measurer(faults.task(), LIMITS) as opened:
        yield opened


def processes_of(folder: Path) -> list[int]:
    """Living processes whose command line or log lies in the measurer's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if any(str(link.readlink()).startswith(str(folder)) for link in (entry / "fd").iterdir()):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("name", drawn.part(faults.FAULTS, 4))
def test_a_fault_is_a_typed_failure_and_the_next_candidate_is_measured(measurer: Measurer, name: str) -> None:
    kind, text = faults.FAULTS[name]
    broken, right = measurer.measure([text, faults.RIGHT])
    assert broken.seconds is None and broken.failure is not None
    assert broken.failure.kind == kind
    assert broken.failure.message
    assert right.seconds is not None and right.seconds < 1e-3


def test_many_faults_in_a_row_are_as_many_records_and_leave_no_process(tmp_path: Path) -> None:
    rng = drawn.rng("autotune faults")
    names = [str(name) for name in rng.choice(sorted(faults.FAULTS), drawn.count(2, 40))]
    task = faults.task()
    with Measurer(task, LIMITS) as measurer, Database(tmp_path / "tune.sqlite") as database:
        texts = [text for name in names for text in (faults.FAULTS[name][1], faults.RIGHT)]
        for number, outcome in enumerate(measurer.measure(texts)):
            kind, message = (outcome.failure.kind, outcome.failure.message) if outcome.failure else ("", "")
            assert kind == ("" if number % 2 else faults.FAULTS[names[number // 2]][0]), names[number // 2]
            records = f'[["unroll", 1, {{"axis": {{"axis": [1, {number}]}}}}]]'
            database.add(task.key, task.name, Trial(records, outcome.seconds, None, kind, message))
        folder = measurer.folder
        assert processes_of(folder)
        held = database.trials(task.key)
        assert [trial.failure for trial in held][::2] == [faults.FAULTS[name][0] for name in names]
        winner = database.best(task.key)
        assert winner is not None and winner.failure == "" and held.index(winner) % 2 == 1
    assert processes_of(folder) == []
    assert not folder.exists()


def test_a_worker_that_is_killed_from_outside_is_replaced(measurer: Measurer) -> None:
    victim = measurer.workers[0]
    os.kill(victim.process.pid, signal.SIGKILL)
    (outcome,) = measurer.measure([faults.RIGHT])
    assert outcome.failure is not None and outcome.failure.kind == "killed"
    (again,) = measurer.measure([faults.RIGHT])
    assert again.seconds is not None
    assert measurer.workers[0] is not victim


def test_what_waited_for_a_killed_worker_is_built_by_its_successor(measurer: Measurer) -> None:
    os.kill(measurer.workers[0].process.pid, signal.SIGKILL)
    outcomes = measurer.measure([faults.RIGHT] * 5)
    assert [outcome.failure.kind for outcome in outcomes if outcome.failure is not None] == ["killed"]
    assert sum(outcome.seconds is not None for outcome in outcomes) == 4
    crashes = measurer.measure([faults.RIGHT, faults.RIGHT, faults.FAULTS["abort"][1], faults.RIGHT, faults.RIGHT])
    assert [outcome.failure.kind if outcome.failure else "" for outcome in crashes] == ["", "", "crash", "", ""]


def test_what_a_candidate_prints_is_no_answer(measurer: Measurer) -> None:
    noisy = faults.candidate(
        "for j in 10000:", '    call_extern(int32, "putchar", 125)', '    call_extern(int32, "putchar", 10)'
    )
    (outcome,) = measurer.measure([noisy])
    assert outcome.seconds is not None and outcome.failure is None


def test_an_answer_that_is_no_json_ends_the_worker(measurer: Measurer) -> None:
    worker = measurer.workers[0]
    write = int(worker.process.args[-3])  # pyright: ignore[reportArgumentType, reportIndexIssue]
    text = faults.candidate(f'call_extern(int32, "dprintf", {write}, "not json\\n")')
    (outcome,) = measurer.measure([text])
    assert outcome.failure is not None and outcome.failure.kind == "protocol"
    (again,) = measurer.measure([faults.RIGHT])
    assert again.seconds is not None


class OnlyFaults(CandidateFactory):
    """Makes a candidate of every configuration whose loops misbehave, but for one."""

    def make(self, config: Config) -> Candidate | None:
        made = super().make(config)
        if made is None:
            return None
        names = sorted(faults.FAULTS)
        number = dict(config.choices)["which"]
        text = faults.RIGHT if number == len(names) else faults.FAULTS[names[number]][1]
        return Candidate(config, made.records, text, made.features)


def space_of(tensors: list[object]) -> TemplateSpace:
    from tilewright import te

    def build(cfg: Configurator):
        cfg.define_knob("which", range(len(faults.FAULTS) + 1))
        s = te.create_schedule(tensors[-1])  # pyright: ignore[reportArgumentType]
        s[tensors[-1]].split(tensors[-1].op.axis[0], factor=1 + cfg["which"].val)  # pyright: ignore
        return s, tensors

    return TemplateSpace.learn("faults", build)  # pyright: ignore[reportArgumentType]


def test_tuning_among_faults_finds_the_one_candidate_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.autotune.tuner.CandidateFactory", OnlyFaults)
    monkeypatch.setattr(faults, "FAULTS", dict(drawn.part(faults.FAULTS.items(), 4)))
    tensors = faults.doubling()
    task = autotune.Task.of(tensors, space=space_of(tensors))
    result = autotune.tune(
        task,
        trials=len(faults.FAULTS) + 1,
        database=tmp_path / "t.sqlite",
        limits=LIMITS,
        search="random",
        progress=False,
    )
    assert len(result.history) == len(faults.FAULTS) + 1
    assert sum(result.failures.values()) == len(faults.FAULTS)
    assert set(result.failures) == {kind for kind, _ in faults.FAULTS.values()}
    winner = min((trial for trial in result.history if trial.seconds), key=lambda trial: trial.time or 1)
    assert to_json(result.best.records) == winner.records
    assert dict(winner.config.choices if winner.config else ())["which"] == len(faults.FAULTS)


def test_a_space_of_faults_alone_is_an_error_with_the_first_message_of_each_class(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tilewright.autotune.tuner.CandidateFactory", OnlyFaults)
    monkeypatch.setattr(faults, "RIGHT", faults.FAULTS["abort"][1])
    monkeypatch.setattr(faults, "FAULTS", {"abort": faults.FAULTS["abort"]})
    tensors = faults.doubling()
    task = autotune.Task.of(tensors, space=space_of(tensors))
    with pytest.raises(NoCandidate, match=r"TW0608.*no candidate of B could be built(.|\n)*crash \(2\): .*SIGABRT"):
        autotune.tune(task, trials=8, database=tmp_path / "t.sqlite", limits=LIMITS, progress=False)


def test_an_unscheduled_program_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed, match=r"TW0609.*unscheduled program does not run\n.*[Mm]emory"):
        Measurer(big_task(), Limits(memory=1 << 30))


def big_task() -> autotune.Task:
    from tilewright import te

    a = te.placeholder((1 << 20,), name="A")
    return autotune.Task.of([a, te.compute((1 << 20, 1 << 12), lambda i, j: a[i] + te.const(1.0, "float32"), name="B")])


def test_inputs_are_checked_and_used(tmp_path: Path) -> None:
    with pytest.raises(WrongInputs, match=r"TW0610.*the array for A is int64"):
        Measurer(faults.task(), LIMITS, inputs=[np.arange(64)])
    with pytest.raises(WrongInputs, match="TW0610: 0 arrays for 1 input"):
        Measurer(faults.task(), LIMITS, inputs=[])
    with Measurer(faults.task(), LIMITS, inputs=[np.arange(64, dtype="float32")]) as measurer:
        wanted = np.fromfile(measurer.folder / "1", np.float32)
    np.testing.assert_array_equal(wanted, np.arange(64) * 2)


TUNER = """
import sys
sys.path[:0] = [{tests!r}]
import autotune_faults as faults
from tilewright import autotune, te
a = te.placeholder((96, 96), name="A"); b = te.placeholder((96, 96), name="B"); k = te.reduce_axis((0, 96), name="k")
c = te.compute((96, 96), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
from tilewright.autotune import records
add = records.Database.add
def acknowledged(self, key, name, trial):
    add(self, key, name, trial)
    print(trial.uid, flush=True)
records.Database.add = acknowledged
autotune.tune([a, b, c], trials={trials}, database={database!r}, progress=False)
print("done", flush=True)
"""


def test_a_tuner_that_is_killed_loses_no_acknowledged_record_and_goes_on(tmp_path: Path) -> None:
    rng = drawn.rng("autotune kill")
    database, acknowledged, trials = tmp_path / "tune.sqlite", set[str](), 400
    for _ in range(drawn.count(1, 20)):
        program = TUNER.format(tests=str(Path(__file__).parents[1] / "support"), trials=trials, database=str(database))
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(int(rng.integers(1, 6))):
                acknowledged.add(process.stdout.readline().strip())
            time.sleep(float(rng.random()) * 0.1)
            process.kill()
            acknowledged |= {line.strip() for line in process.stdout if line.endswith("\n")}
        with Database(database) as opened:
            (task,) = opened.tasks()
            held = {trial.uid for trial in opened.trials(task.key)}
        assert "" not in acknowledged and acknowledged <= held
        assert len(held) >= len(acknowledged)
        assert workers_of(process.pid) == []
    program = TUNER.format(
        tests=str(Path(__file__).parents[1] / "support"), trials=len(held) + 2, database=str(database)
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert len(done.stdout.splitlines()) == 3, "two trials that were missing, and the end"


def workers_of(parent: int) -> list[int]:
    """Workers of a tuner that is gone: their command names its process. They end a moment after it."""
    for _ in range(50):
        found = []
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if b"tilewright.autotune.worker" in command and str(parent).encode() in command:
                found.append(int(entry.name))
        if not found:
            return []
        time.sleep(0.1)
    return found


def test_measure_and_faults_name_the_same_classes() -> None:
    assert all(f'"{kind}"' in (Failure.__doc__ or "") for kind, _ in faults.FAULTS.values())
