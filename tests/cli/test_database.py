"""`tilewright db`: what it prints, adds, removes and finds, and that nothing hostile moves a cursor."""

from __future__ import annotations

import json
from pathlib import Path

import autotune_faults as faults
import pytest
from rich.console import Console
from tilewright import te
from tilewright.autotune.json_lines import Line, write_line
from tilewright.autotune.progress import Progress
from tilewright.autotune.records import Database
from tilewright.autotune.report import render
from tilewright.autotune.task import Key
from tilewright.autotune.trial import Trial
from tilewright.cli.command import main
from tilewright.schedule import Schedule, to_json
from tilewright.schedule.model.positional_code import write_positional_code

RIGHT = '[["split", 1, {"parent": {"axis": [1, 0]}, "factor": 8, "nparts": null, "disable_predication": false}]]'
EVIL = "\x1b[2J\x9b31m\x07\u202e\nB"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fill(path: str, *trials: Trial, key: Key | None = None, name: str = "B") -> None:
    with Database(path) as database:
        for trial in trials:
            database.add(key or faults.task().key, name, trial)


def test_import_reads_logs_into_the_database(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [write_line(Line(faults.task().key, "B", 0.5, Trial(RIGHT, seconds))) for seconds in (1e-3, 2e-3, 3e-3)]
    Path("one.jsonl").write_text("".join(f"{line}\n" for line in lines[:2]))
    Path("two.jsonl").write_text("\n".join(lines[1:]))
    assert main(["db", "import", "one.jsonl", "two.jsonl"]) == 0
    assert [said.split(" in ")[0] for said in capsys.readouterr().err.splitlines()] == [
        "2 new trials from one.jsonl",
        "1 new trials from two.jsonl",
    ]
    with Database("tune.sqlite", must_exist=True) as database:
        assert [trial.seconds for trial in database.trials(faults.task().key)] == [1e-3, 2e-3, 3e-3]
    assert main(["db", "import", "-d", "other.sqlite", "none.jsonl"]) == 1
    assert "TW0633: there is no file 'none.jsonl'" in capsys.readouterr().err and not Path("other.sqlite").exists()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            json.dumps({"input": ["llvm", "matmul", [512], {}], "config": {}, "result": [[0.1], 0, 1.0, 1.0]}),
            "a log of AutoTVM's",
        ),
        (json.dumps({"i": [["[]", "llvm"], [[], []]], "r": [[0.1], 0, 1.0, 1], "v": "v0.6"}), "TVM's auto_scheduler"),
        ("\x1b[2J", "line 1 is not a record"),
    ],
)
def test_logs_of_others_are_told_apart(line: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.log").write_text(line)
    assert main(["db", "import", "x.log"]) == 1
    said = capsys.readouterr().err
    assert "TW0634" in said and reason in said and "\x1b" not in said


def test_best_is_code_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    fill("tune.sqlite", Trial(RIGHT, 1e-3), Trial("[]", 2e-3))
    assert main(["db", "best"]) == 0
    code = capsys.readouterr().out
    assert code.startswith("# B (") and "1 ms" in code.splitlines()[0]
    scope = {"te": te, "ops": faults.doubling()[-1].op}
    exec(code, scope)
    made = scope["s"]
    assert isinstance(made, Schedule) and to_json(made.trace) == RIGHT


@pytest.mark.parametrize("command", ["ls", "best"])
def test_a_database_without_results_is_said_to_have_none(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    Database("tune.sqlite").close()
    assert main(["db", command]) == 1
    heard = capsys.readouterr()
    assert not heard.out and "TW0633: 'tune.sqlite' has no tasks" in heard.err and "tilewright tune" in heard.err


def test_code_by_places_says_what_every_record_says() -> None:
    a = te.placeholder((16, 24), name="A")
    b = te.compute((16, 24), lambda i, j: a[i, j] + 1, name="B")
    k = te.reduce_axis((0, 24), "k")
    c = te.compute((16,), lambda i: te.sum(b[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    s[b].transform_layout(lambda i, j: [j // 8, i, j % 8])
    cached = s.cache_read(a, "local", [b])
    group = s.create_group(b, a)
    i, _ = s[c].split(c.op.axis[0], 4)
    group.compute_at(s[c], i)
    s[cached].prefetch(a, s[cached].op.axis[0], 2)
    s[c].bind(i, te.thread_axis((0, 4), "blockIdx.x"))
    s[c].reorder(*s[c].leaf_iter_vars)
    s[c].pragma(s[c].leaf_iter_vars[-1], "unroll_explicit", True)
    scope = {"te": te, "ops": c.op}
    exec(write_positional_code(s.trace), scope)
    assert to_json(scope["s"].trace).replace("i0", "i").replace("i1", "j") == to_json(s.trace)


def test_merge_adds_what_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    shared = Trial(RIGHT, 1e-3)
    fill("one.sqlite", shared)
    fill("two.sqlite", shared, Trial("[]", 2e-3))
    assert main(["db", "merge", "one.sqlite", "two.sqlite"]) == 0
    assert [said.split(" in ")[0] for said in capsys.readouterr().err.splitlines()] == [
        "1 new trials from one.sqlite",
        "1 new trials from two.sqlite",
    ]
    assert main(["db", "merge", "none.sqlite"]) == 1 and not Path("none.sqlite").exists()


def test_gc_removes_what_other_versions_measured(capsys: pytest.CaptureFixture[str]) -> None:
    key = faults.task().key
    fill("tune.sqlite", Trial(RIGHT, 1e-3))
    fill(
        "tune.sqlite",
        Trial(RIGHT, 1e-3),
        Trial("[]", 1e-3),
        key=Key(key.workload, key.target, key.machine, "tilewright 0.0.1"),
    )
    assert main(["db", "gc"]) == 0
    assert "removed 2 trials" in capsys.readouterr().err
    with Database("tune.sqlite") as database:
        (task,) = database.tasks()
        assert task.key == key and task.trials == 1


def test_check_counts_what_would_be_refused(capsys: pytest.CaptureFixture[str]) -> None:
    task = faults.task()
    fill("tune.sqlite", faults.checked(task, RIGHT, 1e-3), Trial("[]", 1e-3))
    assert main(["db", "check"]) == 0
    assert capsys.readouterr().out.startswith("2 trials: 0 that would be refused; 1 were checked on this machine")
    fill("tune.sqlite", Trial('[["run", 1, {}]]', 1e-3))
    assert main(["db", "check"]) == 1
    assert "there is no primitive 'run'" in capsys.readouterr().out


def test_nothing_hostile_reaches_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    key = faults.task().key
    evil = Key(key.workload + EVIL, f"llvm {EVIL}", EVIL, EVIL)
    fill(
        "tune.sqlite",
        Trial(RIGHT, 1e-3, uid=EVIL),
        Trial(RIGHT, None, None, EVIL, EVIL),
        Trial(f'[["{EVIL}", 1, {{}}]]', 9.0),
        key=evil,
        name=EVIL,
    )
    for command in ("ls", "best", "check"):
        main(["db", command])
    main(["db", "best", "--task", EVIL + "?"])
    main(["db", "ls", EVIL])
    with Database("tune.sqlite") as database:
        page = render(database)
    console = Console(record=True, width=200, force_terminal=False)
    progress = Progress(EVIL, 8, shown=False, console=console)
    progress.begin([Trial(RIGHT, None, None, EVIL, EVIL)], 1.0)
    console.print(progress.render())
    heard = capsys.readouterr()
    for text in (heard.out, heard.err, page, console.export_text()):
        assert len(text) > 20 and not {"\x1b", "\x9b", "\x07", "\u202e"} & {*text}
    assert r"\x1b[2J" in heard.out and r"\x1b[2J" in page
