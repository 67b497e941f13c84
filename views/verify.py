"""A schedule checked against the program without it: by the interpreter on few elements, by native code on more.

What is compared are the outputs of both programs on the same drawn inputs. Integers must agree exactly, and so must the bits of
floats where the schedule keeps them (`s.is_exact`), any NaN being like any other. Where it adds in another order, they agree up to
what that does to them: a few units in the last place of the largest result, for each term added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from ..base.arguments import is_a, to_items
from ..base.dataclass import dataclass
from ..base.errors import CallError, CodegenError, LoweringError, SourceLine, TilewrightError, user_source
from ..codegen.build import build_kernels
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..ir import Buffer, Function, Var, deep_recursion
from ..ir.errors import AssertionFailed, OutOfBounds, UnknownOutsideCode
from ..ir.interpret.interpreter import run as interpret
from ..schedule import Schedule, create_schedule
from ..schedule.lowering.lower import lower
from ..schedule.lowering.text import all_arguments
from ..te.operation import Operation, producers_first
from ..te.shrink import iterations, shrunk
from .differences import approximates, differences, longest_sum
from .errors import CannotVerify, ResultsDiffer
from .large import large_sizes
from .verified_pair import Pair, copied, data_indexed, declared, draw_inputs, mostly_numbers, symbol_texts, tensor_bytes

__all__ = ["Check", "Verification", "verify"]

_INTERPRETED, _NATIVE = 120_000, 200_000_000
"""Evaluations of bodies that one program takes at most: a fraction of a second."""
_PRIMES = (67, 61, 59, 53, 47, 43, 41, 37, 31, 29, 23, 19, 17, 13, 11, 7, 5, 3, 2)
_LARGE = (2039, 1021, 509, 251, 131, *_PRIMES)
_FAR, _STEPPED = 1_000_000, 20_000
"""Evaluations at large sizes, by native code and by the interpreter."""
_NEAR_BYTES, _FAR_BYTES = 1 << 28, 1 << 34
"""What is drawn whole, and what is not touched either."""
_MOST_BISECTED = 60
_ULPS = 16
Shapes = Mapping[Any, int]


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison. by: "interpreter" or "native code". sizes: of the outputs and symbols. elements: how many were
    compared. worst: the largest difference, relative to the largest result."""

    by: str
    sizes: str
    elements: int
    worst: float

    def __str__(self) -> str:
        how = "equal" if self.worst == 0 else f"within {self.worst:.1e} of the largest"
        return f"{self.by}: {self.sizes}, {self.elements:,} element{'' if self.elements == 1 else 's'} {how}"


@dataclass(slots=True)
class Verification:
    """Checks of a schedule, with their seed; left_out: what could not be, with the reason."""

    name: str
    seed: int
    exact: bool = False
    """Whether bits were compared."""
    checks: list[Check] = field(default_factory=list[Check])
    left_out: list[str] = field(default_factory=list[str])
    not_tried: list[str] = field(default_factory=list[str])
    """Sizes of symbols that were looked at and not run, with the reason."""

    def __str__(self) -> str:
        return "\n  ".join(
            [
                f"the schedule of {self.name} holds (seed {self.seed})",
                *map(str, self.checks),
                *(f"left out: {reason}" for reason in self.left_out),
                *(f"not tried: {reason}" for reason in self.not_tried),
            ]
        )

    __repr__ = __str__


class _Refused(Exception):
    """The plain program does not take these sizes."""


def verify(
    schedule: Schedule,
    shapes: Shapes | Sequence[Shapes] | None = None,
    seed: int = 0,
    target: str = "llvm",
) -> Verification:
    """See Schedule.verify."""
    verifying = _Verifying(schedule, seed, Target.parse(target))
    if shapes is not None or not _symbols(schedule):
        return verifying.run(_sizes(schedule, shapes))
    return verifying.choose(_symbols(schedule))


