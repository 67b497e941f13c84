"""Drawn schedules: primitives on stages and loops where they look legal, and now and then where they do not.

What is drawn, and how often, is in the row of each primitive (schedule/model/primitive.py); here is what the rows draw with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any, TypeVar

from ...base.arguments import is_a, is_sequence
from ...base.errors import TilewrightError
from ...ir.expr import IterVar
from ...ir.ops import integer_value, is_const
from ...schedule import AutoInlineBroadcast, AutoInlineElemWise, AutoInlineInjective, Schedule, Stage
from ...schedule.model.checks import declared_ranges
from ...schedule.model.methods import StagePrimitives
from ...schedule.model.primitive import Attempt, Drawer, Primitive, primitives
from ...te.axis import thread_axis
from .choices import Choices
from .epilogue import WINDOW
from .gpu import begin, finish

__all__ = ["PRIMITIVES", "Drawn", "draw_schedule", "exact"]

T = TypeVar("T")

FACTORS = (1, 2, 3, 4, 4, 5, 7, 8, 8, 16, 32)
WILD = 0.015
"""The share of primitives that are drawn with no regard to what is legal."""
FOCUSED = 0.15
"""The share of schedules that are about one primitive that is drawn seldom, or fits few stages."""


@dataclass
class Drawn:
    """Outcomes of the primitives of one schedule: how often each was tried, refused with which code, and on which
    operations it was taken."""

    tried: dict[str, int] = field(default_factory=dict[str, int])
    refused: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    taken: list[tuple[Any, str]] = field(default_factory=list[tuple[Any, str]])


def _auto_inline(drawer: Drawer) -> Attempt:
    which = drawer.pick([AutoInlineElemWise, AutoInlineBroadcast, AutoInlineInjective])
    return which.__name__, lambda: which(drawer.s)


ROWS: dict[str, Primitive] = {name: row for name, row in primitives().items() if row.draw is not None}
DRAWS: dict[str, Callable[[Drawer], Attempt | None]] = {
    **{name: row.draw for name, row in ROWS.items() if row.draw is not None},
    "auto_inline": _auto_inline,
}
TABLE = (*((row.weight, name) for name, row in ROWS.items()), (1.0, "auto_inline"))
"""Everything that is drawn, and how often."""
PRIMITIVES = tuple(name for _, name in TABLE)
WILD_ROWS = [
    row for row in ROWS.values() if not any("Callable" in str(parameter.annotation) for parameter in row.parameters)
]
"""What is drawn with no regard to anything. Not transform_layout: that of an argument changes what callers pass."""
EARLY = tuple(name for name, row in ROWS.items() if row.early)
RARE = tuple(name for name, row in ROWS.items() if row.rare)


class Mutator:
    """Draws primitives for one schedule. It is the Drawer of the rows."""

    def __init__(self, choices: Choices, s: Schedule, about: str = "") -> None:
        self.choices, self.s = choices, s
        rolls = any(stage.op.tag == WINDOW for stage in s.stages) and self.chance(0.4)
        chosen = "rolling_buffer" if rolls else self.pick(RARE) if self.chance(FOCUSED) else ""
        self.focus = about or (chosen if chosen in DRAWS else "")
        """What this schedule is about, where it is about one primitive."""
        self.subject: Stage | None = None
        """The stage that the primitive in the making is for."""

    # What rows draw with: see Drawer

    def chance(self, share: float) -> bool:
        return self.choices.chance(share)

    def pick(self, items: Sequence[T]) -> T:
        return self.choices.pick(items)

    def below(self, bound: int) -> int:
        return self.choices.below(bound)

    def permutation(self, count: int) -> list[int]:
        return self.choices.permutation(count)

    def some(self, items: Sequence[T], count: int) -> list[T]:
        return self.choices.some(items, count)

    def factor(self) -> int:
        return self.pick(FACTORS)

    @property
    def stages(self) -> list[Stage]:
        return [
            stage
            for stage in self.s.stages
            if not (stage.op.is_given or stage.op.is_stepwise) and stage.attach_type not in ("inline", "inlined")
        ]

    def extent(self, stage: Stage, axis: IterVar) -> int | None:
        within = declared_ranges(stage).get(axis)
        return None if within is None else integer_value(within.extent)

    def begins_at_zero(self, stage: Stage, axis: IterVar) -> bool:
        within = declared_ranges(stage).get(axis)
        return within is not None and is_const(within.begin, 0)

    def plain(self, stage: Stage) -> list[IterVar]:
        leaves = stage.leaf_iter_vars
        outside = next((at for at, axis in enumerate(leaves) if stage.attr(axis).kind == "tensorized"), len(leaves))
        return [axis for axis in leaves[:outside] if stage.attr(axis).kind == "serial" and not stage.attr(axis).pragmas]

    def data(self, stage: Stage) -> list[IterVar]:
        return [axis for axis in self.plain(stage) if axis.kind != "reduce"]

    def some_stage(self, fits: Callable[[Stage], object]) -> Stage | None:
        fitting = [stage for stage in self.stages if fits(stage)]
        self.subject = self.pick(fitting) if fitting else None
        return self.subject

    def about(self, stage: Stage | None) -> None:
        self.subject = stage

    def readers(self, stage: Stage) -> list[Stage]:
        return [other for other in self.s.stages if any(tensor.op is stage.op for tensor in other.op.input_tensors)]

    def attached_stage(self) -> Stage | None:
        stage = self.some_stage(lambda stage: stage.attach_type == "at")
        if stage is not None or "compute_at" not in DRAWS:
            return stage
        attempt = DRAWS["compute_at"](self)
        if attempt is None:
            return None
        try:
            attempt[1]()
        except TilewrightError:
            return None
        return self.subject

    # Choosing

    def wild(self) -> Attempt:
        """Any primitive on any stage, with arguments of the types that it takes and no regard to what else they are: axes of
        other stages, among them those that are gone, numbers that are too small."""
        stage = self.pick(self.s.stages)
        axes = [axis for stage in self.s.stages for axis in stage.all_iter_vars] + [axis for axis, _ in self.s.retired]
        row = self.pick(WILD_ROWS)
        if not axes:
            return "wild root", stage.compute_root
        listed: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in row.parameters:
            if parameter.kind is Parameter.VAR_POSITIONAL:
                listed = [self._wild_value(parameter, axes) for _ in range(2)]
            elif parameter.default is Parameter.empty or self.chance(0.5):
                named[parameter.name] = self._wild_value(parameter, axes)
        owner = stage if row.owner is StagePrimitives else self.s
        return (
            f"wild {row.name}({', '.join(map(str, [*listed, *named.values()]))})"[:300],
            lambda: row.method(owner, *listed, **named),
        )

    def _wild_value(self, parameter: Parameter, axes: list[IterVar]) -> Any:
        stage, number, takes = self.pick(self.s.stages), self.choices.number(-1, 5), str(parameter.annotation)
        if takes == "Stage":
            return stage
        if "IterVar" in takes:
            return self.pick([*axes, thread_axis("threadIdx.x")])
        if "Tensor" in takes and "Intrin" not in takes:
            return self.pick(stage.op.outputs)
        if takes == "str":
            return self.pick(["local", "nowhere", "unroll_explicit"])
        return self.pick([number, True, stage.op]) if takes == "Any" else number

    def attempt(self, first: bool = False) -> tuple[str, Attempt]:
        if first and EARLY and self.chance(0.5):
            name = self.pick(EARLY)
            attempt = DRAWS[name](self)
            if attempt is not None:
                return name, attempt
        if self.chance(WILD):
            self.subject = None
            return "wild", self.wild()
        for _ in range(20):
            name = self.focus if self.focus and self.chance(0.5) else self.choices.pick_weighted(TABLE)
            self.subject = None
            attempt = DRAWS[name](self)
            if attempt is not None:
                return name, attempt
        return "compute_root", ("root", self.s.stages[-1].compute_root)


def _check_unchanged(s: Any, state: Any, text: str, what: str) -> None:
    assert exact(s) == state, f"{what} changed the schedule"
    assert not text or s.as_python() == text, f"{what} changed the schedule's text"


def draw_schedule(choices: Choices, s: Any, text: bool = True, gpu: bool = False, about: str = "") -> Drawn:
    """Apply up to 12 drawn primitives. A refused one must leave the schedule as it was: by identity, and (with `text`) as
    text. gpu: what stands at the root is bound to threads. about: the primitive that is drawn most."""
    mutator, drawn = Mutator(choices, s, about), Drawn()
    if gpu:
        begin(choices, s)
    _draw_primitives(mutator, drawn, s, text)
    if gpu:
        finish(choices, s)
    return drawn


def _draw_primitives(mutator: Mutator, drawn: Drawn, s: Any, text: bool) -> None:
    choices = mutator.choices
    shown = s.as_python() if text else ""
    for at in range(max(choices.below(13), choices.below(13))):
        places = exact(s) if text else None
        name, (label, apply) = mutator.attempt(first=not at)
        if text and exact(s) != places:  # it was made ready by other primitives
            shown = s.as_python()
        subject = None if mutator.subject is None else mutator.subject.op
        drawn.tried[name] = drawn.tried.get(name, 0) + 1
        before = exact(s)
        try:
            apply()
        except TilewrightError as error:
            drawn.refused.setdefault(name, []).append(error.code)
            _check_unchanged(s, before, shown, f"the refused {label} ({error.code})")
        except Exception as error:
            error.add_note(f"from {label}")
            raise
        else:
            if name != "wild" and subject is not None:
                drawn.taken.append((subject, name))
            shown = s.as_python() if text else ""


# Everything that a refused primitive must leave as it was.


def exact(schedule: Any) -> Any:
    """The schedule as plain data, in which objects stand for themselves: equal before and after where nothing changed."""
    schedule.refresh()
    stages = [(id(stage), _ids(stage.save_state())) for stage in schedule.stages]
    return stages, {id(op): id(stage) for op, stage in schedule.stage_map.items()}, _ids(schedule.records)


def _ids(value: Any) -> Any:
    if is_sequence(value):
        return [_ids(item) for item in value]
    if is_a(value, dict):
        return {id(key): id(item) for key, item in value.items()}
    return value if isinstance(value, (str, bool)) else id(value)
