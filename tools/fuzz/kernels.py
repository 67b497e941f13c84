"""Kernels for GPUs: by all that the rules may choose and by schedules of people, for each architecture, in several orders of blocks
and threads on the emulator, which looks for races; and each text compiled for its architecture.

A case is a program: with several of its candidates, of which no two have the same text, or with a schedule by hand.
"""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ... import te
from ...autoschedule.scheduler import schedule
from ...base.errors import CudaError, TilewrightError
from ...codegen.cuda.emulate.call import SEED_VARIABLE
from ...codegen.cuda.nvrtc import compile_cuda
from ...driver.build import lower
from ...views.sparse import SparseArray
from .attentions import draw_attention, draw_weighted_rows
from .case import empty_report
from .chains import draw_chain
from .choices import Choices, case_choices, replay_choices
from .contractions import draw_contraction, draw_itself
from .control import draw_hybrid, draw_scan
from .device_programs import (
    draw_device_product,
    draw_layer,
    draw_long_rows,
    draw_ordered,
    draw_rearranged,
    draw_stencils,
)
from .images import draw_blur, draw_gather
from .manual_schedules import BY_HAND, draw_by_hand
from .norms import draw_norm, draw_running
from .oracle import Failure, Options, compare, run_kernel, signature
from .program import Program
from .programs import draw_program
from .reductions import draw_reduction
from .schedules import draw_schedule
from .selections import AllMet, Taken
from .shrink import shrink

__all__ = ["check_kernels", "draw_case", "run_kernels"]

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
ORDERS = (0, 1, 2)
"""Of blocks and threads."""
TEXTS = (1, 1, 1, 3)
"""Of one program at most: many programs show more than many candidates of one."""
PROGRAMS: tuple[tuple[float, Callable[[Choices], Program]], ...] = (
    (8, draw_attention),
    (5, draw_weighted_rows),
    (12, draw_device_product),
    (6, draw_stencils),
    (5, draw_ordered),
    (6, draw_long_rows),
    (4, draw_rearranged),
    (8, draw_layer),
    (3, draw_contraction),
    (3, draw_chain),
    (1, draw_itself),
    (2, draw_blur),
    (1, draw_gather),
    (2, draw_scan),
    (2, draw_running),
    (3, draw_reduction),
    (3, draw_norm),
    (1, draw_hybrid),
)
DRAWN = "drawn primitives"
SCHEDULED: tuple[tuple[float, str], ...] = (
    (3, DRAWN),
    (5, "tiles by hand"),
    (4, "tensor cores by hand"),
    (6, "warpgroups by hand"),
    (5, "threads together"),
    (4, "stencils by hand"),
)
BY_PEOPLE = 0.3
"""The share of cases whose schedule is not the rules'."""
_PROGRAM, _TAKEN = 20, 21


class Case:
    """A program, for what it is built, and how its schedules come about. kind: of a schedule by hand; empty where rules choose."""

    def __init__(self, numbers: Choices, taken: Choices) -> None:
        self.kind = numbers.pick_weighted(SCHEDULED) if numbers.chance(BY_PEOPLE) else ""
        self.schedule: Any = None
        self.taken, self.exact, self.texts = taken, taken.chance(0.25), taken.pick(TEXTS)
        with np.errstate(all="ignore"):
            if self.kind in (*BY_HAND, "stencils by hand"):
                self.program, self.schedule = draw_by_hand(numbers, self.kind)
            else:
                self.program = draw_program(numbers) if self.kind else numbers.pick_weighted(PROGRAMS)(numbers)
        self.architecture = "sm_90a" if self.kind == "warpgroups by hand" else taken.pick(ARCHITECTURES)
        self.options = Options(f"cuda -emulate -arch={self.architecture}", False, [taken.chance(0.15)] * 16, False)

    def ways(self) -> Iterator[tuple[str, Any]]:
        """Schedules, and what is told of them."""
        if self.schedule is not None:
            yield self.kind, self.schedule
            return
        if self.kind:
            s = te.create_schedule(self.program.outputs)
            draw_schedule(self.taken, s, False, True, "")
            yield self.kind, s
            return
        selections = Taken(self.taken, usual=self.taken.chance(0.3))
        for _ in range(4 * self.texts):
            selections.places = []
            try:
                s = schedule(self.program.outputs, self.options.target, exact=self.exact, chooser=selections.chooser)
            except AllMet:
                return
            if tuple(selections.places) in selections.met:  # nothing was to be decided
                return
            selections.met.add(tuple(selections.places))
            yield f"taken {selections.places}: {[row.description for row in s.decisions]}", s