class _Verifying:
    def __init__(self, schedule: Schedule, seed: int, target: Target) -> None:
        self.schedule, self.seed, self.target = schedule, seed, target
        self.exact = bool(schedule.is_exact)
        self.made = Verification(", ".join(op.name for op in schedule.outputs), seed, self.exact)
        self.whole: tuple[Function, Function] | None = None
        """The program as it is, scheduled and plain, once it is lowered."""
        self.built: dict[Function, list[Any]] = {}

    def run(self, sizes: Sequence[dict[Var, int]]) -> Verification:
        with deep_recursion():
            for values in sizes:
                try:
                    (self.far if self.holds_little(values) else self.at)(values)
                except _Refused as refused:
                    raise refused.args[0] from None
        return self.checked()

    def choose(self, symbols: Sequence[Var]) -> Verification:
        """Verify with symbols of our choice: primes, ones, and what is large; sizes that the program refuses are told."""
        small, more = ({symbol: primes[at % 4] for at, symbol in enumerate(symbols)} for primes in (_SMALL, _MORE))
        ones = dict.fromkeys(symbols, 1)
        with deep_recursion():
            if not self.try_values(small, self.at):
                self.try_values(more, self.at)
            self.try_values(ones, self.at)
            large, left = large_sizes(symbols, small, self.against)
            self.made.not_tried += left
            for values in large:
                self.try_values(values, self.far)
        return self.checked()

    def try_values(self, values: dict[Var, int], run: Callable[[dict[Var, int]], None]) -> bool:
        try:
            run(values)
        except _Refused as refused:
            problem = refused.args[0]
            named = ", ".join(f"{symbol.name} = {value}" for symbol, value in values.items())
            self.made.not_tried.append(f"{named}: {getattr(problem, 'headline', problem)}")
            return False
        return True

    def at(self, values: dict[Var, int]) -> None:
        for pair in self.pairs(values, _INTERPRETED, _PRIMES, "the interpreter"):
            self.interpret_pair(pair)
        for pair in self.pairs(values, _NATIVE, _LARGE, "native code"):
            self.native(pair)

    def against(self, values: dict[Var, int]) -> str:
        """Return the reason for which the program is not run at large sizes; empty where it is."""
        outputs = self.schedule.outputs
        count = iterations(outputs, values)
        if count > _FAR:
            return f"{count:,} evaluations"
        size = self.size(values)
        if size > _FAR_BYTES:
            return f"{size:,} bytes"
        return "" if size <= _NEAR_BYTES or self.holds_little(values) else f"{size:,} bytes, and {count:,} evaluations"

    def size(self, values: dict[Var, int]) -> int:
        """The bytes of all tensors."""
        return sum(
            tensor_bytes(tensor, values) for op in producers_first(self.schedule.outputs) for tensor in op.outputs
        )

    def holds_little(self, values: dict[Var, int]) -> bool:
        """Return whether tensors are so large, and so little of them is read at places that no data choose, that this alone is drawn."""
        outputs = self.schedule.outputs
        return (
            self.size(values) > _NEAR_BYTES
            and iterations(outputs, values) <= _INTERPRETED
            and not data_indexed(outputs)
        )

    def far(self, values: dict[Var, int]) -> None:
        """Verify at large sizes, where few elements are read: these are drawn."""
        outputs = self.schedule.outputs
        pair = self.pair(outputs, values)
        notes: dict[Buffer, set[int]] = {}
        if self.holds_little(values):
            arguments = draw_inputs(pair, self.seed, False, False, self.exact, notes)
            self.run_plain(lambda: interpret(pair.plain, arguments))
            pair = replace(pair, touched={param: sorted(places) for param, places in notes.items()})
        if iterations(outputs, values) <= _STEPPED:
            self.interpret_pair(pair)
        self.native(pair)

    def run_plain(self, call: Callable[[], object]) -> None:
        """Run the plain program, which may refuse its sizes."""
        try:
            call()
        except (AssertionFailed, CallError) as problem:
            raise _Refused(problem) from None

    def checked(self) -> Verification:
        if not self.made.checks:
            reasons = "; ".join((*self.made.left_out, *self.made.not_tried))
            raise CannotVerify(
                f"cannot verify the schedule of {self.made.name}",
                reason=reasons,
                called=user_source(),
                fix="compare its results with those of a reference of your own",
            )
        return self.made

    # Programs

    def pairs(self, values: dict[Var, int], budget: int, primes: Sequence[int], by: str) -> Iterator[Pair]:
        """The program as it is where it is small enough; else cut down to sizes that tiles divide, and to primes."""
        outputs = self.schedule.outputs
        if iterations(outputs, values) <= budget:
            yield self.pair(outputs, values)
            return
        count = 0
        vouched = any(record.arguments.get("disable_predication") for record in self.schedule.records)
        for lengths in (_powers(), _odd(primes)):
            small = (
                None
                if vouched
                else next(
                    (ops for length in lengths if iterations(ops := shrunk(outputs, length), values) <= budget), None
                )
            )
            if small is not None:
                try:
                    pair = self.pair(small, values)
                except TilewrightError:  # a primitive that only fits the real size
                    continue
                count += 1
                yield pair
        if not count:
            self.made.left_out.append(f"{by}: the program is too large, and cannot be cut down with this schedule")

    def pair(self, outputs: Sequence[Operation], values: dict[Var, int]) -> Pair:
        own = outputs is self.schedule.outputs
        scheduled = self.schedule if own else Schedule.replay(self.schedule.records, outputs)
        plain = create_schedule(list(outputs))
        functions = self.whole if own else None
        if functions is None:
            functions = (
                lower(scheduled, all_arguments(scheduled), "scheduled"),
                lower(plain, all_arguments(plain), "plain"),
            )
        if own:
            self.whole = functions
        vouched = any(op.is_vouched_for for op in producers_first(outputs)) or any(
            record.arguments.get("independent") for record in self.schedule.records
        )
        pair = Pair(*functions, values, tuple(outputs), vouched=vouched)
        mine, theirs = ([declared(param) for param in function.arguments] for function in (pair.scheduled, pair.plain))
        if mine != theirs:
            raise CannotVerify(
                f"cannot verify the schedule of {self.made.name}",
                called=user_source(),
                reason=f"it changes what the kernel is called with: {', '.join(mine)} instead of {', '.join(theirs)}",
                fix="verify before transform_layout is applied to an argument",
            )
        return pair

    # Runs

    def interpret_pair(self, pair: Pair) -> None:
        """Both programs by the interpreter, which also finds accesses out of bounds, unwritten elements and races."""
        try:
            expected, drawn = self.reference(pair, lambda args: interpret(pair.plain, args))
            got = copied(drawn)
            interpret(pair.scheduled, got)
        except UnknownOutsideCode as problem:
            self.made.left_out.append(f"interpreter: {problem.headline}")
            return
        self.compare("interpreter", pair, expected, got, self.exact)

    def native(self, pair: Pair) -> None:
        checked = bool(data_indexed(pair.outputs))
        plain = (
            self.target
            if self.target.backend.device(self.target) == "cpu" and self.target.backend.rules == "cpu"
            else Target()
        )
        try:
            kernels = self.built.get(pair.scheduled) or [
                build_kernels([function], target, BuildOptions(bounds_check=checked)).module[function.name]
                for function, target in ((pair.plain, plain), (pair.scheduled, self.target))
            ]
            self.built[pair.scheduled] = kernels
        except (CodegenError, LoweringError) as problem:
            self.made.left_out.append(f"native code: {problem.headline}")
            return
        expected, drawn = self.reference(pair, lambda args: kernels[0](*args))
        got = copied(drawn)
        kernels[1](*got)
        alike = plain is self.target or plain.fuses == self.target.fuses and not approximates(pair)
        self.compare("native code", pair, expected, got, self.exact and alike)

    def reference(self, pair: Pair, call: Callable[[list[Any]], object]) -> tuple[list[Any], list[Any]]:
        """Compute the results of the plain program, and return the arguments as they were drawn. Drawn again where its results are no
        numbers (logarithms of what is negative), or where data that are indices lead out of bounds."""
        for positive, zero in ((False, False), (True, False), (True, True)):
            drawn = draw_inputs(pair, self.seed, positive, zero, self.exact)
            results = copied(drawn)
            try:
                self.run_plain(lambda results=results: call(results))
            except (OutOfBounds, RuntimeError, LoweringError) as problem:
                if zero or not data_indexed(pair.outputs) or isinstance(problem, UnknownOutsideCode):
                    raise
                continue
            if positive or mostly_numbers(pair.plain, results):
                return results, drawn
        return results, drawn

    # Results

    def compare(self, by: str, pair: Pair, expected: Sequence[Any], got: Sequence[Any], exact: bool) -> None:
        elements, worst, sizes = 0, 0.0, list[str]()
        slack = 0 if exact else _ULPS * (len(pair.outputs) + longest_sum(pair))
        for param, want, have in zip(pair.plain.arguments, expected, got, strict=True):
            if isinstance(param, Buffer) and param in pair.plain.outputs:
                wrong, apart = differences(want, have, slack)
                if wrong is not None:
                    raise self.differ(by, pair, param, wrong, want, have)
                elements, worst = elements + want.size, max(worst, apart)
                sizes.append(f"{param.name}[{', '.join(map(str, want.shape))}]")
        self.made.checks.append(Check(by, ", ".join([*sizes, *symbol_texts(pair)]), elements, worst))

    def differ(
        self, by: str, pair: Pair, param: Buffer, wrong: np.ndarray[Any, Any], want: Any, have: Any
    ) -> ResultsDiffer:
        at = tuple(int(n) for n in np.argwhere(wrong)[0]) if wrong.ndim else ()
        guilty, source = self.guilty(pair)
        circumstances = "".join(
            f", {fact}" for fact in (f"by {by}", f"inputs drawn with seed {self.seed}", *symbol_texts(pair))
        )
        return ResultsDiffer(
            f"the schedule changes {param.name}[{', '.join(map(str, at))}]: expected {want[at]}, got {have[at]}",
            reason=f"{int(wrong.sum())} of {wrong.size} elements of {param.name}{list(want.shape)} differ from the unscheduled "
            f"program's{circumstances}" + (f"; they do since {guilty}" if guilty else ""),
            declared=next((op.source for op in pair.outputs if op.name == param.name), None),
            called=source or user_source(),
            fix="s.show() steps through the primitives; take back the one after which the loops are not what you meant",
        )

    def guilty(self, pair: Pair) -> tuple[str, SourceLine | None]:
        """The first record after which the interpreter finds a difference, or a fault, as text; where it was called."""
        records = self.schedule.records
        if len(records) > _MOST_BISECTED or iterations(pair.outputs, pair.values) > _INTERPRETED:
            return "", None
        for count in range(1, len(records) + 1):
            try:
                part = Schedule.replay(records[:count], list(pair.outputs))
                function = lower(part, all_arguments(part), "part")
            except TilewrightError:  # half of a schedule need not be whole
                continue
            try:
                expected, got = self.reference(pair, lambda args: interpret(pair.plain, args))
                interpret(function, got)
                same = all(
                    differences(want, have, 1e6)[0] is None
                    for param, want, have in zip(pair.plain.arguments, expected, got, strict=True)
                    if isinstance(param, Buffer) and param in pair.plain.outputs
                )
            except LoweringError:
                same = False
            if not same:
                return part.as_python().splitlines()[-1], records[count - 1].source
        return "", None


