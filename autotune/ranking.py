"""Tuning for a GPU that is not here: candidates are ranked, not measured.

What a candidate computes is checked on the emulator, at sizes cut down so far that this takes a second; how it is compiled for the
sizes themselves is looked at. The rank is the rules' estimate in seconds, made worse by what the compiler and the emulator
counted: it orders candidates, and is no time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Self

from ..base import TilewrightError, dataclass, replace, user_source
from ..codegen.target import Target
from ..ir.stmt import Function
from ..schedule import Schedule, create_schedule
from ..schedule.lowering.lower import lower
from ..schedule.lowering.text import all_arguments
from ..te.operation import Operation, producers_first
from ..te.shrink import iterations, shrunk
from .comparison import Load
from .errors import CannotBeChecked, TargetCannotBeTuned
from .measure import Measurer
from .outcome import Limits
from .task import Task, ranks_text
from .workload import Workload

__all__ = ["Emulator", "Ranking", "probe_text"]

_CUT = (128, 64, 32, 16, 8)
"""What remains of a longer axis, and what is over at its end: so tiles that divide it, or do not, go on doing so."""
_EMULATED = 1 << 19
"""Evaluations of bodies that the emulator is asked for at most: about a second."""
_UNKNOWN = 1e-5
"""Seconds of what a rule gives no estimate for, a launch and a little."""


@dataclass(frozen=True)
class Emulator:
    """Ranking of candidates for a GPU on the emulator. Raises TargetCannotBeTuned (TW0603) for an emulated GPU."""

    target: Target

    def __post_init__(self) -> None:
        if self.target.has_flag("emulate"):
            raise TargetCannotBeTuned(
                f"cannot tune for target {str(self.target)!r}",
                called=user_source(),
                reason="the emulator checks kernels, and has no times of its own",
                fix='target="cuda -arch=sm_90" ranks candidates where there is no GPU',
            )

    @property
    def machine(self) -> str:
        return ranks_text(self.target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """There is nothing to leave."""

    def load(self) -> Load:
        return Load.measure()

    def text(self, task: Task) -> Callable[[Schedule, Function], str]:
        return partial(probe_text, task)

    def measurer(self, task: Task, limits: Limits | None, inputs: Sequence[Any] | None) -> Ranking:
        if task.unscheduled.constants or inputs is not None:
            raise TargetCannotBeTuned(  # other sizes, to which arrays do not fit
                f"cannot rank candidates of {task.name}",
                called=user_source(),
                fix="pass arrays as arguments, and give no inputs",
                reason="they are checked at other sizes, where what the program holds, or what is given, does not fit",
            )
        return Ranking(task, limits)


class Ranking(Measurer):
    """The processes that look at candidates. There is nothing to time, so nothing to compare with."""

    MAKES: ClassVar[str] = "probe"

    def __init__(self, task: Task, limits: Limits | None) -> None:
        asked = limits or Limits()
        nothing = Workload(task.name, (), (), frozenset(), "", (), str(task.target))
        # compiling for a GPU takes longer, and NVRTC much memory
        super().__init__(nothing, replace(asked, timeout=max(asked.timeout, 120.0), memory=max(asked.memory, 32 << 30)))

    def _reference(self, worker: object, timeout: float) -> float:
        return 0.0

    def _load(self, worker: object) -> None:
        """Each candidate brings its own reference."""

    def rivals(self, functions: Sequence[str], budget: float = 1.0) -> list[list[float]] | None:
        """Ranks do not change."""
        return None


def probe_text(task: Task, schedule: Schedule, function: Function) -> str:
    """Return what a process is told of a candidate: its loops, those at sizes cut down with and without the schedule, and the estimate.
    Raises CannotBeChecked (TW0614) where the schedule fits no smaller sizes."""
    small, plain = _cut_down(task, schedule)
    # programs that read at places that are data need indices within bounds
    indexed = any(op.data_indexed for op in producers_first([tensor.op for tensor in task.outputs]))
    return json.dumps(
        {
            "indexed": indexed,
            "loops": str(function),
            "small": str(small),
            "plain": str(plain),
            "seconds": sum(decision.seconds or _UNKNOWN for decision in schedule.decisions) or _UNKNOWN,
        }
    )


def _cut_down(task: Task, schedule: Schedule) -> tuple[Function, Function]:
    outputs = [tensor.op for tensor in task.outputs]
    problem: TilewrightError | None = None
    for most, whole in _choose_shapes(outputs):
        twins = _cut(outputs, most, whole)
        if iterations(twins, {}) > _EMULATED:  # sizes at which the emulator would take too long
            continue
        try:
            scheduled, plain = Schedule.replay(schedule.records, twins), create_schedule(twins)
            return lower(scheduled, all_arguments(scheduled), "main"), lower(plain, all_arguments(plain), "main")
        except TilewrightError as error:  # a primitive that only fits the real size
            problem = problem or error  # the first problem is that of the largest sizes
    raise CannotBeChecked(
        f"a candidate of {task.name} cannot be checked on the emulator",
        called=user_source(),
        reason=f"at sizes that it runs, the schedule does not fit: {problem.headline}"
        if problem is not None
        else "the program has too many elements at any reduced size",
    )


def _choose_shapes(outputs: Sequence[Operation]) -> Iterator[tuple[int, int]]:
    """Return what is tried: what remains of each axis, and the number of one that stays whole, -1 for none. Threads that share a row have
    to find as many parts in it as they are."""
    extents: dict[int, int] = {}
    shrunk(outputs, lambda number, extent: extents.setdefault(number, extent))
    yield from ((most, -1) for most in _CUT)
    for most in _CUT[1:]:  # one axis stays whole, for threads that share a row
        yield from ((most, number) for number, extent in extents.items() if extent > 2 * most)


def _cut(outputs: Sequence[Operation], most: int, whole: int) -> list[Operation]:
    return shrunk(
        outputs, lambda number, extent: extent if number == whole or extent <= 2 * most else most + extent % most
    )
