"""What no case has reached by chance is aimed at: programs that have the operation, under schedules about the primitive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import te
from .case import draw_case, label_of, run_case
from .coverage import Coverage
from .programs import draw_program

__all__ = ["aimed_cases"]

_PROGRAMS, _TRIES = 30_000, 500
"""For one cell: programs that are looked at, and cases that are run, before it counts as out of reach."""


def aimed_cases(seed: int, coverage: Coverage, begin: int) -> Iterator[dict[str, Any]]:
    """The reports of cases, from number `begin` on, that aim at the cells of `coverage` that are empty: one cell after the other
    until it is reached. Whoever takes the reports adds them to `coverage`."""
    labels: dict[int, set[tuple[str, str]]] = {}
    for cell in coverage.empty:
        operation, dtype, primitive = cell
        tries = 0
        for case in range(begin, begin + _PROGRAMS):
            if case not in labels:
                labels[case] = _labels(seed, case)
            if (operation, dtype) not in labels[case]:
                continue
            yield run_case(seed, case, "llvm", about=primitive)
            tries += 1
            if coverage.cells[cell] or tries == _TRIES:
                break


def _labels(seed: int, case: int) -> set[tuple[str, str]]:
    """What the operations of a case's program count as."""
    with np.errstate(all="ignore"):
        program = draw_program(draw_case(seed, case, "llvm")[0])
    stages = te.create_schedule(program.outputs).stages
    return {label_of(program, stage.op) for stage in stages if not stage.op.is_given}
