"""Logs of TVM's tuners as trials of ours: of AutoTVM beside the program that has the template, of auto_scheduler beside the one
that registers the workload.

What was measured there says little of kernels that are compiled here, so a trial from a log is checked and measured again before it
is used, like any that comes from elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from typing import Any

from ...autotune.errors import BadRecordLine
from ...autotune.json_lines import is_time
from ...autotune.task import Task
from ...autotune.templates import Template
from ...autotune.trial import Trial
from ...base import TilewrightError, dataclass, field, replace, user_source
from ...base.arguments import is_a, is_sequence
from ...base.untrusted_input import plain_json, printable
from ...schedule import to_json
from .auto_scheduler.steps import scheduled
from .auto_scheduler.workload_registry import workload_key_to_tensors
from .autotvm.measure import Measuring, measure_option
from .autotvm.record import decode
from .autotvm.task.task import create, register
from .target import Target

__all__ = ["Imported", "imported"]

_MOST_BYTES = 16 << 20
_FAULTS = (
    TilewrightError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    ArithmeticError,
    AssertionError,
)
"""What a log that does not fit its program raises, the program's own errors included."""


@dataclass
class Imported:
    """Imported trials of a log. trials: of which task each is. left: why lines were left out, each reason with how many."""

    trials: list[tuple[Task, Trial]] = field(default_factory=list[tuple[Task, Trial]])
    left: dict[str, int] = field(default_factory=dict[str, int])


def imported(lines: Iterable[str], target: str = "llvm", templates: Iterable[Template] = ()) -> Imported:
    """Read the lines of a log, for tasks on `target`, whatever they were measured on. Templates and workloads are those that
    are registered by TVM's names; templates: tilewright.autotune's, too. Raises BadRecordLine (TW0634) for a line that is of no
    such log."""
    found = Imported()
    for template in templates:
        register(template)

    @cache
    def measuring(name: str, args: tuple[Any, ...]) -> Measuring:
        return Measuring(create(name, args, Target(target)), measure_option())

    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            plain = plain_json(line, _MOST_BYTES)
            is_template = is_a(plain, dict) and "input" in plain and "result" in plain
            if not is_template and not (is_a(plain, dict) and "i" in plain and "r" in plain):
                raise ValueError("it is of no tuner of TVM's")
        except ValueError as fault:
            raise BadRecordLine(
                f"line {number} is not a record",
                reason=printable(str(fault)[:300]),
                called=user_source(),
                fix="import a log of AutoTVM's or auto_scheduler's; nothing was imported",
            ) from None
        try:
            found.trials.append(_read_template(line, measuring) if is_template else _read_workload(plain, line, target))
        except _FAULTS as fault:
            reason = fault.headline if isinstance(fault, TilewrightError) else f"{type(fault).__name__}: {fault}"
            reason = printable(reason[:200])
            found.left[reason] = found.left.get(reason, 0) + 1
    return found


def _read_template(line: str, measuring: Any) -> tuple[Task, Trial]:
    of, result = decode(line)
    if result.error_no:
        raise ValueError("it failed where it was measured")
    known = measuring(of.task.name, of.task.args)
    candidate = known.candidate(of.config)
    if candidate is None:
        raise ValueError(f"the configuration is none of those that the template {of.task.name} defines now")
    return known.factory.task, _trial(candidate.records, result.seconds, result.timestamp, line)


def _read_workload(plain: dict[str, Any], line: str, target: str) -> tuple[Task, Trial]:
    (about, steps), (costs, failed, *_) = plain["i"], plain["r"]
    steps = steps[1] if len(steps) == 2 and not steps[0] else steps
    if failed:
        raise ValueError("it failed where it was measured")
    if not is_sequence(costs) or not costs or not all(is_time(cost) for cost in costs):
        raise ValueError("a time is not a positive number of seconds")
    tensors = workload_key_to_tensors(about[0])
    schedule = scheduled(tensors, steps)
    created = plain["r"][3] if len(plain["r"]) > 3 and is_time(plain["r"][3]) else 1.0
    task = Task.of(tensors, target)
    task = replace(
        task, key=replace(task.key, space="log of auto_scheduler")
    )  # not of the rules: it counts for none of theirs
    return task, _trial(to_json(schedule.records), sum(costs) / len(costs), created, line)


def _trial(records: str, seconds: float, created: float, line: str) -> Trial:
    """Told from others by its line, so that importing twice changes nothing."""
    return Trial(records, seconds, created=float(created), uid=hashlib.sha256(line.strip().encode()).hexdigest()[:32])
