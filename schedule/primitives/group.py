"""create_group: stages that are placed together.

    g = s.create_group(outputs=C, inputs=A)       # the stages on the ways from A to C, here B and C
    g.compute_at(s[D], D.op.axis[0])              # each of them that stands at the root of the group, at that loop
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import user_source
from ...ir.expr import IterVar
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..errors import BadGroup, CannotAttach
from ..model.attachment import ATTACHED_AT_ROOT, Attachment
from ..model.attributes import AttachType
from ..model.axes import outline
from .annotate import wrong_stage
from .compute_at import check_attachable

if TYPE_CHECKING:
    from ..model.schedule import Schedule
    from ..model.stage import Stage

__all__ = ["Group", "create_group"]


class Group:
    """Stages that are placed together, made by s.create_group. It has no loops of its own.

    The root of a member is the root of its group: where the group is computed at a loop, so is every member that was not
    placed itself. outer: the group that it lies in.
    """

    __slots__ = ("_attachment", "outer", "schedule")

    def __init__(self, schedule: Schedule, outer: Group | None) -> None:
        self.schedule, self.outer = schedule, outer
        self._attachment = ATTACHED_AT_ROOT

    @property
    def name(self) -> str:
        """group0, group1, ... by when it was made."""
        return f"group{self.schedule.group_place(self)}"

    @property
    def members(self) -> list[Stage]:
        """Its stages, those of groups within it left out, producers first."""
        return [stage for stage in self.schedule.stages if stage.group is self]

    @property
    def placement(self) -> Attachment:
        """Where it is computed."""
        return self._attachment if self._attachment.type != "root" or self.outer is None else self.outer.placement

    @property
    def own_placement(self) -> Attachment:
        """Where it was told to be computed, whatever the group around it was."""
        return self._attachment

    def holds(self, stage: Stage) -> bool:
        """Whether a stage belongs to it, or to a group within it."""
        return self in chain(stage.group)

    def attach(self, kind: AttachType, stage: Stage | None = None, axis: IterVar | None = None) -> None:
        """Say where it is computed. For the primitives alone."""
        self._attachment = Attachment(kind, stage, axis)

    def saved(self) -> tuple[Group | None, Attachment]:
        """Its state, for `restore`."""
        return self.outer, self._attachment

    def restore(self, state: tuple[Group | None, Attachment]) -> None:
        """Back to the state that `saved` gave."""
        self.outer, self._attachment = state

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute all members that were not placed themselves within an iteration of the loop `scope` of `parent`.

        Raises CannotAttach, NestedParallel, AxisIsNoLoop, NotAnAxisOfStage.
        """
        from ..model.stage import Stage  # stages know their groups

        if not isinstance(parent, Stage):
            raise wrong_stage(self, parent, "cannot place")
        self._check_parent(parent)
        for stage in self.schedule.stages:
            if self.holds(stage) and _at_root_of(stage, self):
                check_attachable(stage, parent, scope)
        self.schedule.record("compute_at", group=self, parent=parent, scope=scope)
        self.attach("at", parent, scope)

    def _check_parent(self, parent: Stage) -> None:
        around = f"it lies in {self.outer!r}, and {parent.name} does not" if self.outer is not None else ""
        reason = f"{parent.name} belongs to it" if self.holds(parent) else (
            around if self.outer is not None and not self.outer.holds(parent) else "")
        if reason:
            raise CannotAttach(f"cannot compute {self!r} at stage {parent.name}", reason=reason, declared=parent.op.source,
                               called=user_source(), loops=outline(parent),
                               fix="name a stage that reads the results of the group" if self.holds(parent) else
                                   "place the group around it")

    def compute_root(self) -> None:
        """Compute its members before the stages that read them, at the root of the group around it where there is one."""
        self.schedule.record("compute_root", group=self)
        self.attach("root")

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(stage.name for stage in self.members)})"


def chain(group: Group | None) -> list[Group]:
    """A group and those that it lies in, outwards."""
    found: list[Group] = []
    while group is not None:
        found.append(group)
        group = group.outer
    return found


