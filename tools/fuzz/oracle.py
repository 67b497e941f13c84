"""Oracle for scheduled programs: the unscheduled one and numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ... import te
from ...base.arguments import is_array
from ...base.errors import CudaError, LoweringError, TilewrightError
from ...codegen.result import BuildOptions
from ...codegen.target import Target
from ...driver.build import build_with_options, lower
from ...ir import BufferStore, Call, Evaluate, Expr, Function, Var, equal, parse, post_order, verify
from ...ir.analysis.work import executions, measure_work
from ...ir.interpret.interpreter import Interpreter
from ...ir.intrinsics import INTRINSICS, is_pure
from ...ir.passes.common.fused_sums import round_sums
from ...schedule import from_json, to_json
from ...views.sparse import SparseArray
from .guard import Guarded
from .program import Program

__all__ = [
    "Failure",
    "Options",
    "TOO_LARGE",
    "TOO_SLOW",
    "check",
    "check_bits",
    "compare",
    "expected_bits",
    "interpret_step",
    "roughen",
    "run_kernel",
    "signature",
]

MAX_WORK = 300_000
TOO_SLOW = "too slow to interpret"
TOO_LARGE = "too large to emulate"
WRONG_PROGRAM = {f"TW030{digit}" for digit in range(1, 9)}
"""Codes by which the verifier, the parser and the interpreter tell that a lowered program is wrong."""


class Failure(AssertionError):
    """A case that fails: `step` names what was being checked."""

    def __init__(self, step: str, text: str) -> None:
        super().__init__(f"{step}: {text}")
        self.step = step


class Options:
    """Options for checking a case. target: of the kernel. bounds_check: whether it is built with its own checks. at_end: for
    each argument, whether it ends where it may no longer be read. text: whether text and records are checked too. quick: whether
    LLVM makes little of the code, in a tenth of its time."""

    def __init__(
        self,
        target: str = "llvm",
        bounds_check: bool = False,
        at_end: Sequence[bool] = (),
        text: bool = True,
        quick: bool = False,
    ) -> None:
        self.target, self.bounds_check, self.at_end, self.text, self.quick = (
            target,
            bounds_check,
            tuple(at_end),
            text,
            quick,
        )

    def __repr__(self) -> str:
        return f"Options({self.target!r}, {self.bounds_check}, {list(self.at_end)}, {self.text}, {self.quick})"

    def kernel(self, function: Function) -> Any:
        """The function, built."""
        options = BuildOptions(bounds_check=self.bounds_check, quick=self.quick)
        return build_with_options(function, None, self.target, "main", options)


def signature(error: BaseException) -> str:
    """Return the signature of a failure: shrinking keeps to one."""
    return error.step if isinstance(error, Failure) else type(error).__name__


def _wide(value: Any) -> Any:
    value = np.asarray(value)
    return value.astype("float64") if value.dtype.kind not in "biu" else value


def compare(step: str, program: Program, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Results against expectations: exactly, or within the program's tolerance. Raises Failure."""
    for argument, is_result, got, want in zip(program.args, program.results, found, expected, strict=True):
        if not is_result:
            continue
        a, b = _wide(got), _wide(want)
        if program.tolerance and a.dtype.kind == "f":
            same = np.isclose(a, b, rtol=program.tolerance, atol=program.tolerance, equal_nan=True)
        else:
            same = (a == b) | ((a != a) & (b != b))
        if not same.all():
            at = tuple(int(n) for n in np.argwhere(~same)[0]) if np.ndim(same) else ()
            raise Failure(
                step,
                f"{argument.name}{list(at)} is {got[at]}, expected {want[at]} "
                f"({int((~same).sum())} of {same.size} elements differ)",
            )


