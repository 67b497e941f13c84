"""A failure as text, and as a Python file that repeats it."""

from __future__ import annotations

import base64
import traceback
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ... import te
from ...base.errors import TilewrightError
from ...driver.build import lower
from ...ir import equal
from .choices import Choices
from .oracle import Failure, Options, signature
from .program import Program
from .programs import draw_program, drawn_program
from .schedules import draw_schedule
from .shrink import dies, has_failure, shrink
from .source import Unwritable, program_source, values_source

__all__ = ["explain", "explain_death", "write_program"]


def explain(
    seed: int,
    case: int,
    program: Program | None,
    s: Any,
    options: Options,
    numbers: Sequence[int],
    error: BaseException,
    seconds: float,
) -> dict[str, Any]:
    """The failure of a case: its text, how to repeat it, and the smallest program that still fails so, looked for during
    `seconds`."""
    again = f"tilewright fuzz --seed {seed} --cases {case}:{case + 1} --target {'cuda' if 'cuda' in options.target else 'llvm'}"
    what = str(error) if isinstance(error, Failure) else "".join(traceback.format_exception(error, limit=-8))
    report = {"failure": f"case {case} of seed {seed}: {again}\n{what}", "signature": signature(error), "python": ""}
    if program is None or not seconds:
        return report
    records = list(s.records) if s is not None else []
    smaller = shrink(numbers, records, lambda one: has_failure(one, options, signature(error)), seconds)
    if smaller is not None:
        numbers, records = smaller
        program = drawn_program(numbers)
    report["python"] = write_program(program, records, options, numbers, report["failure"])
    return report


def explain_death(numbers: Choices, choices: Choices, options: Options, headline: str, seconds: float) -> str:
    """The smallest program of a case that ends the process that runs it. Nothing but copies of this process runs it."""
    program = draw_program(numbers)
    s = te.create_schedule(program.outputs)
    draw_schedule(choices, s, options.text, "cuda" in options.target)
    records, drawn = list(s.records), numbers.made
    smaller = shrink(drawn, records, lambda one: dies(one, options), seconds)
    if smaller is not None:
        drawn, records = smaller
        program = drawn_program(drawn)
    return write_program(program, records, options, drawn, headline)


def write_program(
    program: Program, records: Sequence[Any], options: Options, numbers: Sequence[int], headline: str
) -> str:
    """A Python file that declares the program, schedules it, and raises what was found."""
    parts = [
        "\n".join(f"# {line}".rstrip() for line in headline.splitlines()),
        "",
        "import base64  # noqa: F401",
        "",
        "import ml_dtypes  # noqa: F401",
        "import numpy as np",
        "import tilewright as tw  # noqa: F401",
        "from tilewright import te",
        "from tilewright.tools import fuzz",
        "",
    ]
    declared = _declaration_code(program)
    if declared is not None:
        parts += [
            declared,
            values_source(program.values),
            f"program = fuzz.Program({program.name!r}, args, values, {program.results}, {program.tolerance})",
        ]
    else:
        parts += [f"program = fuzz.drawn_program({list(numbers)})", "ops = program.outputs"]
    try:
        s = te.Schedule.replay(records, program.outputs)
        parts += ["", s.as_python()]
        parts += [f"# {line}".rstrip() for line in str(s).splitlines()]
    except Exception as problem:  # noqa: BLE001 - the schedule may be what fails
        parts += ["", f"s = te.create_schedule(ops)  # the records do not replay: {problem!r}".replace("\n", " ")]
    options = Options(
        options.target, options.bounds_check, options.at_end[: len(program.args)], options.text, options.quick
    )
    parts += ["", f"fuzz.check(program, s, fuzz.{options!r})", 'print("it no longer fails")', ""]
    return "\n".join(parts)


def _declaration_code(program: Program) -> str | None:
    """The code that declares the program, where it makes the same program again."""
    try:
        text = program_source(program)
    except Unwritable:
        return None
    scope: dict[str, Any] = {"te": te, "np": np, "base64": base64, "ml_dtypes": ml_dtypes}
    exec(text, scope)
    try:
        ours, again = (
            lower(te.create_schedule(ops), args, "main")
            for ops, args in ((program.outputs, program.args), (scope["ops"], scope["args"]))
        )
    except TilewrightError:  # what may be the failure
        return text
    return text if equal(ours, again) else None
