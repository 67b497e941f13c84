"""Kernels for GPUs as they are drawn: cases repeat, are counted, and a text that computes something else is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import drawn
import pytest
from tilewright.cli import main
from tilewright.codegen.cuda import unit
from tilewright.codegen.cuda.nvrtc import find_nvrtc
from tilewright.tools.fuzz import kernels
from tilewright.tools.fuzz.choices import case_choices, replay_choices
from tilewright.tools.fuzz.kernels import SCHEDULED, draw_case, run_kernels


def test_drawn_kernels_are_right_in_every_order_and_compile() -> None:
    for case in range(drawn.count(2, 2000)):
        report = run_kernels(drawn.SEED, case)
        assert not report["failure"], report["failure"]
        assert report["lowering"] or 1 <= report["choices"]["texts"] <= max(kernels.TEXTS)


def test_every_way_of_scheduling_is_drawn() -> None:
    cases = [draw_case(case_choices(1, case, 20), case_choices(1, case, 21)) for case in range(150)]
    assert {case.kind for case in cases} == {"", *(kind for _, kind in SCHEDULED)}
    assert {case.architecture for case in cases} == {*kernels.ARCHITECTURES}
    again = [draw_case(replay_choices(case_choices(1, 0, 20).made), case_choices(1, 0, 21)) for _ in range(2)]
    assert again[0].program.name == again[1].program.name


def test_a_text_that_computes_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = unit.cuda_text

    def wrong(*args: object) -> object:
        made = original(*args)  # type: ignore[arg-type]
        return replace(made, text=made.text.replace("__syncthreads();", ";"))

    monkeypatch.setattr(unit, "cuda_text", wrong)
    reports = [run_kernels(1, case, shrink_seconds=0) for case in (0, 2)]  # products, whose tiles are in shared memory
    assert all("race" in report["failure"] for report in reports), reports


@pytest.mark.skipif(find_nvrtc() is None, reason="no NVRTC here")
def test_cases_of_a_log_are_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    known = {"case": 0, "name": "known", "failure": "", "refused": {}, "tried": {}, "lowering": "", "cells": []}
    log.write_text(json.dumps(known) + "\n")
    assert (
        main(
            [
                "fuzz",
                "--mode",
                "kernels",
                "--target",
                "cuda",
                "--seed",
                "4",
                "--cases",
                "2",
                "--workers",
                "0",
                "--log",
                str(log),
                "--out",
                str(tmp_path),
            ]
        )
        == 0
    )
    assert "2 cases, 0 failed" in capsys.readouterr().out
    assert [json.loads(line)["case"] for line in log.read_text().splitlines()] == [0, 1]
