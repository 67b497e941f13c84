"""Choices of autoschedule, and its other candidates: every candidate computes what the program says.

A case is a program with several selections, one candidate for each decision: the rules' own, and drawn ones. Half of the cases keep
the declared order of sums, and compare every bit with the program without a schedule.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...autoschedule.plan import Candidate, cheapest
from ...autoschedule.scheduler import schedule
from ...driver.build import lower
from ...ir.interpret.interpreter import Interpreter
from ...ir.lazy_values import cached_property
from .case import empty_report
from .chains import draw_chain
from .choices import Choices, case_choices, replay_choices
from .contractions import draw_contraction, draw_factors, draw_itself
from .control import draw_product, draw_scan
from .histograms import draw_cells
from .images import draw_blur, draw_gather, draw_layout
from .networks import draw_conv2d, draw_matmul, draw_pool
from .norms import draw_norm, draw_running
from .oracle import Failure, Options, check_bits, compare, expected_bits, interpret_step, run_kernel, signature
from .program import Program
from .reductions import draw_reduction
from .rows import draw_argmax, draw_softmax, draw_triangle, draw_tuples
from .shrink import shrink
from .spectra import draw_spectrum

__all__ = ["AllMet", "Taken", "check_selections", "run_selections"]

PROGRAMS: tuple[tuple[float, Callable[[Choices], Program]], ...] = (
    (5, draw_contraction),
    (3, draw_chain),
    (3, draw_matmul),
    (3, draw_conv2d),
    (1.5, draw_pool),
    (2, draw_softmax),
    (1, draw_itself),
    (2, draw_factors),
    (1, draw_cells),
    (1, draw_spectrum),
    (1, draw_argmax),
    (3, draw_blur),
    (1, draw_layout),
    (1, draw_gather),
    (1, draw_triangle),
    (1, draw_tuples),
    (1, draw_scan),
    (1, draw_product),
    (7, draw_reduction),
    (3, draw_norm),
    (1, draw_running),
)
TARGETS = {"llvm": ("llvm",), "c": ("c",), "cuda": ("cuda -emulate",), "all": (*["llvm"] * 19, "cuda -emulate")}
SELECTIONS = 8
"""Of one program at most, the first of which is the rules' own."""
_PROGRAM, _TAKEN = 12, 13
_FULL = 32
"""One case of so many is compiled with all of LLVM's effort: one of 8 took as long as all others."""


def draw_selected(choices: Choices) -> Program:
    """A program of a kind that has something to choose, most often."""
    draw = choices.pick_weighted(PROGRAMS)
    with np.errstate(all="ignore"):
        return draw(choices)


class AllMet(Exception):
    """Whatever this decision takes now has been checked."""


class Taken:
    """Choosers for the selections of one program, no two of which are the same: the rules' own, unless `usual` is False, then drawn
    ones."""

    def __init__(self, taken: Choices, usual: bool = True) -> None:
        self.taken, self.usual = taken, usual
        self.met: set[tuple[int, ...]] = set()
        self.places: list[int] = []

    def chooser(self, name: str, candidates: Sequence[Candidate]) -> int:
        usual = cheapest(name, candidates)
        first = usual if self.usual and not self.met else self.taken.below(len(candidates))
        for place in (*range(first, len(candidates)), *range(first)):
            if (*self.places, place) not in self.met:
                self.places.append(place)
                return place
        raise AllMet


class _Expected:
    """Reference for all selections of one program, found once, and only where somebody asks."""

    def __init__(self, program: Program, options: Options) -> None:
        self.program, self.options = program, options

    @cached_property
    def bits(self) -> tuple[Program, list[Any]] | None:
        unscheduled = Interpreter(lower(te.create_schedule(self.program.outputs), self.program.args))
        reference = interpret_step("unscheduled program, interpreted", self.program, unscheduled)
        compare("unscheduled program against numpy", self.program, reference, self.program.values)
        return expected_bits(self.program, unscheduled, self.options)