def draw_case(numbers: Choices, taken: Choices) -> Case:
    """The case of these choices."""
    return Case(numbers, taken)


def check_kernels(case: Case) -> Counter[str]:
    """Check the kernels of a case; return how many texts, by whom, and for what. Raises Failure."""
    counts: Counter[str] = Counter()
    texts: set[str] = set()
    for told, s in case.ways():
        if case.exact and not case.kind and not s.is_exact:
            raise Failure(told, str(s.is_exact))
        try:
            kernel = case.options.kernel(lower(s, case.program.args))
        except (TilewrightError, CudaError):
            if not case.kind:  # what rules choose is never refused
                raise
            return Counter()
        if any(
            isinstance(value, SparseArray) for value in case.program.values
        ):  # more than the emulator has memory for
            return Counter()
        text = kernel.source("cuda")
        counts.update({"schedules": 1})
        if text in texts:
            continue
        texts.add(text)
        counts.update({"texts": 1, case.architecture: 1, **{row.rule: 1 for row in getattr(s, "decisions", ())}})
        for order in ORDERS:
            with _order(order):
                found = run_kernel(told, case.program, kernel, case.options.at_end)
            compare(f"{told}, in order {order}, against numpy", case.program, found, case.program.values)
        compile_cuda.__wrapped__(text, case.architecture)
        if len(texts) >= case.texts:
            break
    return counts


@contextmanager
def _order(order: int) -> Generator[None]:
    """Kernels are run in this order of blocks and threads."""
    before = os.environ.get(SEED_VARIABLE)
    os.environ[SEED_VARIABLE] = str(order)
    try:
        yield
    finally:
        os.environ.pop(SEED_VARIABLE)
        if before is not None:
            os.environ[SEED_VARIABLE] = before


def run_kernels(seed: int, case: int, _target: str = "cuda", shrink_seconds: float = 20.0) -> dict[str, Any]:
    """Draws and checks one case, as fuzz.case.run_case does for schedules that are drawn."""
    report = empty_report(case)
    began = time.perf_counter()
    numbers, taken = case_choices(seed, case, _PROGRAM), case_choices(seed, case, _TAKEN)
    try:
        drawn = draw_case(numbers, taken)
        name = drawn.kind or drawn.program.name
        report.update(name=name, target=drawn.architecture, exact=drawn.exact)
        counts = check_kernels(drawn)
        report["tried"] = dict(counts)
        if counts:
            report["choices"] = {each: counts[each] for each in ("schedules", "texts")}
        else:
            report["lowering"] = "refused"
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is what this is here to find
        report.update(_explain_failure(seed, case, numbers.made, taken.made, error, shrink_seconds))
    report["seconds"] = time.perf_counter() - began
    return report


def _has_failure(numbers: Sequence[int], taken: Sequence[int], wanted: str) -> bool:
    try:
        check_kernels(draw_case(replay_choices(numbers), replay_choices(taken)))
    except Exception as error:  # noqa: BLE001 - the kind of failure is compared
        return type(error).__name__ == wanted
    return False


def _explain_failure(
    seed: int, case: int, numbers: list[int], taken: list[int], error: BaseException, seconds: float
) -> dict[str, Any]:
    what = str(error) if isinstance(error, Failure) else "".join(traceback.format_exception(error, limit=-8))
    headline = (
        f"case {case} of seed {seed}: tilewright fuzz --mode kernels --seed {seed} --cases {case}:{case + 1}\n{what}"
    )
    if seconds:
        smaller = shrink(numbers, [], lambda one: _has_failure(one[0], taken, type(error).__name__), seconds)
        numbers = smaller[0] if smaller is not None else numbers
    python = "\n".join(
        [
            *(f"# {line}".rstrip() for line in headline.splitlines()),
            "",
            "from tilewright.tools.fuzz.choices import forced",
            "from tilewright.tools.fuzz.kernels import check_kernels, draw_case",
            "",
            f"check_kernels(draw_case(forced({list(numbers)}), forced({list(taken)})))",
            'print("it no longer fails")',
            "",
        ]
    )
    return {"failure": headline, "signature": signature(error), "python": python}


def explain_kernels_death(seed: int, case: int) -> str:
    """The program of a case that ends its process."""
    numbers, taken = case_choices(seed, case, _PROGRAM), case_choices(seed, case, _TAKEN)
    draw_case(numbers, taken)
    report = _explain_failure(seed, case, numbers.made, taken.made, Failure("run", "ends the process"), 0)
    return str(report["python"])
