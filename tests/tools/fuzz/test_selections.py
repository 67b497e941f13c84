"""Fuzzed choices: cases repeat, count what was chosen, and name the candidate that computes something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import drawn
import numpy as np
import pytest
from tilewright import te
from tilewright.driver.build import lower
from tilewright.ir import Function, equal
from tilewright.tools.fuzz import Failure, Options, Program, check, selections
from tilewright.tools.fuzz.choices import Choices, case_choices, replay_choices
from tilewright.tools.fuzz.contractions import draw_contraction
from tilewright.tools.fuzz.norms import draw_norm, draw_running
from tilewright.tools.fuzz.reductions import draw_reduction
from tilewright.tools.fuzz.selections import check_selections, run_selections
from tilewright.tools.fuzz.tally import Tally


def checked(program: Program) -> Function:
    s = te.create_schedule(program.outputs)
    assert check(program, s, Options(text=False, quick=True)) == ""
    return lower(s, program.args)


@pytest.mark.parametrize("draw", [draw_contraction, draw_reduction, draw_norm, draw_running])
def test_drawn_programs_repeat_and_compute_what_numpy_does(draw: Callable[[Choices], Program]) -> None:
    for case in range(drawn.count(3, 40)):
        choices = case_choices(drawn.SEED, case, 90)
        program, again = draw(choices), draw(replay_choices(choices.made))
        assert equal(checked(program), checked(again))


def test_no_choice_of_a_program_is_taken_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "SELECTIONS", 64)
    a = te.placeholder((2, 8), name="A")
    twice = te.compute((2, 8), lambda i, j: a[i, j] * 2.0, name="twice")
    given, met = np.arange(16, dtype="float32").reshape(2, 8), Counter[str]()
    monkeypatch.setattr(selections, "compare", lambda told, *_: met.update([told] if told.startswith("taken") else []))
    program = Program("twice", [a, twice], [given, given * 2], [False, True])
    counts = check_selections(program, replay_choices([]), Options(quick=True), exact=False)
    assert 1 < counts["default"] == len(met) < 64
    assert set(met.values()) == {1}


def test_a_case_tells_how_many_choices_it_has_tried() -> None:
    reports = [run_selections(drawn.SEED, case, "llvm", 1.0) for case in range(drawn.count(2, 400))]
    assert not [report["failure"] for report in reports if report["failure"]]
    counts = [report["tried"].get("default", 0) + report["tried"].get("exact", 0) for report in reports]
    assert all(1 <= count <= selections.SELECTIONS for count in counts)
    assert run_selections(drawn.SEED, 1, "llvm", 0)["tried"] == reports[1]["tried"]


def test_a_candidate_that_computes_something_else_is_named() -> None:
    a, k = te.placeholder((2, 8), name="A"), te.reduce_axis((0, 8), "k")
    out = te.compute((2,), lambda i: te.sum(a[i, k], k), name="out")
    given = np.arange(16, dtype="float32").reshape(2, 8)
    program = Program("sums", [a, out], [given, given.sum(1) + 1], [False, True])
    with pytest.raises(Failure, match=r"taken \[\d*\]: \[.*\], against numpy: out\[0\] is 28.0, expected 29.0"):
        check_selections(program, replay_choices([]), Options(quick=True), exact=False)


def test_choices_that_were_compared_are_counted_by_what_was_asked_of_them() -> None:
    tally = Tally(1)
    for choices in ({"default": 8}, {"exact": 3}, {"default": 1}):
        tally.add(
            {"case": 0, "name": "?", "failure": "", "refused": {}, "tried": {}, "lowering": "", "choices": choices}
        )
    assert "choices compared: 9 default, 3 exact" in str(tally) and tally.plain()["choices"] == {
        "default": 9,
        "exact": 3,
    }
    report = run_selections(3, 0)
    assert sum(report["choices"].values()) >= 1