def check_selections(program: Program, taken: Choices, options: Options, exact: bool) -> Counter[str]:
    """Check several selections for one program; return how many there were, by what made the decisions. Raises Failure."""
    expected, selections = _Expected(program, options), Taken(taken)
    counts: Counter[str] = Counter()
    for _ in range(SELECTIONS):
        selections.places = []
        try:
            s = schedule(program.outputs, options.target, exact=exact, chooser=selections.chooser)
        except AllMet:
            break
        if tuple(selections.places) in selections.met:  # nothing was to be decided
            break
        selections.met.add(tuple(selections.places))
        counts.update({("exact" if exact else "default"): 1, **{row.rule: 1 for row in s.decisions}})
        told = f"taken {selections.places}: {[row.description for row in s.decisions]}"
        kernel = options.kernel(lower(s, program.args))
        compare(f"{told}, against numpy", program, run_kernel(told, program, kernel, options.at_end), program.values)
        if exact and not s.is_exact:
            raise Failure(told, str(s.is_exact))
        if s.is_exact and expected.bits is not None:
            check_bits(kernel, options, *expected.bits)
    return counts


def _draw_case(seed: int, case: int, target: str) -> tuple[Choices, Choices, Options, bool]:
    choices = case_choices(seed, case, _TAKEN)
    options = Options(
        choices.pick(TARGETS[target]), False, [choices.chance(0.7) for _ in range(16)], False, quick=case % _FULL > 0
    )
    return case_choices(seed, case, _PROGRAM), choices, options, choices.chance(0.5)


def run_selections(seed: int, case: int, target: str = "llvm", shrink_seconds: float = 20.0) -> dict[str, Any]:
    """Draws and checks one case, as fuzz.case.run_case does for schedules that are drawn."""
    report = empty_report(case)
    began = time.perf_counter()
    numbers, taken, options, exact = _draw_case(seed, case, target)
    drawn = len(taken.made)
    try:
        program = draw_selected(numbers)
        report.update(name=program.name, target=options.target, exact=exact)
        report["tried"] = dict(check_selections(program, taken, options, exact))
        report["choices"] = {mode: report["tried"][mode] for mode in ("default", "exact") if mode in report["tried"]}
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is what this is here to find
        kept = numbers.made, taken.made[drawn:]
        report.update(_explain_failure(seed, case, options, exact, kept, error, shrink_seconds))
    report["seconds"] = time.perf_counter() - began
    return report


def _has_failure(numbers: Sequence[int], taken: Sequence[int], options: Options, exact: bool, wanted: str) -> bool:
    try:
        check_selections(draw_selected(replay_choices(numbers)), replay_choices(taken), options, exact)
    except Exception as error:  # noqa: BLE001 - the kind of failure is compared
        return type(error).__name__ == wanted
    return False


def _explain_failure(
    seed: int,
    case: int,
    options: Options,
    exact: bool,
    kept: tuple[list[int], list[int]],
    error: BaseException,
    seconds: float,
) -> dict[str, Any]:
    numbers, taken = kept
    what = str(error) if isinstance(error, Failure) else "".join(traceback.format_exception(error, limit=-8))
    headline = (
        f"case {case} of seed {seed}: tilewright fuzz --mode selections --seed {seed} --cases {case}:{case + 1}\n{what}"
    )
    if seconds:
        smaller = shrink(
            numbers, [], lambda one: _has_failure(one[0], taken, options, exact, type(error).__name__), seconds
        )
        numbers = smaller[0] if smaller is not None else numbers
    python = "\n".join(
        [
            *(f"# {line}".rstrip() for line in headline.splitlines()),
            "",
            "from tilewright.tools.fuzz import Options",
            "from tilewright.tools.fuzz.choices import forced",
            "from tilewright.tools.fuzz.selections import check_selections, draw_selected",
            "",
            f"check_selections(draw_selected(forced({list(numbers)})), forced({list(taken)}), {options!r}, {exact})",
            'print("it no longer fails")',
            "",
        ]
    )
    return {"failure": headline, "signature": signature(error), "python": python}


def explain_selections_death(seed: int, case: int, target: str) -> str:
    """The program of a case that ends its process."""
    numbers, taken, options, exact = _draw_case(seed, case, target)
    draw_selected(numbers)
    report = _explain_failure(
        seed, case, options, exact, (numbers.made, taken.made), Failure("run", "ends the process"), 0
    )
    return str(report["python"])
