"""Compositions of topi's operators, scheduled by topi.schedule and held against numpy.

What operators there are, and how each is drawn, stands in tools/fuzz/operator_rows.py and its neighbours. Floats are computed by
numpy in float64; every operator says how far its result may be off, from how far its inputs are and what its documentation
bounds.
"""

from __future__ import annotations

import platform
import time
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import topi
from ...base.errors import TensorExpressionError, TilewrightError
from ...driver.build import build
from . import operator_image_rows, operator_network_rows, operator_quantised_rows, operator_rows
from .case import empty_report
from .choices import Choices, case_choices, replay_choices
from .operator_rows import Operands, Rows, Value
from .oracle import Failure, compare, run_kernel, signature
from .program import Program
from .shrink import shrink
from .terms import numpy_type

__all__ = ["OPERATORS", "TARGETS", "check_operators", "draw_operators", "drawn_operators", "run_operators"]

OPERATORS: Rows = (
    *operator_rows.ROWS,
    *operator_network_rows.ROWS,
    *operator_quantised_rows.ROWS,
    *operator_image_rows.ROWS,
)
_CPU = (*["llvm"] * 5, "llvm -mattr=-avx512f") if platform.machine() == "x86_64" else ("llvm",)
TARGETS = {"llvm": _CPU, "c": ("c",), "cuda": ("cuda -emulate",), "all": (*_CPU * (24 // len(_CPU)), "cuda -emulate")}
"""What each choice of a target runs: narrower vectors make other schedules."""
_PROGRAM, _CHECK = 10, 11


def draw_operators(choices: Choices) -> Program:
    """A composition of up to six operators, and what numpy says of its results."""
    draw = Operands(choices, "operators")
    values = [draw.first()]
    names: list[str] = []
    with np.errstate(all="ignore"):
        for _ in range(1 + choices.below(6)):
            row = choices.pick_weighted(OPERATORS)
            source = values[-1] if len(values) == 1 or not draw.chance(0.15) else draw.pick(values)
            try:
                value = row(draw, source)
            except TensorExpressionError:
                if not draw.symbols:
                    raise
                continue  # what is not known before the call cannot be split, padded or unrolled
            if value is not None and _is_fair(value):
                values.append(value)
                names.append(row.__name__)
    results = [values[-1]]
    if len(values) > 2 and draw.chance(0.2):
        results.append(draw.pick(values[1:-1]))
    draw.program.name = "+".join(dict.fromkeys(names)) or "identity"
    for result in results:
        if result.tensor.op.is_passed:
            result = Value(topi.identity(result.tensor), result.array, result.dtype, result.error)
        draw.program.result(result.tensor, np.asarray(result.array).astype(numpy_type(result.dtype)))
    return draw.finish(max((output.error for output in results), default=0.0))


def _is_fair(value: Value) -> bool:
    """Return whether results of this size and error still tell right from wrong."""
    if value.array.size > 400_000:
        return False
    if not value.is_float:
        return True
    return bool(np.isfinite(value.array).all()) and value.scale < 3e4 and value.error <= 0.05 * max(value.scale, 1.0)


def drawn_operators(numbers: Sequence[int]) -> Program:
    """The composition that these choices make."""
    return draw_operators(replay_choices(numbers))


def check_operators(program: Program, target: str = "llvm", at_end: Sequence[bool] = ()) -> None:
    """Raise Failure where the scheduled composition does not compute what numpy does."""
    s = topi.schedule(program.outputs, target)
    kernel = build(s, program.args, target=target)
    step = f"topi.schedule for {target}"
    try:
        arrays = run_kernel(step, program, kernel, at_end)
    except TilewrightError as error:
        raise Failure(step, str(error)) from error
    compare(step, program, arrays, program.values)


def _options(seed: int, case: int, target: str) -> tuple[str, list[bool]]:
    choices = case_choices(seed, case, _CHECK)
    return choices.pick(TARGETS[target]), [choices.chance(0.7) for _ in range(16)]


def run_operators(seed: int, case: int, target: str = "llvm", shrink_seconds: float = 20.0) -> dict[str, Any]:
    """Draws and checks one case, as fuzz.case.run_case does for schedules that are drawn."""
    report = empty_report(case)
    began = time.perf_counter()
    choices = case_choices(seed, case, _PROGRAM)
    chosen, ends = _options(seed, case, target)
    try:
        program = draw_operators(choices)
        report.update(name=program.name, target=chosen)
        check_operators(program, chosen, ends)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is what this is here to find
        report.update(_explain_failure(seed, case, chosen, choices.made, error, shrink_seconds))
    report["seconds"] = time.perf_counter() - began
    return report


def explain_operators_death(seed: int, case: int, target: str) -> str:
    """The program of a case that ends its process."""
    choices = case_choices(seed, case, _PROGRAM)
    draw_operators(choices)
    return _write_reproduction(
        choices.made, _options(seed, case, target)[0], f"case {case} of seed {seed} ends the process"
    )


def _has_failure(numbers: Sequence[int], target: str, wanted: str) -> bool:
    try:
        check_operators(drawn_operators(numbers), target)
    except Exception as error:  # noqa: BLE001 - the kind of failure is compared
        return signature(error) == wanted
    return False


def _explain_failure(
    seed: int, case: int, target: str, numbers: list[int], error: BaseException, seconds: float
) -> dict[str, Any]:
    kind = target.split()[0]
    again = f"tilewright fuzz --mode operators --seed {seed} --cases {case}:{case + 1} --target {kind}"
    what = str(error) if isinstance(error, Failure) else "".join(traceback.format_exception(error, limit=-8))
    headline = f"case {case} of seed {seed}: {again}\n{what}"
    if seconds:
        smaller = shrink(numbers, [], lambda one: _has_failure(one[0], target, signature(error)), seconds)
        numbers = smaller[0] if smaller is not None else numbers
    return {
        "failure": headline,
        "signature": signature(error),
        "python": _write_reproduction(numbers, target, headline),
    }


def _write_reproduction(numbers: Sequence[int], target: str, headline: str) -> str:
    """A Python file that repeats a failure; what is declared, and its schedule, as comments."""
    shown = headline.splitlines()
    try:
        program = drawn_operators(numbers)
        shown += [
            "",
            *(str(argument) for argument in program.args),
            "",
            *str(topi.schedule(program.outputs, target)).splitlines(),
        ]
    except Exception as problem:  # noqa: BLE001 - the operators or the schedule may be what fails
        shown += ["", f"it cannot be shown: {problem!r}"]
    return "\n".join(
        [
            *(f"# {line}".rstrip() for line in shown),
            "",
            "from tilewright.tools.fuzz.operators import check_operators, drawn_operators",
            "",
            f"check_operators(drawn_operators({list(numbers)}), {target!r})",
            'print("it no longer fails")',
            "",
        ]
    )
