"""Drawn programs with drawn schedules, run on another processor and on this one: the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cross
import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.driver.lower import lower
from tilewright.ir.interpret.interpreter import Interpreter
from tilewright.tools.fuzz.case import draw_case
from tilewright.tools.fuzz.oracle import Failure, interpret_step, roughen
from tilewright.tools.fuzz.program import Program
from tilewright.tools.fuzz.programs import draw_program
from tilewright.tools.fuzz.schedules import draw_schedule

__all__ = ["compare_case"]


def compare_case(seed: int, case: int, machine: str, folder: Path) -> str:
    """A case's program, lowered once, as code for the machine and for this one. Returns why it was left out; empty where it was
    compared. Raises AssertionError where bits differ."""
    numbers, choices, options = draw_case(seed, case, "llvm")
    program = draw_program(numbers)
    if not all(isinstance(value, np.ndarray) for value in program.values) or not _is_fixed(program):
        return "symbols and scalars"
    s = te.create_schedule(program.outputs)
    draw_schedule(choices, s, options.text, False)
    try:
        here = tw.build(s, program.args, target="llvm", name="kernel")
        there = tw.build(s, program.args, target=cross.MACHINES[machine][0], name="kernel")
    except tw.TilewrightError as error:
        return error.code
    for values in _values(program):
        before = [
            np.zeros_like(value) if is_result else value.copy(order="C")
            for value, is_result in zip(values, program.results, strict=True)
        ]
        after = [value.copy() for value in before]
        here(*after)
        try:
            got = cross.run(there, before, machine, folder)
        except cross.EmulatorFault:
            return "a fault of qemu"
        for argument, mine, theirs in zip(program.args, after, got, strict=True):
            assert same_bits(mine, theirs), (seed, case, machine, program.name, argument)
    return ""


def _values(program: Program) -> Iterator[list[Any]]:
    """Its own values, and floats whose sums are rounded, unless those are indices that lead elsewhere."""
    yield program.values
    rough = roughen(program)
    try:
        interpret_step("rough floats", rough, Interpreter(lower(te.create_schedule(program.outputs), program.args)))
    except Failure:
        return
    yield rough.values


def _is_fixed(program: Program) -> bool:
    return all(hasattr(extent, "value") for argument in program.args for extent in argument.shape)


def same_bits(mine: Any, theirs: Any) -> bool:
    """Any NaN is like any other."""
    if mine.dtype.kind in "biu":
        return bool((mine == theirs).all())
    a, b = mine.astype(np.float64), theirs.astype(np.float64)
    return bool((((a == b) & (np.signbit(a) == np.signbit(b))) | ((a != a) & (b != b))).all())
