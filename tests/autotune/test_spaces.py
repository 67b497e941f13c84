"""Spaces: each has its own trials, though the program is one; results say which one they are of."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import autotune_faults as faults
import pytest
import tilewright as tw
from tilewright import autotune, te
from tilewright.autoschedule.search.space import Config
from tilewright.autotune.errors import NoRecord
from tilewright.autotune.outcome import Limits
from tilewright.autotune.records import Database
from tilewright.autotune.trial import Trial
from tilewright.cli.command import main

RECORDS = '[["unroll", 1, {"axis": {"axis": [1, 0]}}]]'
PARALLEL = '[["parallel", 1, {"axis": {"axis": [1, 0]}}]]'
QUICK: dict[str, Any] = {"limits": Limits(budget=0.002), "progress": False}


def template(factors: tuple[int, ...] = (2, 4), name: str = "split", does: str = "vectorize") -> autotune.Template:
    @autotune.template(name)
    def split(cfg, *_: object):
        tensors = faults.doubling()
        s = te.create_schedule(tensors[1].op)
        cfg.define_knob("factor", factors)
        _, inner = s[tensors[1]].split(tensors[1].op.axis[0], cfg["factor"].val)
        getattr(s[tensors[1]], does)(inner)
        return s, tensors

    return split


def test_a_template_is_tuned_where_the_rules_have_trials_of_its_program(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    plain = autotune.tune(faults.doubling(), trials=2, database=path, **QUICK)
    result = autotune.tune(template().task(), trials=2, database=path, **QUICK)
    assert {trial.config.space for trial in result.history if trial.config} == {"template:split"}
    assert "factor=2)" in result.schedule.as_python() or "factor=4)" in result.schedule.as_python()
    assert plain.space == "rules" and result.space.startswith("template:split() #")
    assert "2 trials of rules" in str(plain) and "2 trials of template:split()" in str(result)
    assert "template:split()" in result._repr_html_()
    with Database(path) as database:
        assert [(task.key.space, task.trials) for task in database.tasks()] == [("rules", 2), (result.space, 2)]
    best = autotune.best(template().task(), database=path)
    assert best.as_python() == result.schedule.as_python(), "and not what the rules gave"


def test_spaces_are_told_apart_by_all_that_defines_them() -> None:
    tasks = {
        "the rules": autotune.Task.of(faults.doubling()),
        "a template": template().task(),
        "another name": template(name="other").task(),
        "other knobs": template((2, 8)).task(),
        "more knobs": template((2, 4, 8)).task(),
        "other schedules": template(does="unroll").task(),
        "other arguments": template().task(3),
        "exact": autotune.Task.of(faults.doubling(), exact=True),
        "an exact template": autotune.Task.of(template().task(), exact=True),
    }
    keys = [task.key for task in tasks.values()]
    assert len({*keys}) == len(keys) and len({key.digest for key in keys}) == len(keys)
    assert template().task().key == template().task().key, "and found again"
    assert template().task(3, "x", None).key.space_name == "template:split(3, 'x', None)"


def test_code_that_differs_where_the_first_choice_does_not_is_another_space() -> None:
    def of(least: int) -> autotune.Template:
        @autotune.template("late")
        def late(cfg):
            tensors = faults.doubling()
            s = te.create_schedule(tensors[1].op)
            cfg.define_knob("factor", [2, 4])
            _, inner = s[tensors[1]].split(tensors[1].op.axis[0], cfg["factor"].val)
            if cfg["factor"].val > least:
                s[tensors[1]].unroll(inner)
            return s, tensors

        return late

    assert of(2).task().key != of(3).task().key


def test_a_rule_of_ones_own_makes_the_space_another_one() -> None:
    class Mine(tw.autoschedule.Rule):
        name = "mine"

        def matches(self, group: Any) -> bool:
            del group
            return False

        def apply(self, group: Any) -> None:
            del group

    plain = autotune.Task.of(faults.doubling()).key
    with tw.autoschedule.register(Mine()):
        own = autotune.Task.of(faults.doubling()).key
    assert own != plain and own.space_name == "rules and mine"
    assert autotune.Task.of(faults.doubling()).key == plain


def test_tensors_take_the_best_of_every_space_and_a_task_that_of_its_own(tmp_path: Path) -> None:
    rules, own = faults.task(), template().task()
    with Database(tmp_path / "t.sqlite") as database:
        database.add(own.key, "split", faults.checked(own, PARALLEL, 1e-3))
        assert "parallel" in autotune.best(faults.doubling(), database=database).as_python()
        with pytest.raises(NoRecord, match=r"TW0633.*\n.*of space 'template:split"):
            autotune.best(rules, database=database)
        database.add(rules.key, "B", faults.checked(rules, RECORDS, 5e-4))
        assert "unroll" in autotune.best(faults.doubling(), database=database).as_python()
        assert tw.build(faults.doubling(), tuned=database).source("ir").count("B[") == 64
        assert "parallel" in autotune.best(own, database=database).as_python()
        with pytest.raises(NoRecord, match="TW0633"):
            autotune.best(template((8,)).task(), database=database)


def test_lines_carry_the_space_and_earlier_ones_say_it_by_their_configuration(tmp_path: Path) -> None:
    task = template().task()
    trial = faults.checked(task, PARALLEL, 1e-3, config=Config("template:split", (("factor", 1),)))
    with Database(tmp_path / "t.sqlite") as database, Database(tmp_path / "other.sqlite") as other:
        database.add(task.key, "split", trial)
        (line,) = database.export_lines()
        assert other.import_lines([line]) == 1 and other.trials(task.key) == [trial]
        earlier = json.loads(line)
        assert earlier.pop("space") == task.key.space
        for uid, config in (
            ("a", earlier["config"]),
            ("b", {"space": "rules", "choices": {}, "features": []}),
            ("c", None),
        ):
            other.import_lines([json.dumps(earlier | {"uid": uid, "config": config})])
        spaces = {each.key.space: each.trials for each in other.tasks()}
        assert spaces == {task.key.space: 1, "template:split": 1, "rules": 2}


OLD = """
create table tasks (
    id integer primary key, digest text not null, name text not null, workload text not null, target text not null,
    machine text not null, versions text not null, baseline real, unique (workload, target, machine, versions));