def _at_root_of(stage: Stage, group: Group) -> bool:
    """Whether the placement of `group` is that of a stage in it."""
    inside = chain(stage.group)
    return all(one.own_placement.type == "root" for one in (stage, *inside[: inside.index(group)]))


def create_group(schedule: Schedule, outputs: Any, inputs: Any, include_inputs: bool) -> Group:
    """See Schedule.create_group."""
    ends, begins = (_stages(schedule, given, what) for given, what in ((outputs, "outputs"), (inputs, "inputs")))
    members = [stage for stage in _between(schedule, ends, begins, bool(include_inputs)) if not stage.op.is_given]
    if not members:
        raise _bad("no stage lies between them", f"outputs {_names(ends)}, inputs {_names(begins)}",
                   "name what the first stages of the group read as inputs, and its last stages as outputs")
    chains = [chain(stage.group) for stage in members]
    outer = next((one for one in chains[0] if all(one in other for other in chains)), None)
    moved: dict[Stage | Group, None] = {}
    for stage in members:
        inside = chain(stage.group)
        depth = inside.index(outer) if outer is not None else len(inside)
        moved[inside[depth - 1] if depth else stage] = None
    _check_whole(schedule, moved, members)
    _check_placed_within(moved, members)
    schedule.record("create_group", outputs=tuple(stage.op.output(0) for stage in ends),
                    inputs=tuple(stage.op.output(0) for stage in begins), include_inputs=bool(include_inputs))
    made = Group(schedule, outer)
    schedule.groups.append(made)
    for one in moved:
        if isinstance(one, Group):
            one.outer = made
        else:
            one.group = made
    return made


def _bad(reason: str, shown: str, fix: str) -> BadGroup:
    return BadGroup("cannot make a group of these stages", reason=f"{reason}: {shown}"[:300], called=user_source(), fix=fix)


def _names(stages: Sequence[Stage]) -> str:
    return ", ".join(stage.name for stage in stages) or "none"


def _stages(schedule: Schedule, given: Any, what: str) -> list[Stage]:
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    wrong = next((one for one in listed if not isinstance(one, (Tensor, Operation))), None)
    if wrong is not None or not listed:
        raise _bad(f"the {what} are tensors", "none given" if not listed else repr(wrong),
                   "s.create_group(outputs=[C], inputs=[A])")
    return list(dict.fromkeys(schedule[one] for one in listed))


def _between(schedule: Schedule, ends: list[Stage], begins: list[Stage], include_inputs: bool) -> list[Stage]:
    """The stages on the ways from `begins` to `ends`, as TVM's GetSubGraph: nothing behind the begins is looked at."""
    edge = set(begins)
    seen: set[Stage] = set()
    stack = list(ends)
    while stack:
        stage = stack.pop()
        if stage not in seen:
            seen.add(stage)
            if stage not in edge:
                stack += [schedule[tensor] for tensor in stage.op.input_tensors]
    reaching = edge & seen
    for stage in schedule.stages:  # producers first
        if stage in seen and stage not in edge and any(schedule[tensor] in reaching for tensor in stage.op.input_tensors):
            reaching.add(stage)
    return [stage for stage in schedule.stages if stage in reaching and (include_inputs or stage not in edge)]


def _check_whole(schedule: Schedule, moved: dict[Stage | Group, None], members: list[Stage]) -> None:
    """A group that would go into the new one goes as a whole."""
    for one in moved:
        if isinstance(one, Group):
            outside = [stage for stage in schedule.stages if one.holds(stage) and stage not in members]
            if outside:
                raise _bad("groups contain each other, or have nothing in common",
                           f"{one!r} is partly among {_names(members)}, without {_names(outside)}",
                           f"take {_names(outside)} in as well, or leave {one.name} out")


def _check_placed_within(moved: dict[Stage | Group, None], members: list[Stage]) -> None:
    """What is placed at a loop stays within the group that it belongs to."""
    for one in moved:
        at = one.own_placement.stage
        if at is not None and at not in members:
            raise _bad("a member is computed at a loop outside", f"{one.name}, at stage {at.name}",
                       f"call compute_root() of {one.name} first, or take {at.name} into the group")
