"""Attach points: the loops in which a stage, or a group of stages, is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.dataclass import dataclass
from ...ir.expr import IterVar
from .attributes import AttachType

if TYPE_CHECKING:
    from .stage import Stage

__all__ = ["ATTACHED_AT_ROOT", "Attachment"]


@dataclass(frozen=True, slots=True, eq=False)
class Attachment:
    """Place at which a stage is computed.

    type: how; stage and axis: at which loop of which stage, as compute_at was given them, where type is "at".
    """

    type: AttachType = "root"
    stage: Stage | None = None
    axis: IterVar | None = None

    @property
    def loop(self) -> IterVar | None:
        """The loop that the axis has become: of a split the inner one, of a fusion the fused one."""
        axis = self.axis
        if axis is None or self.stage is None:
            return None
        # in the order in which they were made: a later one may change what an earlier one made
        for relation in self.stage.relations:
            if any(parent is axis for parent in relation.parents):
                axis = relation.heir(axis)
        return axis


ATTACHED_AT_ROOT = Attachment()
"""Where everything is to begin with."""
