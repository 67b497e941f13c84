"""Logs that TVM's tuners wrote become trials of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.autotune.errors import BadRecordLine
from tilewright.autotune.json_lines import Line, write_line
from tilewright.autotune.record_lookup import find_schedule
from tilewright.autotune.records import Database
from tilewright.autotune.task import Task
from tilewright.autotune.trial import Trial
from tilewright.cli.command import main
from tilewright.codegen.target import Target
from tilewright.compat.tvm import auto_scheduler, te
from tilewright.compat.tvm.auto_scheduler.steps import scheduled
from tilewright.compat.tvm.logs import imported
from tilewright.schedule import to_json

PROGRAM = """
from tilewright.compat.tvm import auto_scheduler, autotvm, te

def product(n, l, m):
    A, B = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    k = te.reduce_axis((0, l), name="k")
    return A, B, te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="product")

@autotvm.template("tests/logged product")
def logged_product(n, l, m):
    A, B, C = product(n, l, m)
    s, cfg = te.create_schedule(C.op), autotvm.get_config()
    cfg.define_split("tile_x", C.op.axis[1], num_outputs=2)
    cfg["tile_x"].apply(s, C, C.op.axis[1])
    return s, [A, B, C]

@auto_scheduler.register_workload("logged_sum", override=True)
def logged_sum(n, l, m):
    A, B, P = product(n, l, m)
    C = te.placeholder((n, m), name="C")
    return [A, B, C, te.compute((n, m), lambda i, j: P[i, j] + C[i, j], name="out")]
