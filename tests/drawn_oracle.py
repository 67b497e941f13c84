"""Whether a scheduled program does what the unscheduled one and numpy do; the smallest schedule that still fails."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from typing import Any

import drawn
import numpy as np
import tilewright as tw
from drawn_programs import Program, draw_program
from drawn_schedules import Drawn, draw_schedule
from tilewright import te
from tilewright.errors import LoweringError
from tilewright.ir import BufferStore, For, Range, Stmt, Var, equal, interpreter, parse, verify
from tilewright.ir.arith.analyzer import Analyzer
from tilewright.ir.visit import children
from tilewright.schedule import from_json, to_json

__all__ = ["Failure", "check", "run_case"]

MAX_WORK = 300_000
TOO_SLOW = "too slow to interpret"
GUARD = 64
CANARY = 0xA5
WRONG_PROGRAM = {f"TW030{digit}" for digit in range(1, 9)}
"""Codes by which the verifier, the parser and the interpreter tell that a lowered program is wrong."""


class Failure(AssertionError):
    """A case that fails: `step` names what was being checked."""

    def __init__(self, step: str, text: str) -> None:
        super().__init__(f"{step}: {text}")
        self.step = step


class Guarded:
    """An array inside a larger buffer whose margins must stay as they are."""

    def __init__(self, value: np.ndarray, offset: int, poisoned: bool) -> None:
        self.value = value
        start = GUARD + offset * value.itemsize
        self.buffer = np.full(start + value.nbytes + GUARD, CANARY, "uint8")
        self.inside = slice(start, start + value.nbytes)
        self.view = self.buffer[self.inside].view(value.dtype).reshape(value.shape)
        self.written = poisoned
        if not poisoned:
            self.view[...] = value

    def check(self, step: str, name: str) -> None:
        margins = np.concatenate([self.buffer[: self.inside.start], self.buffer[self.inside.stop:]])
        if not (margins == CANARY).all():
            raise Failure(step, f"wrote outside {name}")
        if not self.written and self.view.tobytes() != self.value.tobytes():
            raise Failure(step, f"changed its input {name}")


def wide(value: np.ndarray) -> np.ndarray:
    return value.astype("float64") if value.dtype.kind not in "biu" else value


def compare(step: str, program: Program, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Results against expectations: exactly, or within the program's tolerance."""
    for argument, is_result, got, want in zip(program.args, program.results, found, expected, strict=True):
        if not is_result:
            continue
        a, b = wide(got), wide(want)
        if program.tolerance and a.dtype.kind == "f":
            same = np.isclose(a, b, rtol=program.tolerance, atol=program.tolerance, equal_nan=True)
        else:
            same = (a == b) | ((a != a) & (b != b))
        if not same.all():
            at = tuple(int(n) for n in np.argwhere(~same)[0]) if np.ndim(same) else ()
            raise Failure(step, f"{argument.name}{list(at)} is {got[at]}, expected {want[at]} "
                                f"({int((~same).sum())} of {same.size} elements differ)")


def interpreted(step: str, program: Program, function: Any) -> list[Any]:
    """Every argument after the checking interpreter ran the function."""
    given = [np.full(value.shape, 77).astype(value.dtype) if is_result else
             (value.copy() if isinstance(value, np.ndarray) else value)
             for value, is_result in zip(program.values, program.results, strict=True)]
    try:
        interpreter.run(function, given, check=True)
    except tw.TilewrightError as error:
        raise Failure(step, str(error)) from error
    return given


def work(program: Program, function: Any) -> int:
    """About how often the program stores something, from above: a drawn schedule may compute a tensor anew for each of
    thousands of iterations."""
    analyzer = Analyzer()
    for parameter, value in zip(function.params, program.values, strict=True):
        shape = getattr(parameter, "shape", ())
        for extent, size in zip(shape, np.shape(value), strict=True):
            if isinstance(extent, Var):
                analyzer.bind(extent, (size, size))
    total, stack = 0, [(function.body, 1)]
    while stack:
        node, times = stack.pop()
        if isinstance(node, For):
            high = analyzer.interval(node.extent).hi
            times *= max(high, 0) if high is not None else 1
            analyzer.bind(node.var, Range(node.begin, node.extent))
        total += times if isinstance(node, BufferStore) else 0
        stack.extend((child, times) for child in children(node) if isinstance(child, Stmt))
    return total


def check_text(function: Any, s: Any, program: Program) -> None:
    """The lowered program survives printing, and the schedule survives its records."""
    text = str(function)
    if not equal(parse(text), function):
        raise Failure("text", f"the text does not read back as the same function:\n{text}")
    scope = {"te": te, "ops": program.outputs}
    exec(s.as_python(), scope)
    twins = {"replayed records": te.Schedule.replay(s.records, program.outputs), "a copy": s.copy(), "as_python": scope["s"],
             "records through JSON": te.Schedule.replay(from_json(to_json(s.records)), program.outputs)}
    for what, twin in twins.items():
        again = tw.lower(twin, program.args, function.name)
        if not equal(again, function):
            raise Failure("replay", f"{what}: lowers to another function:\n{again}\ninstead of\n{function}")


