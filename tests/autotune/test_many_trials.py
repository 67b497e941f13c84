"""Databases of many trials: what is asked of them often takes no longer for it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import autotune_faults as faults
import drawn
import pytest
from tilewright import autotune
from tilewright.autoschedule.search.space import Config
from tilewright.autotune.json_lines import Line, write_line
from tilewright.autotune.records import Database
from tilewright.autotune.report import render
from tilewright.autotune.trial import Trial
from tilewright.autotune.trial_marks import make_mark
from tilewright.autotune.tuner import RECALLED

RECORDS = '[["unroll", 1, {"axis": {"axis": [1, 0]}}]]'
COUNT = drawn.count(3_000, 100_000)
LIMIT = 0.05
"""Seconds of this thread."""


def fill(path: Path, mark: str, confirmed: float | None = None) -> Database:
    """Many trials, the fastest last; only the slowest one is confirmed, if any."""
    key, config = faults.task().key, Config("rules", (("a", "b"),))
    database = Database(path)
    trials = (Trial(RECORDS, 1e-3 * (2 - at / COUNT), config, mark=mark, uid=str(at)) for at in range(COUNT))
    lines = [write_line(Line(key, "B", None, trial)) for trial in trials]
    database.import_lines(lines)
    if confirmed is not None:
        database.confirm(key, {"0": confirmed})
    return database


def seconds_of(function: Callable[[], object]) -> float:
    """The least of three, of this thread."""
    times: list[float] = []
    for _ in range(3):
        start = time.thread_time()
        function()
        times.append(time.thread_time() - start)
    return min(times)


@pytest.mark.parametrize("confirmed", [None, 1.0])
@pytest.mark.parametrize("whose", drawn.part(["own", "another machine's", "nobody's"], 2))
def test_the_best_of_many_trials_is_found_at_once(tmp_path: Path, whose: str, confirmed: float | None) -> None:
    key = faults.task().key
    mark = {"own": make_mark(key, RECORDS), "another machine's": "0" * 64, "nobody's": ""}[whose]
    with fill(tmp_path / "t.sqlite", mark, confirmed) as database:
        others, best = database.candidates(key, 4)
        if whose == "own":
            assert best is not None and best.uid == ("0" if confirmed else str(COUNT - 1)) and others == []
        else:
            assert best is None and [trial.uid for trial in others] == [str(COUNT - 1 - at) for at in range(4)]
        fastest = database.best(key)
        assert fastest is not None and fastest.uid == ("0" if confirmed else str(COUNT - 1))
        assert seconds_of(lambda: database.candidates(key, 4)) < LIMIT
        assert seconds_of(lambda: database.best(key)) < LIMIT
        assert seconds_of(database.tasks) < LIMIT
        assert seconds_of(lambda: database.confirm(key, {"0": 1.0})) < LIMIT
    if whose == "own":
        assert seconds_of(lambda: autotune.best(faults.doubling(), database=tmp_path / "t.sqlite")) < LIMIT


def test_a_resumed_tuning_makes_few_candidates_again(tmp_path: Path) -> None:
    key = faults.task().key
    with fill(tmp_path / "t.sqlite", "") as database:
        recalled = database.extremes(key, RECALLED)
        assert len(recalled) == RECALLED // 2, "here the fastest are the latest"
        assert [trial.uid for trial in recalled] == [str(at) for at in range(COUNT - RECALLED // 2, COUNT)]
        database.add(key, "B", Trial(RECORDS, None, None, "crash", "", uid="last"))
        assert [trial.uid for trial in database.extremes(key, 4)] == [str(COUNT - 2), str(COUNT - 1), "last"]
        assert database.extremes(key, COUNT + 1) == database.trials(key)


def test_the_page_draws_some_of_many_trials_and_says_so(tmp_path: Path) -> None:
    with fill(tmp_path / "t.sqlite", "") as database:
        database.add(faults.task().key, "B", Trial(RECORDS, 1e-4))
        page = render(database)
    assert page.count("<circle") > COUNT - 2, "each one was the best so far"
    with Database(tmp_path / "u.sqlite") as database:
        database.merge(fill(tmp_path / "v.sqlite", ""))
        with sqlite3.connect(tmp_path / "u.sqlite") as connection:
            connection.execute("update trials set seconds = 1e-3")
        connection.close()
        page = render(database)
    assert 1000 < page.count("<circle") <= 2001 and "Drawn: one of" in page
