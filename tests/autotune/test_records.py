"""The database: whole keys, durable appends, damaged and foreign files, JSON lines."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import autotune_faults as faults
import pytest
import tilewright as tw
from tilewright import autotune
from tilewright.autoschedule.search.space import Config
from tilewright.autotune.errors import (
    BadRecordLine,
    CorruptDatabase,
    DatabaseBusy,
    ForeignDatabase,
    NoRecord,
    RecordDoesNotFit,
)
from tilewright.autotune.records import Database
from tilewright.autotune.trial import Trial

RECORDS = '[["unroll", 1, {"axis": {"axis": [1, 0]}}]]'
PARALLEL = '[["parallel", 1, {"axis": {"axis": [1, 0]}}]]'


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "tune.sqlite")


def test_trials_come_back_as_they_were_added(database: Database) -> None:
    key = faults.task().key
    one = Trial(RECORDS, 2e-3, Config("s", (("a", 1),)))
    other = Trial(PARALLEL, None, None, "crash", "SIGSEGV")
    for trial in (one, other, one):
        database.add(key, "B", trial)
    assert database.trials(key) == [one, other], "the same trial counts once"
    assert database.best(key) == one
    database.set_baseline(key, "B", 1.5)
    (task,) = database.tasks()
    assert (task.trials, task.failures, task.best, task.baseline, task.key) == (2, 1, 2e-3, 1.5, key)


def test_a_confirmed_time_replaces_the_first_one(database: Database) -> None:
    key = faults.task().key
    lucky, steady = Trial(RECORDS, 1e-3), Trial(PARALLEL, 2e-3)
    database.add(key, "B", lucky)
    database.add(key, "B", steady)
    database.confirm(key, {lucky.uid: 3e-3, steady.uid: 2.5e-3})
    found = database.best(key)
    assert found is not None and found.uid == steady.uid


def test_what_was_measured_side_by_side_goes_before_what_was_not(database: Database) -> None:
    task = faults.task()
    steady, lucky = faults.checked(task, RECORDS, 2e-3), faults.checked(task, PARALLEL, 1e-3)
    for trial in (steady, lucky):
        database.add(task.key, "B", trial)
    assert [trial.uid for trial in (database.best(task.key), database.candidates(task.key, 4)[1]) if trial] == [
        lucky.uid
    ] * 2
    database.confirm(task.key, {steady.uid: 2e-3})
    assert [trial.uid for trial in (database.best(task.key), database.candidates(task.key, 4)[1]) if trial] == [
        steady.uid
    ] * 2
    database.confirm(task.key, {lucky.uid: 3e-3})
    best = database.best(task.key)
    assert best is not None and best.uid == lucky.uid, "only the last comparison counts"


@pytest.mark.parametrize("field", ["workload", "target", "machine", "versions"])
def test_a_result_of_another_key_is_not_taken(database: Database, field: str) -> None:
    task = faults.task()
    database.add(replace(task.key, **{field: getattr(task.key, field) + " "}), "B", Trial(RECORDS, 1e-3))
    assert database.trials(task.key) == []
    reason = "nothing was tuned for this workload" if field == "workload" else f"same workload, but of {field} "
    with pytest.raises(NoRecord, match=f"TW0633.*\n.*{reason}"):
        autotune.best(faults.doubling(), database=database)


def test_best_and_build_take_the_fastest_record(database: Database) -> None:
    task = faults.task()
    database.add(task.key, "B", faults.checked(task, RECORDS, 1e-3))
    database.add(task.key, "B", faults.checked(task, PARALLEL, 2e-3))
    tensors = faults.doubling()
    assert "unrolled" in str(autotune.best(tensors, database=database))
    kernel = tw.build(tensors, tuned=database)
    assert kernel.source("ir").count("B[") == 64
    plain = tw.build(tensors)
    assert plain.source("ir").count("B[") == 1


def test_build_without_a_record_takes_the_rules_and_a_missing_file_is_warned_of(
    tmp_path: Path, database: Database
) -> None:
    assert tw.build(faults.doubling(), tuned=database.path).source("ir").count("B[") == 1
    with pytest.warns(tw.PerformanceWarning, match=r"there is no database .*nowhere") as told:
        tw.build(faults.doubling(), tuned=tmp_path / "nowhere.sqlite")
    assert told[0].filename == __file__, "the line that asked"
    assert not (tmp_path / "nowhere.sqlite").exists()
    with pytest.raises(NoRecord, match="TW0633: there is no database"):
        autotune.best(faults.doubling(), database=tmp_path / "nowhere.sqlite")


def test_a_record_that_does_not_fit_is_an_error(database: Database) -> None:
    database.add(faults.task().key, "B", Trial(RECORDS.replace("[1, 0]", "[1, 7]"), 1e-3))
    with pytest.raises(RecordDoesNotFit, match="TW0636: the best record of B does not fit"):
        autotune.best(faults.doubling(), database=database)


@pytest.mark.parametrize("damage", ["noise", "page", "half"])
def test_a_damaged_file_is_an_error_and_stays_as_it_is(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "tune.sqlite"
    key = faults.task().key
    with Database(path) as database:
        for _ in range(200):
            database.add(key, "B", Trial(RECORDS, 1e-3, None, "", "x" * 200))
    good = path.read_bytes()
    assert len(good) > 40_000
    bad = {
        "noise": b"no database at all, " * 100,
        "page": good[:8192] + bytes(8192) + good[16384:],
        "half": good[: len(good) // 2],
    }
    path.write_bytes(bad[damage])
    with pytest.raises(CorruptDatabase, match=r"TW0631: the database .* is damaged(.|\n)*left as it is"):
        Database(path).trials(key)
    assert path.read_bytes() == bad[damage]


def test_a_file_of_another_program_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table trials (x)")
    before = path.read_bytes()
    with pytest.raises(ForeignDatabase, match=r"TW0632.*\n.*another program"):
        Database(path)
    assert path.read_bytes() == before


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatabaseBusy, match=r"TW0635.*\n.*unable to open"):
        Database(tmp_path / "no" / "tune.sqlite")


def test_two_connections_write_in_turn(database: Database) -> None:
    key = faults.task().key
    with Database(database.path) as second:
        for number in range(20):
            (database if number % 2 else second).add(key, "B", Trial(RECORDS, 1e-3))
        assert len(second.trials(key)) == 20


def test_export_and_import_are_inverse_and_importing_twice_adds_nothing(tmp_path: Path, database: Database) -> None:
    key = faults.task().key
    for trial in (
        Trial(RECORDS, 2e-3, Config("s", (("a", 1),))),
        Trial(PARALLEL, None, None, "crash", 'a "quoted"\nline'),
    ):
        database.add(key, "B", trial)
    database.set_baseline(key, "B", 0.5)
    lines = list(database.export_lines())
    with Database(tmp_path / "copy.sqlite") as copy:
        assert copy.import_lines(lines) == 2
        assert copy.import_lines([*lines, ""]) == 0
        assert list(copy.export_lines()) == lines
        assert copy.trials(key) == database.trials(key)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda plain: plain.pop("machine"), "KeyError: 'machine'"),
        (lambda plain: plain.update(seconds=-1.0), "a time is not a positive number"),
        (lambda plain: plain.update(failure="crash"), "either has a time or has failed"),
        (lambda plain: plain.update(records=[["unroll"]]), "ValueError|BadRecords"),
        (lambda plain: plain.update(uid=7), "a text is missing"),
    ],
)
def test_a_line_that_is_no_record_imports_nothing(database: Database, change: object, reason: str) -> None:
    database.add(faults.task().key, "B", Trial(RECORDS, 2e-3))
    (good,) = database.export_lines()
    plain = json.loads(good)
    change(plain)  # pyright: ignore[reportCallIssue]
    fresh = json.dumps(json.loads(good) | {"uid": "fresh"})
    with pytest.raises(BadRecordLine, match=rf"TW0634: line 2 is not a record\n.*({reason})"):
        database.import_lines([fresh, json.dumps(plain)])
    assert len(database.trials(faults.task().key)) == 1


def test_noise_is_no_line(database: Database) -> None:
    with pytest.raises(BadRecordLine, match=r"TW0634: line 1 is not a record\n.*JSONDecodeError"):
        database.import_lines(["{"])
