"""Schedules whose stages, groups and notes about axes have TVM's names beside ours.

They are subclasses of ours. A schedule that a rule of ours made has our names alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast, overload

from ....base.arguments import is_a
from ....base.errors import PerformanceWarning, user_source, warn_user
from ....ir.expr import Expr, IterVar, StringImm
from ....ir.ops import const
from ....schedule.model.attributes import AttachType, IterAttr
from ....schedule.model.group import Group as _Group
from ....schedule.model.replay import Replay
from ....schedule.model.schedule import Schedule as _Schedule
from ....schedule.model.schedule import collect_operations
from ....schedule.model.stage import Stage as _Stage
from ....schedule.primitives.pragma import KEYS
from ....te import Operation, Tensor, TensorComputeOp, TensorIntrin
from ..tir import IterVar as Kinds
from ..transform import KEEPS_SCHEDULES, PassContext
from ..wmma import scope_of

__all__ = ["Group", "Schedule", "Stage", "create_schedule"]

_NUMBERS = {"root": 1, "inline": 2, "inlined": 3, "at": 4, "with": 4}
_ITER_TYPES: dict[str, int] = {
    "serial": Kinds.DataPar,
    "thread": Kinds.ThreadIndex,
    "unrolled": Kinds.Unrolled,
    "vectorized": Kinds.Vectorized,
    "parallel": Kinds.Parallelized,
    "tensorized": Kinds.Tensorized,
}


class _AttachType(str):
    """Attachment of a stage: our word, which also equals TVM's number for it."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return other == _NUMBERS[str(self)] if isinstance(other, int) else str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __int__(self) -> int:
        return _NUMBERS[str(self)]


class _Notes(IterAttr):
    """Notes about an axis: iter_type, pragma_keys, pragma_values, tensor_intrin."""

    @property
    def iter_type(self) -> int:
        return _ITER_TYPES[self.kind]

    @property
    def pragma_keys(self) -> list[StringImm]:
        return [StringImm(key) for key, _ in self.pragmas]

    @property
    def pragma_values(self) -> list[Expr | None]:
        return [value for _, value in self.pragmas]

    @property
    def tensor_intrin(self) -> TensorIntrin | None:
        return self.intrinsic


class _NotesByAxis(dict[IterVar, IterAttr]):
    """The notes of a stage, each with TVM's names."""

    def __setitem__(self, axis: IterVar, attr: IterAttr) -> None:
        super().__setitem__(
            axis,
            attr
            if isinstance(attr, _Notes)
            else _Notes(attr.kind, attr.bind_thread, attr.pragmas, attr.storage_align, attr.notes, attr.intrinsic),
        )


class Stage(_Stage):
    """A stage: attach_type also is TVM's number, iter_var_attrs have iter_type, and pragmas that no pass reads are kept."""

    __slots__ = ("_notes",)

    @property
    def iter_var_attrs(self) -> dict[IterVar, IterAttr]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Notes about axes."""
        return self._notes

    @iter_var_attrs.setter
    def iter_var_attrs(self, attrs: dict[IterVar, IterAttr]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._notes = _NotesByAxis()
        for axis, attr in attrs.items():
            self._notes[axis] = attr

    @property
    def attach_type(self) -> AttachType:
        """ "root", "at", "inline" or "inlined", which equal 1, 4, 2 and 3."""
        return cast("AttachType", _AttachType(self.placement.type))

    def tile(self, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any) -> Any:
        """Tile as our method does; where the schedule shows its steps, the three that it is made of."""
        schedule = self.schedule
        if not (isinstance(schedule, Schedule) and schedule.keep_schedule_record):
            return super().tile(x_parent, y_parent, x_factor, y_factor)
        (xo, xi), (yo, yi) = self.split(x_parent, x_factor), self.split(y_parent, y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    def set_scope(self, scope: str) -> None:
        """Do as our method does, with TVM's scopes of tensor cores."""
        super().set_scope(scope_of(scope))

    def tensorize(self, axis: IterVar, intrinsic: TensorIntrin) -> None:
        """Tensorize as our method does; without effect, and with a warning, on a stage that calls an intrinsic by itself."""
        if isinstance(self.op, TensorComputeOp):
            warn_user(
                user_source(),
                f"{self.name} is what {self.op.intrinsic.name} computes: tensorizing {axis.name} changes nothing",
                PerformanceWarning,
            )
        else:
            super().tensorize(axis, intrinsic)

    def pragma(self, axis: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Annotate as our method does. "vectorize", "unroll" and "parallel" are the primitives; a key that no pass reads is kept, without
        effect."""
        if pragma_type in ("vectorize", "unroll", "parallel"):
            getattr(self, pragma_type)(axis)
        elif pragma_type in KEYS:
            super().pragma(axis, pragma_type, pragma_value)
        else:
            value = pragma_value
            if not isinstance(value, Expr):
                value = StringImm(value) if isinstance(value, str) else const(1 if value is None else value)
            others = (pair for pair in self.attr(axis).pragmas if pair[0] != pragma_type)
            self.annotate(axis, pragmas=(*others, (pragma_type, value)))


class Group(_Group):
    """A group: the group around it, the stage that it is computed at, and how many stages and groups lie in it."""

    __slots__ = ()

    @property
    def group(self) -> _Group | None:
        return self.outer

    @property
    def attach_stage(self) -> _Stage | None:
        return self.placement.stage

    @property
    def attach_type(self) -> AttachType:
        return cast("AttachType", _AttachType(self.placement.type))

    @property
    def num_child_stages(self) -> int:
        """The stages and groups that lie in it, those of groups within it left out."""
        return len(self.members) + sum(other.outer is self for other in self.schedule.groups)


class Schedule(_Schedule):
    """A schedule whose stages and groups have TVM's names too."""

    STAGE: ClassVar[type[_Stage]] = Stage
    GROUP: ClassVar[type[_Group]] = Group

    def __init__(self, outputs: list[Operation]) -> None:
        super().__init__(outputs)
        self.keep_schedule_record = bool(PassContext.current().config.get(KEEPS_SCHEDULES, False))

    @property
    def primitive_record(self) -> list[str]:
        """The primitives so far, the first of them "vanilla", where PassContext's "te.keep_schedule_record" asked for them."""
        return ["vanilla", *(record.primitive for record in self.records)] if self.keep_schedule_record else []

    @property
    def schedule_record(self) -> list[Schedule]:
        """The schedule after each of primitive_record, on the same operations."""
        states: list[Schedule] = []
        for count in range(len(self.primitive_record)):
            replay = Replay(Schedule(self.outputs))
            for record in self.records[:count]:
                replay.apply(record)
            states.append(cast("Schedule", replay.schedule))
        return states

    def cache_read(self, tensor: Tensor, scope: str, readers: Any = (), reindex: bool = False) -> Tensor:
        """Do as our method does, with TVM's scopes of tensor cores."""
        return super().cache_read(tensor, scope_of(scope), readers, reindex)

    @overload
    def cache_write(self, tensor: Tensor, scope: str) -> Tensor: ...
    @overload
    def cache_write(self, tensor: Sequence[Tensor], scope: str) -> list[Tensor]: ...
    def cache_write(self, tensor: Tensor | Sequence[Tensor], scope: str) -> Tensor | list[Tensor]:
        """Do as our method does, with TVM's scopes of tensor cores."""
        return super().cache_write(tensor, scope_of(scope))


def create_schedule(ops: Any) -> Schedule:
    """Create a schedule as te.create_schedule does; of nothing, one without stages."""
    return Schedule([] if is_a(ops, list) and not ops else collect_operations(ops))
