"""Records are data: what a text may say, that it is checked before it is used, and what a database from somewhere may be."""

from __future__ import annotations

import json
import os
import sqlite3
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import autotune_faults as faults
import numpy as np
import pytest
import tilewright as tw
from tilewright import autotune, te
from tilewright.autotune import record_lookup, trial_marks
from tilewright.autotune.errors import BadRecordLine, CorruptDatabase, ForeignDatabase, NoRecord, WrongRecord
from tilewright.autotune.json_lines import Line, write_line
from tilewright.autotune.measure import Measurer
from tilewright.autotune.records import Database
from tilewright.autotune.trial import Trial
from tilewright.schedule import from_json, to_json

AXIS = {"axis": [1, 0]}
RIGHT = '[["unroll", 1, {"axis": {"axis": [1, 0]}}]]'
PARALLEL = '[["parallel", 1, {"axis": {"axis": [1, 0]}}]]'
SPLIT = {"parent": AXIS, "factor": 7, "nparts": None, "disable_predication": False}
NEVER = {"expr": {"node": "IntImm", "of": [0, {"dtype": "bool"}]}}

REFUSED: dict[str, tuple[Any, str]] = {
    "C of its own": (
        ["pragma", 1, {"axis": AXIS, "pragma_type": "import_c", "pragma_value": "int f;"}],
        "pragma_type of",
    ),
    "LLVM IR": (
        ["pragma", 1, {"axis": AXIS, "pragma_type": "import_llvm", "pragma_value": "x"}],
        "pragma_type of pragma is",
    ),
    "work left out": (
        ["pragma", 1, {"axis": AXIS, "pragma_type": "debug_skip_region", "pragma_value": None}],
        "pragma_type of",
    ),
    "a false predicate": (["set_store_predicate", 1, {"predicate": NEVER}], "could change what is computed"),
    "no guard": (["split", 1, SPLIT | {"disable_predication": True}], "disable_predication of split is True"),
    "a size beyond all": (
        ["split", 1, SPLIT | {"factor": 1 << 40}],
        "factor of split is 1099511627776, and a text may give",
    ),
    "a truth for a size": (["split", 1, SPLIT | {"factor": True}], "factor of split is True"),
    "an expression for a size": (
        ["split", 1, SPLIT | {"factor": {"expr": {"symbol": [0]}}}],
        "factor of split is ExprRef",
    ),
    "an unrolling without end": (
        ["pragma", 1, {"axis": AXIS, "pragma_type": "auto_unroll_max_step", "pragma_value": 1 << 30}],
        "pragma_value of pragma",
    ),
    "padding without end": (
        ["storage_align", 1, {"axis": AXIS, "factor": 1 << 30, "offset": 0}],
        "factor of storage_align is",
    ),
    "an intrinsic of somebody's": (
        ["tensorize", 1, {"axis": AXIS, "intrinsic": {"intrinsic": ["x", None]}}],
        "intrinsic of",
    ),
    "no primitive": (["__init__", 1, {}], "there is no primitive '__init__'"),
    "an argument too many": (["unroll", 1, {"axis": AXIS, "stage": 1}], "unroll has no argument 'stage'"),
    "a place below zero": (["unroll", 1, {"axis": {"axis": [1, -1]}}], "-1 is not a place"),
    "a place that is not a number": (["unroll", "1", {"axis": AXIS}], "'1' is not a place"),
    "a node that is none": (
        [
            "transform_layout",
            1,
            {"mapping_function": {"layout": [["i"], ["int32"], [{"expr": {"node": "Add", "of": [1, 2]}}]]}},
        ],
        "Add is not made of",
    ),
    "a call for an index": (
        [
            "transform_layout",
            1,
            {
                "mapping_function": {
                    "layout": [["i"], ["int32"], [{"expr": {"node": "Call", "of": ["f", [], {"dtype": "int32"}]}}]]
                }
            },
        ],
        "mapping_function of transform_layout",
    ),
}


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "tune.sqlite")


def line(records: Any = None, **changes: Any) -> str:
    """A line of the task that doubles."""
    trial = Trial(RIGHT if records is None else json.dumps(records), 1e-9)
    return json.dumps(json.loads(write_line(Line(faults.task().key, "B", None, trial))) | changes)


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_text_may_not_say_is_refused_with_its_line(database: Database, case: str) -> None:
    record, reason = REFUSED[case]
    with pytest.raises(BadRecordLine, match=f"TW0634: line 2 is not a record(.|\n)*{reason}"):
        database.import_lines([line(), line([["compute_root", 1, {}], record])])
    assert database.tasks() == [], "nothing was imported"


