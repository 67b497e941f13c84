"""A schedule's records, one by one: the code of each, the loops after it, and the axes that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from ..base import SourceLine, dataclass, field
from ..ir.expr import IterVar
from ..schedule import Schedule, Stage, create_schedule
from ..schedule.lowering.text import schedule_text
from ..schedule.model.python_code import python_steps
from ..schedule.model.records import AxisRef, ExprRef, Record, StageRef
from ..schedule.model.relations import Relation

__all__ = ["Step", "Steps", "difference"]


@dataclass(slots=True)
class Step:
    """A record, applied. number: from 1. code: the call as Python, and what it needs before. text: the loops after it; None
    where the schedule is so long that only some are written down. stage: that it was called on, or that it made. axes:
    those that it names or makes."""

    number: int
    record: Record
    code: list[str]
    text: str | None
    stage: Stage | None
    axes: set[IterVar] = field(default_factory=set[IterVar])

    @property
    def source(self) -> SourceLine | None:
        """The user's line."""
        return self.record.source


_MOST_LOWERED = 2500
"""Stages that are lowered, over all steps, before only some of the steps are: a few seconds."""


class Steps:
    """The records of a schedule, done again on `schedule`, a new one of the same operations.

    begin: the text of the loops before the first.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = create_schedule(schedule.outputs)
        self.begin = schedule_text(self.schedule)
        self.steps: list[Step] = []
        self._replay(schedule)

    def _replay(self, schedule: Schedule) -> None:
        fresh = self.schedule
        every = 1 + len(schedule.records) * len(schedule.stages) // _MOST_LOWERED
        code = python_steps(schedule.records, fresh)
        for number, record in enumerate(schedule.records, 1):
            before = {axis for stage in fresh.stages for axis in stage.all_iter_vars}
            stages = list(fresh.stages)
            axes = {
                stages[ref.stage].all_iter_vars[ref.place] for ref in _references(record) if isinstance(ref, AxisRef)
            }
            lines = next(code)
            new_stage = next((stage for stage in fresh.stages if stage not in stages), None)
            stage = new_stage if record.stage is None else stages[record.stage]
            axes |= {axis for other in fresh.stages for axis in other.all_iter_vars if axis not in before}
            text = schedule_text(fresh) if number % every == 0 or number == len(schedule.records) else None
            self.steps.append(Step(number, record, lines, text, stage, axes))

    def about(self, stage: Stage, axis: IterVar) -> tuple[list[int], list[int]]:
        """The numbers of the records about a loop: those that made it or speak of it, and those that it stands on (about
        the axes that it derives from, and about where its stage is computed)."""
        lineage = ancestors(stage.relations, axis)
        near = [step.number for step in self.steps if axis in step.axes]
        far = [
            step.number
            for step in self.steps
            if step.number not in near
            and (step.axes & lineage or step.stage is stage and not self._about_other_axes(step, stage))
        ]
        return near, far

    def _about_other_axes(self, step: Step, stage: Stage) -> bool:
        return any(axis in step.axes for axis in stage.all_iter_vars)


def ancestors(relations: list[Relation], axis: IterVar) -> set[IterVar]:
    """The axes that `axis` derives from."""
    older = {axis}
    for relation in reversed(relations):
        if any(child in older for child in relation.children):
            older.update(relation.parents)
    return older - {axis}


def _references(record: Record) -> Iterator[AxisRef | StageRef]:
    """Return the objects that the arguments of a record name."""
    stack: list[Any] = list(record.arguments.values())
    while stack:
        value = stack.pop()
        if isinstance(value, (AxisRef, StageRef)):
            yield value
        elif isinstance(value, tuple):
            stack.extend(value)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, ExprRef):
            stack.extend(ref for _, ref in value.variables)


def difference(before: str, after: str, around: int = 1000) -> list[tuple[str, str]]:
    """The lines of both texts in order, each with " ", "-" or "+" for what became of it; of runs of lines that stay,
    `around` next to a change, and ("@", a remark) for the rest."""
    a, b = before.splitlines(), after.splitlines()
    lines: list[tuple[str, str]] = []
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    for kind, a_begin, a_end, b_begin, b_end in blocks:
        if kind == "equal":
            lines += _shorten(a[a_begin:a_end], around, first=a_begin == 0, last=a_end == len(a))
        else:
            lines += [("-", line) for line in a[a_begin:a_end]] + [("+", line) for line in b[b_begin:b_end]]
    return lines


def _shorten(lines: list[str], around: int, first: bool, last: bool) -> list[tuple[str, str]]:
    head, tail = (0 if first else around), (0 if last else around)
    if first and last and len(lines) <= around:
        return [(" ", line) for line in lines]
    if len(lines) <= head + tail + 1:
        return [(" ", line) for line in lines]
    left_out = len(lines) - head - tail
    remark = ("@", f"{left_out} lines stay as they are")
    return [*((" ", line) for line in lines[:head]), remark, *((" ", line) for line in lines[len(lines) - tail :])]
