"""Tuning end to end: results, resuming, interruption, the command line, the report, and what the model learns."""

from __future__ import annotations

import html
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import autotune_faults as faults
import drawn
import numpy as np
import pytest
import tilewright as tw
from rich.console import Console
from tilewright import autotune, te
from tilewright.autotune.errors import BadTuningFile, BadTuningOption
from tilewright.autotune.features import FEATURES, features
from tilewright.autotune.history import History
from tilewright.autotune.model import Measurements, PlainModel, RankingModel, make_model
from tilewright.autotune.outcome import Limits
from tilewright.autotune.progress import Progress, readable
from tilewright.autotune.records import Database
from tilewright.autotune.report import render
from tilewright.autotune.search import Candidate, CandidateFactory, EvolutionarySearch, Measured, RandomSearch
from tilewright.autotune.trial import Trial
from tilewright.cli.tuning import find_task
from tilewright.codegen.machine import find_machine
from tilewright.codegen.target import Target
from tilewright.ir.text.parser import parse
from tilewright.schedule import to_json
from tilewright.te import Tensor

LIMITS = Limits(timeout=20.0, budget=0.002)
MACHINE = find_machine(Target.parse("llvm"))


def product(n: int = 64) -> list[Tensor]:
    a, b = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, autotune.Result]:
    path = tmp_path_factory.mktemp("tuned") / "tune.sqlite"
    return path, autotune.tune(product(), trials=20, database=path, limits=LIMITS, progress=False)


