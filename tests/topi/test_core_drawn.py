"""Drawn compositions of topi's operators under topi.schedule, against numpy (tilewright/tools/fuzz/operators.py).

tilewright fuzz --mode operators --seed 7 --cases 120:121      # one case again
"""

from __future__ import annotations

import os
from pathlib import Path

import drawn
import numpy as np
import pytest
from tilewright import topi
from tilewright.cli import main
from tilewright.tools.fuzz import operators
from tilewright.tools.fuzz.choices import case_choices
from tilewright.tools.fuzz.operators import OPERATORS, draw_operators, drawn_operators, run_operators
from tilewright.tools.fuzz.oracle import Failure
from tilewright.tools.fuzz.tally import Tally
from tilewright.tools.fuzz.workers import run_cases

OUT = Path(os.environ.get("TILEWRIGHT_FUZZ_OUT", Path(__file__).resolve().parents[2] / "out" / "fuzz"))


def test_drawn_compositions_of_operators() -> None:
    count = drawn.count(14, 2_000)
    tally = Tally(drawn.SEED)
    for report in run_cases(drawn.SEED, "operators:all", range(count)):
        tally.add(report)
        if report["failure"] and report.get("python"):
            OUT.mkdir(parents=True, exist_ok=True)
            (OUT / f"operators_seed{drawn.SEED}_case{report['case']}.py").write_text(report["python"])
    texts = "\n\n".join(f"{one['failure']}\n{one.get('python', '')}" for one in tally.failures[:3])
    assert tally.count == count and not tally.failures, f"{tally}\n\n{texts}"
    names = {name for names in tally.programs for name in names.split("+")}
    assert len(names) >= 10, names
    assert not drawn.SOAK or {row.__name__ for _, row in OPERATORS} <= names, "a row that never made a value"


def test_cases_repeat_and_choices_make_them_again() -> None:
    choices = case_choices(3, 5, 10)
    program = draw_operators(choices)
    again = drawn_operators(choices.made)
    assert program.name == again.name and [str(a) for a in program.args] == [str(a) for a in again.args]
    for one, other in zip(program.values, again.values, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_wrong_schedule_is_found_made_smaller_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(outputs, target="llvm", tuned=None):
        s = topi_schedule(outputs, target)
        for op in s.outputs:
            if op.reduce_axis == () and op.axis and len(op.axis) > 1:
                s[op].set_store_predicate(s[op].op.axis[0] < 1)
        return s

    topi_schedule = topi.schedule
    monkeypatch.setattr(topi, "schedule", wrong)
    monkeypatch.setattr(operators.topi, "schedule", wrong)
    reports = [run_operators(1, case, "llvm", 3.0) for case in range(6)]
    failed = [report for report in reports if report["failure"]]
    assert failed and "elements differ" in failed[0]["failure"] and failed[0]["signature"].startswith("topi.schedule")
    with pytest.raises(Failure, match="elements differ"):
        exec(failed[0]["python"], {})


def test_the_command_has_the_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "fuzz",
                "--mode",
                "operators",
                "--seed",
                "1",
                "--cases",
                "3",
                "--workers",
                "0",
                "--target",
                "llvm",
                "--out",
                str(tmp_path),
            ]
        )
        == 0
    )
    assert "3 cases, 0 failed" in capsys.readouterr().out