"""

MULTI_LEVEL = [
    ["SP", 2, 0, 16, [2, 1, 4], 1],
    ["SP", 2, 4, 24, [1, 1, 8], 1],
    ["SP", 2, 8, 7, [7], 1],
    ["RE", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]],
    ["FSP", 4, 0, 0, 2],
    ["FSP", 4, 3, 1, 2],
    ["RE", 4, [0, 3, 1, 4, 2, 5]],
    ["CA", 2, 4, 3],
    ["FU", 4, [0, 1, 2, 3]],
    ["AN", 4, 0, 3],
    ["PR", 2, 0, "auto_unroll_max_step$16"],
    ["AN", 2, 9, 2],
    ["AN", 4, 2, 2],
]
CACHED = [["CHW", 4, "local"], ["CA", 4, 5, 0], ["CHR", 0, "local", [2]], ["CA", 1, 3, 0], ["AN", 6, 1, 1]]
PARTIAL = [["SP", 2, 2, 7, [3], 1], ["RF", 2, 3, 2], ["CR", 2], ["SA", 2, 0, 16, 1], ["SP", 2, 0, 16, [4], 0]]
FUSED = [["SP", 2, 0, 16, [4, 2], 1], ["FU", 4, [0, 1]], ["FFSP", 4, 0, [0, 0], 1, 1]]


def of_template(size: int, failed: int = 0, name: str = "tests/logged product") -> str:
    config = {"index": 9, "code_hash": None, "entity": [["tile_x", "sp", [-1, size]]]}
    return json.dumps(
        {
            "input": ["llvm -keys=cpu -link-params=0", name, [16, 7, 24], {}],
            "config": config,
            "result": [[1e-6, 3e-6], failed, 1.5, 1612345678.25],
            "version": 0.2,
            "tvm_version": "0.8.0",
        }
    )


def of_workload(steps: list[Any], failed: int = 0, name: str = "logged_sum") -> str:
    key = json.dumps([name, 16, 7, 24])
    return json.dumps(
        {
            "i": [[key, "llvm -keys=cpu", [8, 64, 64, 0, 0, 0, 0, 0], "", 1, []], [[], steps]],
            "r": [[1e-6], failed, 0.8, 1612345678],
            "v": "v0.6",
        }
    )


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(PROGRAM, "program.py", "exec"), names)
    return names


@pytest.mark.parametrize(
    "steps", [MULTI_LEVEL, CACHED, PARTIAL, FUSED], ids=["multi-level", "cached", "partial", "fused"]
)
def test_the_steps_of_auto_scheduler_are_a_schedule_that_computes_the_same(
    program: dict[str, Any], steps: list[Any]
) -> None:
    tensors = program["logged_sum"](16, 7, 24)
    schedule = scheduled(tensors, steps)
    kernel = tw.build(schedule, tensors)
    rng = np.random.default_rng(0)
    a, b, c = (rng.random(shape, np.float32) for shape in ((16, 7), (7, 24), (16, 24)))
    out = np.empty((16, 24), np.float32)
    kernel(a, b, c, out)
    np.testing.assert_allclose(out, a @ b + c, rtol=1e-5)
    assert len(schedule.trace) >= len(steps)


def test_a_log_of_both_is_imported_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)
    lines = [
        of_template(8),
        of_template(8, failed=4),
        of_template(5),
        of_template(8, name="nobody's"),
        "",
        of_workload(MULTI_LEVEL),
        of_workload([["XX", 1]]),
        of_workload([], name="nothing"),
        of_workload([["AN", 99, 0, 1]]),
    ]
    Path("tvm.log").write_text("\n".join(lines))
    assert main(["db", "import", "tvm.log", "--program", "program.py"]) == 0
    said = capsys.readouterr().err
    assert "2 new trials from tvm.log" in said
    for reason in (
        "it failed where it was measured",
        "none of those that the template",
        'no template "nobody\'s"',
        "KeyError: 'XX'",
        "no workload 'nothing'",
        "list index out of range",
    ):
        assert reason in said
    assert main(["db", "import", "tvm.log", "--program", "program.py"]) == 0
    assert "0 new trials" in capsys.readouterr().err, "a line is one trial, however often it comes"
    assert main(["db", "best"]) == 0
    shown = capsys.readouterr().out
    assert "# tests/logged product" in shown and "factor=8" in shown and "parallel" in shown
    found = imported([of_workload(MULTI_LEVEL)])
    task, trial = found.trials[0]
    with Database("tune.sqlite") as database:
        assert not database.is_marked(task.key, trial), "what it says is not believed"
        schedule = find_schedule(task.args, Target(), database)  # which runs it here first
        assert schedule is not None and "parallel" in schedule.as_python()
        best = database.candidates(task.key, 0)[1]
        assert best is not None and best.time is not None and best.time != 1e-6


def test_a_log_of_autotvm_is_of_a_template_in_our_own_names_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ours = (
        PROGRAM.partition("@auto_scheduler")[0]
        .replace("import auto_scheduler, autotvm, te", "import te")
        .replace("@autotvm.template", "from tilewright import autotune\n@autotune.template")
        .replace("logged product", "logged in our names")
    )
    Path("asks.py").write_text(ours.replace("autotvm.", "autotune.templates."))
    Path("takes.py").write_text(
        ours.replace("autotvm.get_config()", "cfg").replace("(n, l, m):\n    A, B, C", "(cfg, n, l, m):\n    A, B, C")
    )
    Path("tvm.log").write_text(of_template(8, name="tests/logged in our names"))
    for program in ("asks", "takes"):
        monkeypatch.setattr("tilewright.compat.tvm.autotvm.task.task.TASK_TABLE", {})
        assert main(["db", "import", "tvm.log", "-d", program, "--program", f"{program}.py"]) == 0
        assert "1 new trials from tvm.log" in capsys.readouterr().err
        assert main(["db", "best", program]) == 0
        assert "factor=8" in capsys.readouterr().out, program


def test_what_is_no_log_of_a_tuner_is_refused() -> None:
    with pytest.raises(BadRecordLine, match=r"TW0634: line 2 is not a record(.*\n)*.*no tuner of TVM's"):
        imported([of_workload([], failed=1), "{}"])


def test_a_log_of_auto_scheduler_is_read_and_written_record_by_record(tmp_path: Path) -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    key, log, copy = Task.of([A, B], "llvm").key, tmp_path / "log.json", tmp_path / "copy.json"
    plain = to_json(te.create_schedule(B.op).records)
    trials = [Trial(plain, 2e-3), Trial(plain, None, failure="crash", message="it fell"), Trial(plain, 1e-3)]
    auto_scheduler.RecordToFile(log).write("\n".join(write_line(Line(key, "B", None, trial)) for trial in trials))
    inputs, results = auto_scheduler.RecordReader(log).read_lines()
    assert [result.costs for result in results] == [(2e-3,), (), (1e-3,)] and results[1].error_msg == "it fell"
    auto_scheduler.save_records(copy, inputs, results)
    assert [result for _, result in auto_scheduler.load_records(copy)] == results
    best = auto_scheduler.load_best_record(copy)[1]
    assert best is not None and best.costs == (1e-3,)
    assert auto_scheduler.RecordReader(log).read_lines(1, 2)[1] == results[2:]