def test_the_best_schedule_builds_a_right_and_faster_kernel(tuned: tuple[Path, autotune.Result]) -> None:
    path, result = tuned
    assert len(result.history) == 20 and not result.failures and not result.dropped
    assert '<td style="text-align:left">trials</td><td style="text-align:left">20</td>' in result._repr_html_()
    assert result.baseline is not None and result.best.seconds < result.baseline
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 64, 64), dtype=np.float32)
    for kernel in (tw.build(product(), tuned=path), tw.build(result.schedule, result.task.args)):
        c = np.zeros((64, 64), np.float32)
        kernel(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    mine = product()
    assert str(tw.lower(autotune.best(mine, database=path), mine)) == str(
        tw.lower(result.schedule, list(result.task.args))
    )


def test_the_best_of_the_history_is_the_result(tuned: tuple[Path, autotune.Result]) -> None:
    _, result = tuned
    assert result.best.seconds == min(trial.confirmed for trial in result.history if trial.confirmed is not None)
    assert len({trial.records for trial in result.history}) == 20, "nothing is measured twice"


def test_the_history_is_a_table_and_a_picture(tuned: tuple[Path, autotune.Result], tmp_path: Path) -> None:
    _, result = tuned
    table = result.history.table
    assert {len(column) for column in table.values()} == {20} and table["trial"] == [*range(1, 21)]
    assert table["usual"].count(True) == 1 and table["best"][-1] == min(table["seconds"])
    assert result.history.usual is result.history[table["usual"].index(True)]
    picture = result.history.plot(tmp_path / "curve.svg")
    assert (tmp_path / "curve.svg").read_text() == picture
    shown = ElementTree.fromstring(picture)
    circles = [one.get("class") for one in shown.iter("{http://www.w3.org/2000/svg}circle")]
    assert circles.count("trial") == 20 and circles.count("usual") == 1
    assert "the rules' choice: " in html.unescape(picture) and picture in result._repr_html_()
    assert re.fullmatch(r"<History: 20 trials, best .*, rules' choice .*>", repr(result.history))
    assert re.fullmatch(r"Trial\([\d.e-]+ ms, .*: .*\)", repr(result.history[0]))
    assert re.fullmatch(r"Best\(.*, \d+ records\)", repr(result.best))


def test_a_history_of_failures_has_no_picture() -> None:
    history = History([Trial("[]", None, failure="crash", message="it < died")])
    assert history.plot() == "" and repr(history) == "<History: 1 trials, 1 failed>"
    assert "it &lt; died" in history._repr_html_() and history.table["best"] == [None]


def test_running_again_returns_at_once_and_more_trials_go_on(
    tuned: tuple[Path, autotune.Result],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    path, result = tuned
    copy = tmp_path / "copy.sqlite"
    with Database(path) as database, Database(copy) as other:
        other.import_lines(database.export_lines())
    monkeypatch.setattr("tilewright.autotune.runners.Measurer", None)  # nothing may be measured
    again = autotune.tune(product(), trials=20, database=copy, progress=False)
    assert again.history == result.history and again.best.seconds == result.best.seconds
    assert to_json(again.best.records) == to_json(result.best.records) and again.comparison is None
    monkeypatch.undo()
    assert not again.is_exhausted
    more = autotune.tune(product(), trials=23, database=copy, limits=LIMITS, progress=False)
    assert more.history[:20] != [] and [trial.uid for trial in more.history[:20]] == [
        trial.uid for trial in result.history
    ]
    assert len({trial.records for trial in more.history}) == 23


def test_interrupting_keeps_every_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add, added = Database.add, list[Trial]()

    def interrupted(self: Database, key: autotune.Key, name: str, trial: Trial) -> None:
        add(self, key, name, trial)
        added.append(trial)
        if len(added) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Database, "add", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        autotune.tune(product(), trials=20, database=tmp_path / "t.sqlite", limits=LIMITS, progress=False)
    with Database(tmp_path / "t.sqlite") as database:
        assert database.trials(autotune.Task.of(product()).key) == added


def test_a_template_is_tuned_too(tmp_path: Path) -> None:
    @autotune.template("rows")
    def rows(cfg, n: int):
        tensors = product(n)
        s = te.create_schedule(tensors[2])
        i, j = s[tensors[2]].op.axis
        cfg.define_split("tile", j, policy="power2", num_outputs=2)
        _, inner = cfg["tile"].apply(s, tensors[2], j)
        s[tensors[2]].reorder(i, s[tensors[2]].op.reduce_axis[0], inner)
        s[tensors[2]].vectorize(inner)
        return s, tensors

    task = rows.task(32)
    result = autotune.tune(task, trials=50, database=tmp_path / "t.sqlite", limits=LIMITS, progress=False)
    assert len(result.history) == 6, "the whole space: 1, 2, 4 ... 32"
    assert result.is_exhausted and "after all 6 trials" in str(result), "fewer than were asked for, which it says"
    assert [trial.config.choices for trial in result.history if trial.config] != []
    assert result.comparison is None, "a template does not say where it begins"
    assert str(autotune.best(task, database=tmp_path / "t.sqlite")) == str(result.schedule)


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(BadTuningOption, match="TW0604: cannot tune for 0 trials"):
        autotune.tune(product(), trials=0, database=tmp_path / "t.sqlite")
    with pytest.raises(BadTuningOption, match=r"TW0604: there is no search 'grid'\n(.|\n)*evolution, random"):
        autotune.tune(product(), search="grid", database=tmp_path / "t.sqlite")


# Features and models


def test_features_count_what_the_loops_do() -> None:
    text = """@attrs(stage="loops")
def main(A: float32[64, 256], B: out float32[64]):
    for i in parallel(64):
        B[i] = 0.0
        for k in 256:
            B[i] = B[i] + A[i, k] * 2.0
"""
    row = features(parse(text), MACHINE)
    assert row.shape == (FEATURES,) and np.isfinite(row).all()
    assert row[0] == pytest.approx(np.log2(1 + 64 * 256)), "iterations of the store with most work"
    assert row[1] == 2, "a product and a sum"
    assert row[11] == pytest.approx(np.log2(1 + 64)), "iterations that threads share"
    column = features(parse(text.replace("A[i, k]", "A[k // 4, i * 4 + k % 4]")), MACHINE)
    assert (row != column).any()


def test_features_see_traffic_shrink_with_tiles() -> None:
    def traffic(tile: int) -> float:
        a, b, c = product(256)
        s = te.create_schedule(c)
        outer_i, outer_j, inner_i, inner_j = s[c].tile(*c.op.axis, tile, tile)
        s[c].reorder(outer_i, outer_j, *c.op.reduce_axis, inner_i, inner_j)
        return float(features(tw.lower(s, [a, b, c]), MACHINE)[22])

    assert traffic(8) < traffic(2) < traffic(1)


@pytest.mark.parametrize("model", [RankingModel, PlainModel], ids=["xgboost", "plain"])
def test_models_learn_to_order_candidates(model: type) -> None:
    if model is RankingModel:
        pytest.importorskip("xgboost")
    rng = drawn.rng("autotune model")
    pairs: list[bool] = []
    for _ in range(5):  # one draw in twenty is hard to learn from
        rows = rng.random((160, 12)).astype(np.float32)
        seconds = 1e-3 * 2 ** (2 * rows[:, 3] - 3 * rows[:, 7] + rows[:, 1] ** 2)
        failed = np.where(np.arange(160) % 25 == 0, np.inf, seconds)
        learner = model()
        learner.fit([Measurements(rows[:100], failed[:100])])
        scores, wanted = learner.score(rows[100:])[0], -seconds[100:]
        pairs += [(scores[i] > scores[j]) == (wanted[i] > wanted[j]) for i in range(60) for j in range(i)]
    assert np.mean(pairs) > 0.65


def test_without_xgboost_the_plain_model_stands_in_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.warns(tw.PerformanceWarning, match=r"xgboost is not installed.*ridge regression.*tilewright\[tune\]"):
        assert isinstance(make_model(), PlainModel)


def test_evolution_finds_better_candidates_than_random_draws_on_a_made_up_cost() -> None:
    """The time is a function of the features, so that no machine's noise decides."""
    task = autotune.Task.of(product(64))
    factory = CandidateFactory(task)

    def cost(candidate: Candidate) -> float:
        row = candidate.features
        return float(1e-3 * 2 ** (0.5 * row[22] + 0.3 * row[20] + abs(row[9] - 3)))

    def best(search_type: type, seed: int) -> float:
        search = search_type(task, factory, np.random.default_rng(seed))
        measured: list[Measured] = []
        for _ in range(4):
            seen = {one.candidate.records for one in measured}
            measured += [Measured(one, cost(one)) for one in search.propose(8, measured, seen)]
        return min(one.seconds or 1 for one in measured)

    evolved, drawn_freely = ([best(search, seed) for seed in range(5)] for search in (EvolutionarySearch, RandomSearch))
    assert np.median(evolved) <= np.median(drawn_freely)  # seeds are fixed: luck may favour either in a few draws


# What people see


def test_the_display_shows_the_best_and_failures_by_class_with_the_first_message() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    display = Progress("C", 10, False, console)
    losses = Counter({"timeout": 2})
    display.begin([Trial("[1]", 2e-3)], 0.1, usual="[1]", losses=losses)
    display.dropping(Counter({"ValueError": 3}), {"ValueError": "the template's own"})
    for message in ("SIGSEGV\nmore", "other"):
        display.add(Trial("[3]", None, None, "crash", message))
    display.add(Trial("[2]", 1e-3), spread=0.04)
    console.print(display.render())
    text = console.file.getvalue()  # pyright: ignore
    assert "tuning C" in text and "4/10 trials" in text
    assert "best 1 ms (trial 4), 100.0 x the unscheduled program (100 ms)" in text
    assert (
        "rules' choice 2 ms, 2.00 x the best" in text
        and "noise: repeats differ by 4%" in text
        and "something else" not in text
    )
    assert "lost and found again: timeout, 2 x" in text
    assert "2 crash: SIGSEGV" in text and "other" not in text
    assert "3 given up before running, ValueError: the template's own" in text
    for spread in (0.5, 0.6, 0.7):
        display.add(Trial("[4]", 1.5e-3), spread)
    console.print(display.render())
    assert "differ by 55%, the machine does something else too" in console.file.getvalue()  # pyright: ignore


def test_times_are_readable() -> None:
    assert [readable(seconds) for seconds in (2.0, 1.5e-3, 3.4e-5, 2e-8)] == ["2 s", "1.5 ms", "34 µs", "20 ns"]


def test_the_report_is_one_page_with_a_curve_that_escapes_what_it_shows(tuned: tuple[Path, autotune.Result]) -> None:
    path, result = tuned
    with Database(path) as database:
        database.add(result.task.key, "C", Trial("[]", None, None, "crash", "<script>alert(1)</script>"))
        page = render(database)
    assert page.count("<circle") == 20 and page.count('class="failed"') == 1 and "<polyline" in page
    assert "&lt;script&gt;" in page and "<script>" not in page
    assert "http" not in page.replace("http://www.w3.org", ""), "nothing is fetched"


def command(*arguments: str, folder: Path, status: int = 0, **more: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "120"},
        **more,
    )  # pyright: ignore
    assert done.returncode == status, done.stderr
    return done


PROGRAM = """
from tilewright import autotune, te
def doubled():
    a = te.placeholder((4096,), name="A")
    return [a, te.compute((4096,), lambda i: a[i] * 2, name="B")]
"""


def test_the_command_line_tunes_lists_exports_imports_and_reports(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = command("tune", "program.py:doubled", "--trials", "4", folder=tmp_path)
    assert "doubled: " in done.stdout and "s = te.create_schedule(ops)" in done.stdout
    assert str(tmp_path / "tune.sqlite") in done.stdout
    assert "doubled" in (listed := command("db", "ls", folder=tmp_path).stdout) and "4 trials, 0 failed" in listed
    assert command("db", "best", "--task", "doubled", folder=tmp_path).stdout.startswith("# doubled (")
    lines = command("db", "export", folder=tmp_path).stdout.splitlines()
    assert len(lines) == 4 and all(json.loads(line)["name"] == "doubled" for line in lines)
    imported = command("db", "import", "-d", "other.sqlite", folder=tmp_path, input="\n".join(lines))
    assert "4 new trials from the standard input" in imported.stderr
    out = command("report", "other.sqlite", "-o", "page.html", folder=tmp_path).stdout.strip()
    assert Path(out) == tmp_path / "page.html" and "<polyline" in (tmp_path / "page.html").read_text()
    assert "TW0633" in command("db", "best", "--task", "else", folder=tmp_path, status=1).stderr


def test_a_file_that_gives_nothing_to_tune_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM + "listed = doubled()\n")
    assert find_task(f"{tmp_path / 'program.py'}:listed", "llvm").name == "listed"
    with pytest.raises(BadTuningFile, match=r"TW0612.*\n.*it names no function"):
        find_task(str(tmp_path / "program.py"), "llvm")
    with pytest.raises(BadTuningFile, match=r"TW0612.*\n.*no function 'tripled'(.|\n)*allowed: doubled"):
        find_task(f"{tmp_path / 'program.py'}:tripled", "llvm")
    with pytest.raises(BadTuningFile, match=r"TW0612.*\n.*no file"):
        find_task("nowhere.py:f", "llvm")
    assert find_task(f"{tmp_path / 'program.py'}:doubled", "llvm").name == "doubled"
    assert faults.task().name == "B"