# Sizes


_SMALL, _MORE = (13, 11, 7, 5), (131, 127, 113, 109)


def _symbols(schedule: Schedule) -> list[Var]:
    return [symbol for symbol in schedule.symbols if symbol.dtype.is_integer]


def _sizes(schedule: Schedule, shapes: Shapes | Sequence[Shapes] | None) -> list[dict[Var, int]]:
    """The values of the symbols, one dict a run."""
    symbols = _symbols(schedule)
    if shapes is None:
        return [{}]
    given = [shapes] if isinstance(shapes, Mapping) else to_items(shapes)
    sizes: list[dict[Var, int]] = []
    for shapes_by_name in given:
        if not is_a(shapes_by_name, Mapping):
            raise CannotVerify(
                f"{shapes_by_name!r} is not a shape"[:200],
                called=user_source(),
                allowed="a dict with a number for each symbol, or a list of such",
                fix="s.verify({n: 100}), n being the te.var of the shapes",
            )
        values = {
            symbol: shapes_by_name[key] for symbol in symbols for key in (symbol, symbol.name) if key in shapes_by_name
        }
        missing = [symbol.name for symbol in symbols if symbol not in values]
        unknown = [
            str(key) for key in shapes_by_name if key not in symbols and key not in [symbol.name for symbol in symbols]
        ]
        if missing or unknown:
            names = ", ".join(symbol.name for symbol in symbols) or "none: every size is a number"
            raise CannotVerify(
                "the shapes do not fit the program",
                called=user_source(),
                allowed=f"a number for each symbol: {names}",
                reason=f"nothing is said of {', '.join(missing)}"
                if missing
                else f"it has no symbol {', '.join(unknown)}",
                fix="s.verify({n: 100}), n being the te.var of the shapes" if symbols else "s.verify()",
            )
        sizes.append(values)
    return sizes


def _powers() -> Iterator[Callable[[int, int], int]]:
    for power in (1024, 512, 256, 128, 64, 32, 16, 8, 4, 2):
        yield lambda number, extent, power=power: min(extent, power)


def _odd(primes: Sequence[int]) -> Iterator[Callable[[int, int], int]]:
    """Different primes for neighbouring axes, so that none passes for another."""
    for begin in range(len(primes) - 2):
        yield lambda number, extent, begin=begin: min(extent, primes[begin + number % 3])
