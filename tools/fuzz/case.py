"""One drawn case: a program, a schedule of it, and what came of them, as plain data."""

from __future__ import annotations

import time
from typing import Any

from ... import te
from .choices import Choices, case_choices
from .coverage import OPERATIONS
from .oracle import Options, check
from .program import Program
from .programs import draw_program
from .reproduction import explain
from .schedules import Drawn, draw_schedule

__all__ = ["TARGETS", "draw_case", "empty_report", "operation_label", "run_case"]

TARGETS = {"llvm": ("llvm",), "c": ("c",), "cuda": ("cuda -emulate",), "all": (*["llvm"] * 24, "cuda -emulate")}
"""What each choice of a target runs: a GPU's kernels take ten times as long, by way of the C++ compiler."""

_PROGRAM, _SCHEDULE = 0, 1
_FULL = 4
"""One case of so many is compiled as users have it, the others with a tenth of LLVM's effort: what it makes of the same text was
half of what a case cost."""


def draw_case(seed: int, case: int, target: str, nth: int = 0) -> tuple[Choices, Choices, Options]:
    """The choices that make the program, those that make the schedule, and how the case is checked. nth: which of the
    schedules that are drawn for the program."""
    choices = case_choices(seed, case, _SCHEDULE + nth)
    options = Options(
        choices.pick(TARGETS[target]),
        choices.chance(0.1),
        [choices.chance(0.7) for _ in range(16)],
        choices.chance(0.25),
        quick=case % _FULL > 0,
    )
    return case_choices(seed, case, _PROGRAM), choices, options


def operation_label(program: Program, op: Any) -> tuple[str, str]:
    """Return the label of an operation, and its dtype: in chains, and over large tensors, by what it does, otherwise as the whole
    program; what stands around a script, or is in a dtype that the program itself has not, by what it does too. An argmax is of
    its values."""
    dtype = str((op.outputs[-1] if program.name == "argmax" else op.output(0)).dtype)
    own = (
        op.kind == program.name
        if program.name in ("hybrid", "extern")
        else program.name not in ("chain", "large", "siblings")
    )
    if own and (op.kind != "compute" or dtype in OPERATIONS[program.name]):
        return program.name, dtype
    return op.body[0].combiner.name if op.reduce_axis else "elementwise", dtype


def empty_report(case: int) -> dict[str, Any]:
    """The report of a case of which nothing is known yet."""
    return {"case": case, "name": "?", "failure": "", "refused": {}, "tried": {}, "lowering": "", "cells": []}


def run_case(
    seed: int,
    case: int,
    target: str = "llvm",
    shrink_seconds: float = 20.0,
    about: str = "",
    nth: int = 0,
) -> dict[str, Any]:
    """Draws and checks one case. A failure brings its text and a program that repeats it, made smaller for so long. about: the
    primitive that the schedule is about, instead of a drawn one or none. nth: which of the program's schedules."""
    report = empty_report(case)
    program: Program | None = None
    s, began = None, time.perf_counter()
    numbers, choices, options = draw_case(seed, case, target, nth)
    try:
        program = draw_program(numbers)
        report.update(name=program.name, target=options.target)
        s = te.create_schedule(program.outputs)
        drawn: Drawn = draw_schedule(choices, s, options.text, "cuda" in options.target, about)
        report["tried"], report["refused"] = drawn.tried, drawn.refused
        report["lowering"] = check(program, s, options)
        report["exact"] = bool(s.is_exact)
        if not report["lowering"]:
            cells = [(*operation_label(program, op), primitive) for op, primitive in drawn.taken]
            report["cells"] = [cell for cell in cells if cell[0] in OPERATIONS]
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is what this is here to find
        report.update(explain(seed, case, program, s, options, numbers.made, error, shrink_seconds))
    report["seconds"] = time.perf_counter() - began
    return report
