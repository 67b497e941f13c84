"""A stage: one operation of a schedule, its loops, and where it is computed.

This is TVM's model. The root axes are the operation's; relations derive further axes; the leaf axes, in order, are the
loops. What a primitive checks and does stands in its row (see primitive.py), which also makes it a method of the stage.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ...ir.expr import Expr, IterVar
from ...te.operation import Operation
from .attachment import ATTACHED_AT_ROOT, Attachment
from .attributes import AttachType, AxisKind, IterAttr
from .first_loops import first_loops
from .methods import StagePrimitives
from .relations import Relation

if TYPE_CHECKING:
    from .group import Group
    from .schedule import Schedule

__all__ = ["AttachType", "AxisKind", "IterAttr", "Stage"]


class Stage(StagePrimitives):
    """One operation of a schedule.

    op: what it computes now (cache_read, cache_write and rfactor rewrite it); origin_op: what it was declared as.
    all_iter_vars: root axes (op.axis, then op.reduce_axis), then derived ones in the order they were made.
    leaf_iter_vars: the loops, outermost first. relations: how axes derive, in the order they were made.
    iter_var_attrs: what is noted about an axis (absent: nothing). attach_type: "root", "at", "inline" or "inlined".
    scope: "" is the default for its place. store_predicate: a condition under which results are stored. group: of
    s.create_group, the innermost that it belongs to. overlap: how its storage outlives an iteration of the loop that it is
    computed at, by the word that the primitive which says so has for it; "" where it does not.
    """

    __slots__ = ("_attachment", "all_iter_vars", "group", "is_output", "iter_var_attrs", "leaf_iter_vars", "op",
                 "origin_op", "overlap", "relations", "schedule", "scope", "store_predicate")

    def __init__(self, op: Operation, schedule: Schedule, is_output: bool = False) -> None:
        self.op = self.origin_op = op
        self.schedule = schedule
        self.is_output = is_output
        loops = first_loops(op)
        self.all_iter_vars: list[IterVar] = loops.axes
        self.leaf_iter_vars: list[IterVar] = list(loops.axes)
        self.relations: list[Relation] = loops.relations
        self.iter_var_attrs: dict[IterVar, IterAttr] = loops.attrs
        self._attachment = ATTACHED_AT_ROOT
        self.group: Group | None = None
        self.overlap = ""
        self.scope = ""
        self.store_predicate: Expr | None = None

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self.op.name

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The axes of its operation: data, then reduce."""
        return (*self.op.axis, *self.op.reduce_axis)

    @property
    def placement(self) -> Attachment:
        """Where it is computed: what it was told itself or, where that is the root of its group, what the group was."""
        return self._attachment if self._attachment.type != "root" or self.group is None else self.group.placement

    @property
    def own_placement(self) -> Attachment:
        """Where it was told to be computed, whatever its group was."""
        return self._attachment

    @property
    def attach_type(self) -> AttachType:
        """"root", "at", "inline" or "inlined"."""
        return self.placement.type

    @property
    def attach_stage(self) -> Stage | None:
        """The stage at whose loop it is computed."""
        return self.placement.stage

    @property
    def attach_axis(self) -> IterVar | None:
        """The loop of attach_stage that it is computed at. Where the axis that was given has been split since, that is
        the inner one; where it was fused, the fused one."""
        return self.placement.loop

    def reads(self, other: Stage) -> bool:
        """Whether it reads a result of `other`, directly or through other stages."""
        seen: set[Operation] = set()
        stack = [self.op]
        while stack:
            op = stack.pop()
            if op in seen:
                continue
            seen.add(op)
            stack.extend(tensor.op for tensor in op.input_tensors)
        return self is not other and other.op in seen

    def attr(self, axis: IterVar) -> IterAttr:
        """What is noted about `axis`; a plain serial loop where nothing is."""
        return self.iter_var_attrs.get(axis, _PLAIN)

    def derive(self, relation: Relation, place: int, count: int, axes: tuple[IterVar, ...]) -> None:
        """Put the axes that `relation` makes where `count` loops stood from `place` on. For the primitives alone."""
        self.relations.append(relation)
        self.all_iter_vars.extend(axes)
        self.leaf_iter_vars[place : place + count] = axes

    def annotate(self, axis: IterVar, **changes: Any) -> None:
        """Note something about `axis`: changes of its IterAttr. For the primitives alone."""
        self.iter_var_attrs[axis] = replace(self.attr(axis), **changes)

    def attach(self, kind: AttachType, stage: Stage | None = None, axis: IterVar | None = None) -> None:
        """Say where it is computed. For the primitives alone."""
        self._attachment = Attachment(kind, stage, axis)

    def copied(self, schedule: Schedule) -> Stage:
        """The same stage for a copy of its schedule; attach_stage still is the original's."""
        twin = Stage.__new__(Stage)
        twin.restore(self.saved())
        twin.schedule = schedule
        return twin

    def saved(self) -> tuple[Any, ...]:
        """Its state, for `restore`: lists and dicts are copied."""
        values: list[Any] = [getattr(self, name) for name in self.__slots__]
        return tuple(copy(cast(Any, value)) if isinstance(value, (list, dict)) else value for value in values)

    def restore(self, state: tuple[Any, ...]) -> None:
        """Back to the state that `saved` gave."""
        for name, value in zip(self.__slots__, state, strict=True):
            setattr(self, name, value)

    @property
    def is_tensorized(self) -> bool:
        """Whether an intrinsic computes the stage, or a loop of it."""
        return any(attr.kind == "tensorized" for attr in self.iter_var_attrs.values())

    def is_scheduled(self) -> bool:
        """Whether any loop was changed or the stage was placed."""
        return bool(self.relations) or self.attach_type != "root" or not all(
            a is b for a, b in zip(self.all_iter_vars, self.leaf_iter_vars, strict=True))

    def __repr__(self) -> str:
        return f"stage({self.op.name}, {self.op})"


_PLAIN = IterAttr()