def compare_bits(step: str, program: Program, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Results against those of the program without a schedule: every bit, but that any NaN is like any other. Raises Failure."""
    for argument, is_result, got, want in zip(program.args, program.results, found, expected, strict=True):
        if not is_result:
            continue
        a, b = _wide(got), _wide(want)
        same = (a == b) & (np.signbit(a) == np.signbit(b)) | (a != a) & (b != b) if a.dtype.kind == "f" else a == b
        if not same.all():
            at = tuple(int(n) for n in np.argwhere(~same)[0]) if np.ndim(same) else ()
            numbers = [float(value[at]).hex() for value in (a, b)]
            raise Failure(
                step,
                f"{argument.name}{list(at)} is {numbers[0]}, expected the bits of {numbers[1]} "
                f"({int((~same).sum())} of {same.size} elements differ)",
            )


def roughen(program: Program) -> Program:
    """The program on floats whose sums and products are rounded; zeros of either sign."""
    rng = np.random.default_rng(len(program.args))
    values: list[Any] = []
    for value, is_result in zip(program.values, program.results, strict=True):
        array = np.asarray(value)
        if (
            is_result
            or not isinstance(value, np.ndarray)
            or isinstance(value, SparseArray)
            or array.dtype.kind in "biu"
        ):
            values.append(value)
            continue
        wide = array.astype("float64")
        zeros = np.where(rng.random(array.shape) < 0.5, 0.0, -0.0)
        moved = np.where(wide == 0, zeros, wide * rng.uniform(0.7, 1.3, array.shape))
        values.append(moved.astype(array.dtype))
    return replace(program, values=values)


def _approximates(function: Any) -> bool:
    """Return whether it calls mathematics whose last bits differ between families of targets."""
    calls = [node.name for node in post_order(function.body) if isinstance(node, Call)]
    return any(not is_pure(name) or INTRINSICS[name].approximate for name in calls)


def expected_bits(program: Program, unscheduled: Interpreter, options: Options) -> tuple[Program, list[Any]] | None:
    """The program on floats that show every bit, and what it holds there without a schedule: as it is interpreted, or, where it
    calls mathematics, as its kernel for the same target has it. None where neither says."""
    rough, plain = roughen(program), unscheduled.function
    target = Target.parse(options.target)
    if _approximates(plain):
        if target.backend.rules != "cpu":
            return None
        return rough, run_kernel("unscheduled program, compiled", rough, options.kernel(plain))
    rounded = plain if target.fuses else round_sums(plain, fuses=False)
    try:
        return rough, interpret_step(
            "unscheduled program, interpreted on rough floats",
            rough,
            unscheduled if rounded is plain else Interpreter(rounded),
        )
    except Failure:  # floats that became indices lead elsewhere now
        return None


def check_bits(kernel: Any, options: Options, rough: Program, expected: Sequence[Any]) -> None:
    """A kernel of a schedule that keeps every bit, against `expected_bits`."""
    step = f"bits of the kernel for {options.target}"
    compare_bits(step, rough, run_kernel(step, rough, kernel, options.at_end), expected)


def interpret_step(step: str, program: Program, function: Interpreter) -> list[Any]:
    """Every argument after the checking interpreter ran a function."""
    given = [
        np.full(value.shape, 77).astype(value.dtype) if is_result else (value.copy() if is_array(value) else value)
        for value, is_result in zip(program.values, program.results, strict=True)
    ]
    try:
        function(*given)
    except TilewrightError as error:
        raise Failure(step, str(error)) from error
    return given


def _work(program: Program, function: Any) -> int:
    """About how often the program stores or fetches something, from above: a drawn schedule may compute a tensor anew for each of
    thousands of iterations."""
    values: dict[Var, int] = {}
    for parameter, value in zip(function.arguments, program.values, strict=True):
        if isinstance(parameter, Var) and parameter.dtype.is_integer:
            values[parameter] = int(value)
        shape: tuple[Expr, ...] = getattr(parameter, "shape", ())
        extents = zip(shape, np.shape(value), strict=True)
        values.update({extent: size for extent, size in extents if isinstance(extent, Var)})
    return sum(
        times * sum(isinstance(statement.node, (BufferStore, Evaluate)) for statement in work.statements)
        for work, times in executions(measure_work(function, values), unknown=1)
    )


def _check_text(function: Any, s: Any, program: Program) -> None:
    """The lowered program survives printing, and the schedule survives its records."""
    if not str(s):
        raise Failure("print", "nothing is shown")
    text = str(function)
    if not equal(replace(parse(text), constants=function.constants), function):  # contents are shown in part
        raise Failure("text", f"the text does not read back as the same function:\n{text}")
    scope: dict[str, Any] = {"te": te, "ops": program.outputs}
    exec(s.as_python(), scope)
    twins = {
        "replayed records": te.Schedule.replay(s.records, program.outputs),
        "a copy": s.copy(),
        "as_python": scope["s"],
        "records through JSON": te.Schedule.replay(from_json(to_json(s.records)), program.outputs),
    }
    lowered: set[str] = set()
    for what, twin in twins.items():
        records = to_json(twin.records)
        if records in lowered:  # the same primitives in the same order
            continue
        lowered.add(records)
        again = lower(twin, program.args, function.name)
        if not equal(again, function):
            raise Failure("replay", f"{what}: lowers to another function:\n{again}\ninstead of\n{function}")


def _check_normalized(program: Program, s: Any, reference: Sequence[Any]) -> None:
    """The normalised schedule computes the same."""
    step = "normalised schedule, interpreted"
    try:
        function = lower(s.normalize(), program.args)
    except TilewrightError as error:
        raise Failure(step, str(error)) from error
    compare(step, program, interpret_step(step, program, Interpreter(function)), reference)


def run_kernel(step: str, program: Program, kernel: Any, at_end: Sequence[bool] = ()) -> list[Any]:
    """Every argument after the kernel ran on arrays against guard pages. Raises Failure, and what the kernel raises."""
    ends = [*at_end, *[True] * len(program.args)]
    guarded = [
        Guarded(value, end, is_result) if is_array(value) else value
        for value, end, is_result in zip(program.values, ends, program.results, strict=False)
    ]
    kernel(*(array.view if isinstance(array, Guarded) else array for array in guarded))
    for argument, array in zip(program.args, guarded, strict=True):
        complaint = array.complaint() if isinstance(array, Guarded) else ""
        if complaint:
            raise Failure(step, f"{complaint} {argument.name}")
    return [array.view if isinstance(array, Guarded) else array for array in guarded]


def _lower_or_code(program: Program, s: Any) -> Any:
    """The lowered program, or the code of its refusal."""
    try:
        function = lower(s, program.args)
    except LoweringError as error:
        if error.code in WRONG_PROGRAM:
            raise Failure("lower", str(error)) from error
        return error.code
    try:
        verify(function)
    except LoweringError as error:
        raise Failure("verify", str(error)) from error
    return function


def check(program: Program, s: Any, options: Options | None = None) -> str:
    """Empty where the schedule is right, the code of its refusal where it does not lower. Raises Failure."""
    options = Options() if options is None else options
    plain = lower(te.create_schedule(program.outputs), program.args)
    unscheduled = Interpreter(plain)
    reference = interpret_step("unscheduled program, interpreted", program, unscheduled)
    compare("unscheduled program against numpy", program, reference, program.values)
    function = _lower_or_code(program, s)
    if isinstance(function, str):
        return function
    if options.text:
        _check_text(function, s, program)
    if _work(program, function) > MAX_WORK:
        return TOO_SLOW
    step = "scheduled program, interpreted"
    compare(step, program, interpret_step(step, program, Interpreter(function)), reference)
    if options.text:
        _check_normalized(program, s, reference)
    return _check_kernel(program, function, options, reference, unscheduled if s.is_exact else None)


def _check_kernel(
    program: Program, function: Any, options: Options, reference: Sequence[Any], exactly: Interpreter | None
) -> str:
    """Compare a kernel with the expected results.

    exactly: the program without a schedule, where the schedule keeps its bits.
    """
    if "emulate" in options.target and any(isinstance(value, SparseArray) for value in program.values):
        return TOO_LARGE
    try:
        kernel = options.kernel(function)
    except (LoweringError, CudaError) as error:
        if error.code in WRONG_PROGRAM:
            raise Failure("build", "\n".join([str(error), *getattr(error, "__notes__", [])])) from error
        return error.code
    step = f"kernel for {options.target}"
    try:
        arrays = run_kernel(step, program, kernel, options.at_end)
    except TilewrightError as error:
        raise Failure(step, str(error)) from error
    compare(f"{step} against the interpreter", program, arrays, reference)
    compare(f"{step} against numpy", program, arrays, program.values)
    bits = expected_bits(program, exactly, options) if exactly is not None else None
    if bits is not None:
        check_bits(kernel, options, *bits)
    return ""
