"""A group: stages of a schedule that are placed together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import IterVar
from .attachment import ATTACHED_AT_ROOT, Attachment
from .attributes import AttachType
from .methods import GroupPrimitives

if TYPE_CHECKING:
    from .schedule import Schedule
    from .stage import Stage

__all__ = ["Group", "chain"]


class Group(GroupPrimitives):
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
        """Return where it is computed."""
        # a member of a group is placed where that is, unless it was placed itself
        return self._attachment if self._attachment.type != "root" or self.outer is None else self.outer.placement

    @property
    def own_placement(self) -> Attachment:
        """Return where it was told to be computed, whatever the group around it was."""
        return self._attachment

    def holds(self, stage: Stage) -> bool:
        """Return whether a stage belongs to it, or to a group within it."""
        return self in chain(stage.group)

    def attach(self, kind: AttachType, stage: Stage | None = None, axis: IterVar | None = None) -> None:
        """Attach it to a loop. For the primitives alone."""
        self.schedule.keep(self)  # kept before the change, for whoever undoes it
        self.unlink()  # unknown to the old loop before it is known to the new one
        self._attachment = Attachment(kind, stage, axis)
        self.link()

    def link(self) -> None:
        """Be known to the stage that it is placed at."""
        if self._attachment.stage is not None:
            self._attachment.stage.placed[self] = None  # a dict, for the order in which they were placed

    def unlink(self) -> None:
        """Be known to it no longer."""
        if self._attachment.stage is not None:
            self._attachment.stage.placed.pop(self, None)

    def save_state(self) -> tuple[Group | None, Attachment]:
        """Its state, for `restore`."""
        return self.outer, self._attachment

    def restore(self, state: tuple[Group | None, Attachment]) -> None:
        """Back to the state that `save_state` gave; links are made by `link`."""
        self.outer, self._attachment = state

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(stage.name for stage in self.members)})"


def chain(group: Group | None) -> list[Group]:
    """A group and those that it lies in, outwards."""
    groups: list[Group] = []
    while group is not None:
        groups.append(group)
        group = group.outer
    return groups
