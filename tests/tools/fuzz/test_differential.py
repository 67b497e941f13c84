"""The test that judges the compiler: the fuzzer's programs under its schedules (tilewright/fuzz), a sample of its cases.

tilewright fuzz --seed 7 --cases 120:121      # one case again
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import drawn
from tilewright.tools.fuzz import oracle
from tilewright.tools.fuzz.aim import aimed_cases
from tilewright.tools.fuzz.coverage import illegal
from tilewright.tools.fuzz.tally import Tally
from tilewright.tools.fuzz.workers import run_cases

OUT = Path(os.environ.get("TILEWRIGHT_FUZZ_OUT", Path(__file__).resolve().parents[3] / "out" / "fuzz"))


def test_drawn_programs_under_drawn_schedules() -> None:
    count = drawn.count(25, 50_000)
    tally = Tally(drawn.SEED)
    for report in run_cases(drawn.SEED, "all", range(count)):
        tally.add(report)
        if report["failure"] and report.get("python"):
            OUT.mkdir(parents=True, exist_ok=True)
            (OUT / f"seed{drawn.SEED}_case{report['case']}.py").write_text(report["python"])
    print(f"{tally}\n{tally.coverage}")
    texts = "\n\n".join(f"{one['failure']}\n{one.get('python', '')}" for one in tally.failures[:3])
    assert tally.count == count
    assert not tally.failures, f"{tally}\n\n{texts}"
    assert tally.whole * 4 >= count, str(tally)
    assert tally.codes[f"{oracle.TOO_SLOW} (lower)"] * 20 <= count, str(tally)
    assert len(tally.programs) >= 7, str(tally)
    assert not [cell for cell in tally.coverage.cells if illegal(*cell)], "a cell was reached that a rule calls illegal"
    if drawn.SOAK:
        for report in aimed_cases(drawn.SEED, tally.coverage, count):
            tally.add(report)
        assert not tally.failures, f"{tally}\n\n{tally.failures[0].get('python', '')}"
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / "coverage.json").write_text(json.dumps(tally.plain(), indent=1) + "\n")
        assert tally.coverage.empty == [], "legal, and never reached"