def run_kernel(step: str, program: Program, kernel: Any, offsets: Sequence[int]) -> list[Any]:
    """Every argument after the kernel ran on views inside canaries."""
    guarded = [Guarded(value, offset, is_result) if isinstance(value, np.ndarray) else value
               for value, offset, is_result in zip(program.values, offsets, program.results, strict=True)]
    kernel(*(one.view if isinstance(one, Guarded) else one for one in guarded))
    for argument, one in zip(program.args, guarded, strict=True):
        if isinstance(one, Guarded):
            one.check(step, argument.name)
    return [one.view if isinstance(one, Guarded) else one for one in guarded]


def check(program: Program, s: Any, rng: np.random.Generator | None = None) -> str:
    """Empty where the schedule is right, the code of its refusal where it does not lower. Raises Failure."""
    rng = np.random.default_rng(0) if rng is None else rng
    plain = tw.lower(te.create_schedule(program.outputs), program.args)
    reference = interpreted("unscheduled program, interpreted", program, plain)
    compare("unscheduled program against numpy", program, reference, program.values)
    shown = str(s)
    try:
        function = tw.lower(s, program.args)
    except LoweringError as error:
        if error.code in WRONG_PROGRAM:
            raise Failure("lower", str(error)) from error
        return error.code
    if not shown:
        raise Failure("print", "nothing is shown")
    try:
        verify(function)
    except LoweringError as error:
        raise Failure("verify", str(error)) from error
    check_text(function, s, program)
    if work(program, function) > MAX_WORK:
        return TOO_SLOW
    step = "scheduled program, interpreted"
    compare(step, program, interpreted(step, program, function), reference)
    try:
        kernel = tw.build(s, program.args, bounds_check=bool(rng.random() < 0.1))
    except LoweringError as error:
        if error.code in WRONG_PROGRAM:
            raise Failure("build", "\n".join([str(error), *getattr(error, "__notes__", [])])) from error
        return error.code
    offsets = [int(rng.integers(0, 5)) for _ in program.args]
    found = run_kernel("kernel", program, kernel, offsets)
    compare("kernel against the interpreter", program, found, reference)
    compare("kernel against numpy", program, found, program.values)
    return ""


def run_case(case: int) -> dict[str, Any]:
    """One drawn case; what happened, as plain data. A failure brings the text of a program that repeats it."""
    rng = drawn.rng("differential", case)
    report: dict[str, Any] = {"case": case, "name": "?", "failure": "", "refused": {}, "tried": {}, "lowering": ""}
    s, program, began = None, None, time.perf_counter()
    try:
        program = draw_program(rng)
        report["name"] = program.name
        s = te.create_schedule(program.outputs)
        made: Drawn = draw_schedule(rng, s)
        report["tried"], report["refused"] = made.tried, made.refused
        report["lowering"] = check(program, s, rng)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is what this is here to find
        report["failure"] = explain(case, program, s, error)
    report["seconds"] = time.perf_counter() - began
    return report


def signature(error: BaseException) -> str:
    return error.step if isinstance(error, Failure) else type(error).__name__


def shrink(program: Program, s: Any, error: BaseException) -> Any:
    """The schedule without the records that the failure does not need."""
    wanted, records = signature(error), list(s.records)
    at = len(records) - 1
    while at >= 0:
        fewer = records[:at] + records[at + 1:]
        if fails_alike(program, fewer, wanted):
            records = fewer
        at -= 1
    return te.Schedule.replay(records, program.outputs)


def fails_alike(program: Program, records: Sequence[Any], wanted: str) -> bool:
    try:
        s = te.Schedule.replay(records, program.outputs)
    except Exception:  # noqa: BLE001 - dropped records may leave others without what they speak of
        return False
    try:
        check(program, s)
    except Exception as error:  # noqa: BLE001 - the kind of failure is compared
        return signature(error) == wanted
    return False


def explain(case: int, program: Program | None, s: Any, error: Exception) -> str:
    """The failure, and how to repeat it."""
    again = f"--seed {drawn.SEED} --cases {case}:{case + 1}"
    parts = [f"case {case} of seed {drawn.SEED}: python tests/test_differential.py {again}"]
    if isinstance(error, Failure):
        parts.append(str(error))
    else:
        parts.append("".join(traceback.format_exception(error, limit=-8)))
    if program is None:
        return "\n".join(parts)
    if s is not None and fails_alike(program, list(s.records), signature(error)):
        s = shrink(program, s, error)
        parts.append("shrunk to:")
    parts.append(f"""import drawn, numpy as np, tilewright as tw
from tilewright import te
from drawn_programs import draw_program
from drawn_oracle import check
drawn.SEED = {drawn.SEED}
program = draw_program(drawn.rng("differential", {case}))
ops = program.outputs""")
    parts.append(s.as_python() if s is not None else "s = te.create_schedule(ops)")
    parts.append("check(program, s)")
    parts.append("# the unscheduled program:")
    try:
        parts += [f"# {line}" for line in str(tw.lower(te.create_schedule(program.outputs), program.args)).splitlines()]
        parts.append("# the scheduled program:")
        parts += [f"# {line}" for line in str(tw.lower(s, program.args)).splitlines()] if s is not None else []
    except Exception as problem:  # noqa: BLE001 - the program may not even lower
        parts.append(f"# {problem}")
    return "\n".join(parts)