@pytest.mark.parametrize("case", ["C of its own", "a false predicate", "no guard"])
def test_what_a_database_may_not_say_is_refused_when_it_is_used(database: Database, case: str) -> None:
    database.add(faults.task().key, "B", Trial(json.dumps([REFUSED[case][0]]), 1e-9))
    with pytest.warns(tw.PerformanceWarning, match=f"does not fit(.|\n)*{REFUSED[case][1]}"):
        kernel = tw.build(faults.doubling(), tuned=database)
    assert_doubles(kernel)
    (trial,) = database.trials(faults.task().key)
    assert (trial.seconds, trial.failure) == (None, "refused"), "so it is not tried again"


def test_c_in_a_record_does_not_run(database: Database, tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    text = (
        f'#include <stdio.h>\n__attribute__((constructor)) static void f(void) {{ fclose(fopen("{witness}", "w")); }}'
    )
    record = ["pragma", 1, {"axis": AXIS, "pragma_type": "import_c", "pragma_value": text}]
    database.add(faults.task().key, "B", Trial(json.dumps([record]), 1e-9))
    with pytest.warns(tw.PerformanceWarning, match="does not fit"):
        tw.build(faults.doubling(), tuned=database)
    assert not witness.exists()


def assert_doubles(kernel: Any) -> None:
    a, b = np.arange(64, dtype=np.float32), np.empty(64, np.float32)
    kernel(a, b)
    np.testing.assert_array_equal(b, a * 2)


def test_users_replay_what_they_like() -> None:
    tensors = faults.doubling()
    s = te.create_schedule(tensors[-1].op)
    s[tensors[-1]].set_store_predicate(tensors[-1].op.axis[0] < 5)
    records = from_json(to_json(s.trace))
    assert to_json(te.Schedule.replay(records, tensors[-1]).trace) == to_json(s.trace)


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '[["unroll", 1, {"axis": ' + '{"a":' * 200_000, '[["' + "x" * (2 << 20) + '"]]']
)
@pytest.mark.parametrize("foreign", [False, True])
def test_texts_without_end_are_refused_before_they_are_parsed(text: str, foreign: bool) -> None:
    with pytest.raises(tw.ScheduleError, match=r"TW0223: the text holds no records\n.*(nested deeper|longer) than"):
        from_json(text, foreign)