create table trials (
    id integer primary key, uid text not null unique, task integer not null references tasks, config text not null,
    records text not null, seconds real, confirmed real, failure text not null, message text not null,
    created real not null, mark text not null default '');
create index trials_of_task on trials (task, seconds);
pragma application_id = 1417102402;
pragma user_version = 2;
pragma journal_mode = wal;
"""


def old_database(path: Path) -> list[Trial]:
    """A database of layout 2 in which the rules and a template share a task, beside another task."""
    task = faults.task()
    trials = [
        faults.checked(task, RECORDS, 2e-3, config=Config("rules", (("a", "b"),))),
        faults.checked(task, PARALLEL, 1e-3, config=Config("template:split", (("factor", 1),))),
        Trial(RECORDS, 3e-3),
    ]
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(OLD)
    for number, workload in ((2, "another"), (1, task.key.workload)):
        row = (number, "digest", "B", workload, task.key.target, task.key.machine, task.key.versions, 0.5)
        connection.execute("insert into tasks values (?, ?, ?, ?, ?, ?, ?, ?)", row)
    for number, trial in enumerate((*trials, replace(trials[2], uid="another's"))):
        config = json.dumps(None if trial.config is None else trial.config.plain())
        row = (trial.uid, 1 if number < 3 else 2, config, trial.records, trial.seconds, trial.created, trial.mark)
        connection.execute(
            "insert into trials (uid, task, config, records, seconds, failure, message, created, mark) "
            "values (?, ?, ?, ?, ?, '', '', ?, ?)",
            row,
        )
    connection.close()
    return trials


def test_a_database_of_the_layout_before_is_divided_by_spaces(tmp_path: Path) -> None:
    trials, task = old_database(tmp_path / "old.sqlite"), faults.task()
    for _ in range(2):
        with Database(tmp_path / "old.sqlite") as database:
            assert database.trials(task.key) == [trials[0], trials[2]]
            assert database.trials(replace(task.key, space="template:split")) == [trials[1]]
            assert [each.baseline for each in database.tasks()] == [0.5] * 3
            assert len(database.trials(replace(task.key, workload="another"))) == 1
            assert database.candidates(task.key, 4) == ([], trials[0]), "what was checked here counts as that"
            assert "parallel" in autotune.best(faults.doubling(), database=database).as_python()


def test_the_command_line_tells_the_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(
        "from tilewright import autotune, te\n"
        "def doubled():\n"
        "    a = te.placeholder((64,), name='A')\n"
        "    return [a, te.compute((64,), lambda i: a[i] * 2, name='B')]\n"
        "@autotune.template('mine')\n"
        "def mine(cfg):\n"
        "    a, b = doubled()\n"
        "    s = te.create_schedule(b.op)\n"
        "    cfg.define_knob('factor', [4])\n"
        "    s[b].vectorize(s[b].split(b.op.axis[0], cfg['factor'].val)[1])\n"
        "    return s, [a, b]\n"
    )
    for what, space in (("doubled", "rules"), ("mine", "template:mine()")):
        assert main(["tune", f"p.py:{what}", "--trials", "1"]) == 0
        assert f"after 1 trials of {space}" in capsys.readouterr().out
    assert main(["db", "ls"]) == 0
    listed = capsys.readouterr().out
    assert "    rules; llvm" in listed and "    template:mine(); llvm" in listed
    assert main(["db", "best", "--of", "p.py:mine"]) == 0
    assert "vectorize" in capsys.readouterr().out
