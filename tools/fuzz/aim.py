"""Aimed cases for cells that no case has reached by chance: programs that have the operation, under schedules about the primitive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import te
from .case import draw_case, operation_label, run_case
from .coverage import Coverage
from .epilogue import WINDOW
from .programs import draw_program

__all__ = ["aimed_cases"]

_PROGRAMS, _SCHEDULES, _TRIES = 100_000, 20, 1000
"""For one cell: programs that are looked at, schedules that one of them gets, and cases that are run, before it counts as out
of reach."""


def aimed_cases(seed: int, coverage: Coverage, begin: int) -> Iterator[dict[str, Any]]:
    """The reports of cases, from number `begin` on, that aim at the cells of `coverage` that are empty: one cell after the other
    until it is reached. Whoever takes the reports adds them to `coverage`."""
    labels: dict[int, dict[str, set[tuple[str, str]]]] = {}
    for cell in coverage.empty:
        operation, dtype, primitive = cell
        tries = 0
        for case in range(begin, begin + _PROGRAMS):
            if case not in labels:
                labels[case] = _labels(seed, case)
            if (operation, dtype) not in labels[case].get(primitive, labels[case][""]):
                continue
            for nth in range(_SCHEDULES):
                if not coverage.cells[cell]:
                    yield run_case(seed, case, "llvm", about=primitive, nth=nth)
                    tries += 1
            if coverage.cells[cell] or tries >= _TRIES:
                break


def _labels(seed: int, case: int) -> dict[str, set[tuple[str, str]]]:
    """Return the labels of the operations of a case's program; by a primitive's name those that it fits, where these are few: buffers
    roll of which neighbours are read, and what is read in several places is cloned."""
    with np.errstate(all="ignore"):
        program = draw_program(draw_case(seed, case, "llvm")[0])
    stages = te.create_schedule(program.outputs).stages
    computed = [stage.op for stage in stages if not stage.op.is_given]
    rolling = {tensor.op for stage in stages if stage.op.tag == WINDOW for tensor in stage.op.input_tensors}
    uses = Counter([stage.op for stage in stages if stage.is_output])
    for stage in stages:
        uses.update({tensor.op for tensor in stage.op.input_tensors})
    return {
        "": {operation_label(program, op) for op in computed},
        "rolling_buffer": {operation_label(program, op) for op in computed if op in rolling},
        "clone_in": {operation_label(program, op) for op in computed if uses[op] > 1},
    }