# Checked before it is used


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many candidates each measurement had."""
    counts: list[int] = []
    measure = Measurer.measure

    def counted(self: Measurer, functions: Any, best: float | None = None) -> Any:
        counts.append(len(functions))
        return measure(self, functions, best)

    monkeypatch.setattr(Measurer, "measure", counted)
    return counts


def test_an_imported_record_is_checked_once_and_marked(database: Database, measured: list[int]) -> None:
    database.import_lines([line()])
    for _ in range(2):
        kernel = tw.build(faults.doubling(), tuned=database.path)
        assert kernel.source("ir").count("B[") == 64, "the record is used"
        assert_doubles(kernel)
    assert measured == [1]
    (trial,) = database.trials(faults.task().key)
    assert trial.mark and trial.time is not None and trial.time > 1e-9, "and its time is measured here, not believed"


def test_a_record_that_computes_something_else_is_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        record_lookup, "from_json", lambda text, foreign: from_json(text)
    )  # as if a primitive were not safe
    database.add(faults.task().key, "B", Trial(json.dumps([["set_store_predicate", 1, {"predicate": NEVER}]]), 1e-9))
    assert database.candidates(faults.task().key, 4)[1] is None
    with pytest.raises(
        WrongRecord, match=r"TW0637: the best record of B is refused: wrong output\n.*64 of 64 elements differ"
    ):
        autotune.best(faults.doubling(), database=database)
    with pytest.raises(NoRecord, match="TW0633"):
        autotune.best(faults.doubling(), database=database)


def test_of_several_the_wrong_one_is_warned_of_and_the_right_one_is_used(
    database: Database, measured: list[int]
) -> None:
    task = faults.task()
    database.add(task.key, "B", Trial(json.dumps([REFUSED["no guard"][0]]), 1e-9))
    database.add(task.key, "B", faults.checked(task, RIGHT, 1.0))
    with pytest.warns(tw.TilewrightWarning, match="a record of B is refused"):
        schedule = autotune.best(faults.doubling(), database=database)
    assert "unroll" in to_json(schedule.trace) and measured == []


@pytest.mark.parametrize("change", ["records", "workload", "folder"])
def test_a_mark_of_something_else_says_nothing(
    database: Database,
    change: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    task = faults.task()
    key = replace(task.key, workload="another") if change == "workload" else task.key
    trial = Trial(RIGHT, 1e-3, mark=trial_marks.make_mark(key, PARALLEL if change == "records" else RIGHT))
    if change == "folder":
        monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "of another machine"))
    database.add(task.key, "B", trial)
    assert database.candidates(task.key, 4) == ([trial], None)


def test_marks_hold_in_the_next_process_and_their_secret_is_the_users_alone(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    key = faults.task().key
    mark = trial_marks.make_mark(key, RIGHT)
    trial_marks._secret.cache_clear()  # as in another process
    assert trial_marks.make_mark(key, RIGHT) == mark
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and file.stat().st_size == 32
    file.chmod(0o644)
    trial_marks._secret.cache_clear()
    assert trial_marks.make_mark(key, RIGHT) != mark, "others could have read it"


def test_marks_survive_export_and_import(database: Database, tmp_path: Path) -> None:
    task = faults.task()
    database.add(task.key, "B", faults.checked(task, RIGHT, 1e-3))
    with Database(tmp_path / "other.sqlite") as other:
        assert (other.merge(database), other.merge(database)) == (1, 0)
        assert other.candidates(task.key, 4)[1] == database.trials(task.key)[0]


# Databases from somewhere


def test_a_database_of_the_first_layout_is_taken_and_its_records_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with Database(path) as database:
        database.add(faults.task().key, "B", faults.checked(faults.task(), RIGHT, 1e-3))
    with sqlite3.connect(path) as connection:
        connection.execute("alter table trials drop column mark")
        connection.execute("pragma user_version = 1")
    connection.close()
    for _ in range(2):
        with Database(path) as database:
            assert [trial.mark for trial in database.trials(faults.task().key)] == [""]


SCHEMAS: dict[str, str] = {
    "a trigger": "create trigger t after insert on trials begin delete from tasks; end",
    "a view": "create view v as select * from trials",
    "a table more": "create table more (x)",
    "a column more": "alter table trials add column more",
    "a hidden column": "alter table tasks add column more text generated always as (abs(1)) virtual",
}


@pytest.mark.parametrize("case", SCHEMAS)
def test_a_database_with_tables_of_somebodys_is_refused(tmp_path: Path, case: str) -> None:
    path = tmp_path / "tune.sqlite"
    Database(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(SCHEMAS[case])
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ForeignDatabase, match=r"TW0632.*\n.*it does not have tilewright's tables"):
        Database(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, partial(os.symlink, "/dev/zero")])
def test_what_is_no_file_is_no_database(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x")
    with pytest.raises(ForeignDatabase, match=r"TW0632.*\n.*it is not a file"):
        Database(tmp_path / "x")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("records", b"\xff\xfe"),
        ("seconds", "soon"),
        ("seconds", -1.0),
        ("seconds", float("inf")),
        ("created", "now"),
        ("uid", b"u"),
        ("message", b"\0"),
        ("config", "[" * 100_000),
        ("config", '{"sketch": NaN}'),
        ("mark", b""),
    ],
)
def test_values_of_other_types_are_damage(database: Database, column: str, value: object) -> None:
    key = faults.task().key
    database.add(key, "B", Trial(RIGHT, 1e-3))
    with sqlite3.connect(database.path) as connection:
        connection.execute(f"update trials set {column} = ?", (value,))
    connection.close()
    with pytest.raises(CorruptDatabase, match="TW0631"):
        database.trials(key)
    with pytest.raises(CorruptDatabase, match="TW0631"):
        database.best(key)


def test_a_warning_about_a_hostile_name_moves_no_cursor(database: Database) -> None:
    a = te.placeholder((8,), name="A")
    tensors = [a, te.compute((8,), lambda i: a[i] + 1, name="\x1b[2J\x9b\u202eB")]
    database.add(autotune.Task.of(tensors).key, "B", Trial('[["unroll", 1, {"axis": {"axis": [1, 9]}}]]', 1e-3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tw.build(tensors, tuned=database)
    said = "".join(str(warning.message) for warning in caught)
    assert r"\x1b[2J" in said and not {"\x1b", "\x9b", "\u202e"} & {*said}
