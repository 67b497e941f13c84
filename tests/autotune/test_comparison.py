"""What is called best: never anything that does not beat the rules' choice, run in turn with it, and not for other load's sake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from zlib import crc32

import pytest
import tilewright as tw
from tilewright import autotune, te
from tilewright.autoschedule.search.space import Config
from tilewright.autotune.comparison import Comparison, Load, beats
from tilewright.autotune.measure import Done
from tilewright.autotune.outcome import Failure, Outcome
from tilewright.autotune.records import Database
from tilewright.autotune.trial import Trial
from tilewright.autotune.trial_marks import make_mark
from tilewright.autotune.tuner import _others  # pyright: ignore[reportPrivateUsage]
from tilewright.schedule import to_json

QUIET = Load(0.0)


def sums(extent: int = 24) -> list[te.Tensor]:
    """Sums over two axes, for which there are many ways."""
    a, b = te.placeholder((extent, 5, 9), name="A"), te.placeholder((5, 17, 9), name="B")
    k, m = te.reduce_axis((0, 5), "k"), te.reduce_axis((0, 9), "m")
    return [a, b, te.compute((extent, 17), lambda i, j: te.sum(a[i, k, m] * b[k, j, m], axis=[k, m]), name="C")]


class Pretended:
    """A Measurer that runs nothing: times are a function of the text. rivals: what running in turn gives, of the texts."""

    first: Callable[[str], float | None]
    rivals_of: Callable[[Sequence[str]], list[list[float]] | None]

    def __init__(self, *_: Any) -> None:
        self.baseline = 1.0
        self.losses = Counter[str]()

    def __enter__(self) -> Pretended:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def measure(
        self, texts: Sequence[str], best: float | None, meanwhile: Callable[[], None], done: Done
    ) -> list[Outcome]:
        meanwhile()
        times = [type(self).first(text) for text in texts]
        outcomes = [
            Outcome(failure=Failure("crash", "SIGSEGV")) if seconds is None else Outcome((seconds,) * 3)
            for seconds in times
        ]
        for number, outcome in enumerate(outcomes):
            done(number, outcome)
        return outcomes

    def rivals(self, texts: Sequence[str]) -> list[list[float]] | None:
        return type(self).rivals_of(texts)


def made_up(text: str) -> float:
    """A time that differs clearly from all other times, or not at all."""
    return 1e-3 * (1 + crc32(text.encode()) % 16)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> type[Pretended]:
    class Fresh(Pretended):
        first = staticmethod(made_up)
        rivals_of = staticmethod(lambda texts: [[made_up(text)] * 8 for text in texts])

    monkeypatch.setattr("tilewright.autotune.runners.Measurer", Fresh)
    monkeypatch.setattr("tilewright.autotune.runners.Load.measure", lambda: QUIET)
    return Fresh


def tuned(path: Path, trials: int = 12, **more: Any) -> autotune.Result:
    return autotune.tune(sums(), trials=trials, database=path / "t.sqlite", progress=False, **more)


def usual_records() -> str:
    return to_json(tw.autoschedule.schedule(sums()[-1]).records)


def test_the_rules_choice_is_measured_first_and_the_fastest_is_the_result(
    tmp_path: Path, pretended: type[Pretended]
) -> None:
    result = tuned(tmp_path)
    assert result.history[0].records == usual_records() and len(result.history) == 12
    times = [trial.seconds for trial in result.history if trial.seconds is not None]
    assert result.best.seconds == min(times) and result.comparison is not None
    assert result.comparison.gain == pytest.approx(times[0] / min(times))
    assert not result.comparison.is_noisy and "busy" not in repr(result)


def test_what_was_lucky_once_is_not_the_result(tmp_path: Path, pretended: type[Pretended]) -> None:
    usual = str(tw.lower(tw.autoschedule.schedule((tensors := sums())[-1]), tensors))
    pretended.first = staticmethod(lambda text: 2e-3 if text == usual else 1e-3 * (1 + len(text) % 7 / 100))
    pretended.rivals_of = staticmethod(lambda texts: [[2e-3 if text == usual else 2.1e-3] * 8 for text in texts])
    result = tuned(tmp_path)
    assert to_json(result.best.records) == usual_records()
    assert result.comparison is not None and result.comparison.gain == 1 and "was not beaten" in repr(result)
    assert to_json(tuned(tmp_path).best.records) == usual_records(), "also when nothing is measured any more"


def test_the_rules_choice_is_kept_where_candidates_fail(tmp_path: Path, pretended: type[Pretended]) -> None:
    usual = str(tw.lower(tw.autoschedule.schedule((tensors := sums())[-1]), tensors))
    pretended.first = staticmethod(lambda text: 2e-3 if text == usual else None)
    result = tuned(tmp_path, trials=6)
    assert to_json(result.best.records) == usual_records()
    assert set(result.failures) == {"crash"} and result.failures["crash"] >= 3, (
        "of five others; some lead to the same loops"
    )


def test_beside_other_load_one_thread_does_not_win_for_that_and_the_load_is_told(
    tmp_path: Path,
    pretended: type[Pretended],
) -> None:
    parallel, serial = [1.0e-3, *[9e-3] * 7], [1.8e-3] * 8
    assert not beats(serial, parallel), "on a quiet machine the parallel one takes 1 ms"
    assert beats([0.9e-3, *[5e-3] * 7], parallel) and not beats([1.0e-3, *[8.9e-3] * 7], parallel)
    usual = str(tw.lower(tw.autoschedule.schedule((tensors := sums())[-1]), tensors))
    pretended.rivals_of = staticmethod(lambda texts: [parallel if text == usual else serial for text in texts])
    result = tuned(tmp_path)
    assert to_json(result.best.records) == usual_records()
    assert result.comparison is not None and result.comparison.is_noisy and "the machine was busy" in repr(result)


def test_while_the_machine_is_busy_one_thread_does_not_beat_several(tmp_path: Path, pretended: type[Pretended]) -> None:
    def doubled() -> list[te.Tensor]:
        a = te.placeholder((1 << 18,), name="A")
        return [a, te.compute((1 << 18,), lambda i: a[i] * 2, name="B")]

    def is_parallel(text: str) -> bool:
        return "parallel(" in text

    shaken, serial = [1e-3, *[2e-3] * 7], [0.9e-3] * 8
    for name, parallel in (("busy", shaken), ("quiet", [1e-3] * 8)):
        pretended.first = staticmethod(lambda text: 1e-3 if is_parallel(text) else 0.9e-3)
        pretended.rivals_of = staticmethod(
            lambda texts, parallel=parallel: [parallel if is_parallel(text) else serial for text in texts]
        )
        result = autotune.tune(doubled(), trials=8, database=tmp_path / f"{name}.sqlite", progress=False)
        assert is_parallel(str(tw.lower(result.schedule, result.task.args))) == (name == "busy")


def test_load_is_told_by_the_spread_and_by_what_waits() -> None:
    steady, shaken = (1e-3,) * 8, (1e-3, *[2e-3] * 7)
    assert not Comparison(steady, steady, QUIET).is_noisy
    assert Comparison(shaken, shaken, QUIET).is_noisy and Comparison(shaken, shaken, QUIET).spread == pytest.approx(1.0)
    assert Comparison(steady, steady, Load(99.0)).is_noisy and "load 99.0" in str(
        Comparison(steady, steady, Load(99.0))
    )


def test_one_seed_gives_one_history(tmp_path: Path, pretended: type[Pretended]) -> None:
    histories: list[list[str]] = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        histories.append([trial.records for trial in tuned(tmp_path / name, 20, seed=1).history])
    assert histories[0] == histories[1] and len(set(histories[0])) == len(histories[0])


def test_records_of_other_rules_are_counted_and_learnt_from_no_more(tmp_path: Path, pretended: type[Pretended]) -> None:
    task = autotune.Task.of(sums())
    strange = [Config("rules", (("sums of gone", "by magic"),)), Config("template:other", (("tile", 3),)), None]
    with Database(tmp_path / "t.sqlite") as database:
        for at, config in enumerate(strange):
            records = f'[["unroll", 2, {{"axis": {{"axis": [2, {at}]}}}}]]'
            database.add(task.key, "C", Trial(records, 9.0, config, mark=make_mark(task.key, records)))
    result = tuned(tmp_path, 10)
    assert len(result.history) == 10 and result.comparison is not None


def test_what_was_measured_of_other_functions_warms_the_model_up(tmp_path: Path, pretended: type[Pretended]) -> None:
    tuned(tmp_path, 9)
    with Database(tmp_path / "t.sqlite") as database:
        other = autotune.Task.of(sums(31))
        known = _others(database, other)
        assert [each.rows.shape[0] for each in known] == [9] and known[0].seconds.min() < known[0].seconds.max()
        assert not _others(database, autotune.Task.of(sums())), "its own trials are no others"
    result = autotune.tune(sums(31), trials=9, database=tmp_path / "t.sqlite", progress=False)
    assert len(result.history) == 9
