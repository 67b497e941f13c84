"""Measuring on a fleet: here a cluster of this process's own, whose machines end as those of Dask do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import autotune_faults as faults
import pytest
from tilewright import autotune, te, topi
from tilewright.autotune import fleet
from tilewright.autotune.errors import MissingPackage, RunnerLost
from tilewright.autotune.fleet import Answer, Fleet
from tilewright.autotune.outcome import Outcome
from tilewright.autotune.task import versions_text


class KilledWorker(Exception):
    """Dask's, of a task whose machines have ended several times."""


@dataclass
class Future:
    status: str
    value: Any = None

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return self.value

    def exception(self) -> Any:
        return self.value

    def cancel(self) -> None:
        pass


class Client:
    """A distributed.Client that answers at once. kills: how often a candidate's machines end before it is measured."""

    __module__ = "distributed.client"

    def __init__(
        self, kills: Callable[[int], int] = lambda number: 0, machine: Callable[[int], str] = lambda number: "m"
    ) -> None:
        self.kills, self.machine = kills, machine
        self.asked, self.numbers, self.keys = Counter[Any](), dict[Any, int](), set[str]()

    def scheduler_info(self) -> dict[str, Any]:
        return {"workers": {}}

    def submit(
        self, function: Any, *, pure: bool, key: str, question: str, texts: tuple[str, ...] = (), **more: Any
    ) -> Future:
        assert function is fleet.answered and not pure and key not in self.keys
        self.keys.add(key)
        self.asked[question, texts] += 1
        number = self.numbers.setdefault((question, texts), len(self.numbers))
        if question == "measure" and self.asked[question, texts] <= self.kills(number):
            return Future("error", KilledWorker("the worker died"))
        values = {
            "facts": None,
            "baseline": 1.0,
            "measure": Outcome((1e-3 * (1 + len("".join(texts)) % 7),) * 5),
            "rivals": [[1e-3] * 5 for _ in texts],
        }
        return Future("finished", Answer(self.machine(number), versions_text(), values[question]))


def test_what_a_machine_does_not_outlive_is_measured_by_another_once(tmp_path: Path) -> None:
    client = Client(kills=lambda number: number % 4)
    result = autotune.tune(
        faults.doubling(), trials=6, database=tmp_path / "tune.sqlite", runner=client, search="random"
    )
    trials = result.history
    assert len({trial.uid for trial in trials}) == len({trial.records for trial in trials}) == len(trials) > 3
    assert result.failures == {} and result.task.key.machine == "m"
    measured = [times for (question, _), times in client.asked.items() if question == "measure"]
    assert len(measured) == len(trials), "each once"
    assert result.losses == {"killed": sum(measured) - len(measured)} and result.losses["killed"] > 2


def test_as_many_as_were_asked_for_are_measured_where_there_are_as_many(tmp_path: Path) -> None:
    A, B = te.placeholder((128, 130), name="A"), te.placeholder((130, 126), name="B")
    program = [A, B, topi.nn.relu(topi.matmul(A, B))]  # of some 57 candidates
    result = autotune.tune(program, trials=40, database=tmp_path / "tune.sqlite", runner=Client(), seed=2)
    assert len(result.history) == 40 and not result.is_exhausted


def test_a_candidate_that_no_machine_outlives_has_failed(tmp_path: Path) -> None:
    client = Client(kills=lambda number: 99 if number == 4 else 0)
    result = autotune.tune(faults.doubling(), trials=4, database=tmp_path / "tune.sqlite", runner=client)
    assert result.failures == {"lost": 1} and len(result.history) == 4


def test_a_fleet_that_has_gone_or_whose_machines_differ_ends_the_tuning_and_keeps_what_came(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mixed = Client(machine=lambda number: "m" if number < 4 else "another")
    with pytest.raises(RunnerLost, match=r"TW0613(.*\n)*.*'another'.*others are 'm'"):
        autotune.tune(faults.doubling(), trials=6, database=tmp_path / "tune.sqlite", runner=mixed)
    with autotune.Database(tmp_path / "tune.sqlite") as database:
        assert [task.trials for task in database.tasks()] == [2]
    gone = Client()
    monkeypatch.setattr(gone, "submit", lambda *args, **options: Future("cancelled"))
    with pytest.raises(RunnerLost, match="the scheduler does not respond"), Fleet(gone):
        pass


def test_a_machine_measures_what_it_is_told_and_tells_what_is_wrong() -> None:
    workload = fleet.Workload.of(faults.task())
    limits = fleet.Limits(timeout=20.0, budget=0.005, workers=1)
    answer = fleet.answered("measure", "one", workload, limits, (faults.RIGHT,))
    assert (
        answer.error == ""
        and answer.value.seconds is not None
        and answer.machine
        and answer.versions == versions_text()
    )
    broken = fleet.answered("measure", "one", workload, limits, (faults.FAULTS["killed"][1],))
    assert broken.value.failure.kind == "killed"
    assert list(fleet._held) == ["one"]  # pyright: ignore[reportPrivateUsage]
    fleet._held.popitem()[1].close()  # pyright: ignore[reportPrivateUsage]


def test_without_dask_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(fleet, "import_module", missing)
    with pytest.raises(MissingPackage, match=r'TW0611(.*\n)*.*pip install "tilewright\[fleet\]"'):
        autotune.tune(faults.doubling(), runner="tls://127.0.0.1:8786")


def test_tls_without_certificates_is_an_error_of_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: object, **__: object) -> None:
        raise TypeError("TLS expects a `ssl_context` argument")

    monkeypatch.setattr(fleet, "import_module", lambda _: SimpleNamespace(Client=refusing))
    with pytest.raises(RunnerLost, match=r"TW0613(.*\n)*.*tls://127.0.0.1:8786: TLS expects"):
        autotune.tune(faults.doubling(), runner="tls://127.0.0.1:8786")
