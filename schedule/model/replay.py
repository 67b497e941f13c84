"""Records back into calls, on another schedule of the same operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from ...base import dataclass, user_source
from ...base.arguments import is_a, to_items
from ...ir import DType, Expr, IterVar, Var, substitute
from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from ..errors import BadRecords, IntrinsicNotGiven
from .group import Group
from .index_map import IndexMap
from .methods import GroupPrimitives
from .primitive import Primitive, find_owner, find_primitive, primitives
from .records import (
    AxisRef,
    ExprRef,
    GroupRef,
    IndexMapRef,
    IntrinsicRef,
    ParameterRef,
    Record,
    StageRef,
    SymbolRef,
    TensorRef,
    ThreadRef,
)
from .schedule import Schedule, create_schedule
from .stage import Stage

__all__ = ["Call", "Replay", "replay_records"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A primitive with its arguments. owner: the stage, schedule or group that it is called on."""

    row: Primitive
    owner: Stage | Schedule | Group
    listed: tuple[Any, ...]
    named: dict[str, Any]

    def __call__(self) -> Any:
        """Do it; what the primitive returns. Raises what the primitive raises."""
        return self.row.method(self.owner, *self.listed, **self.named)


class Replay:
    """Replay of records on a schedule. It keeps the thread axes, which records name by number. intrinsics: the user's own
    tensor intrinsics by name."""

    def __init__(self, schedule: Schedule, intrinsics: Mapping[str, TensorIntrin] | None = None) -> None:
        self.schedule, self.intrinsics = schedule, dict(intrinsics or {})
        self.threads: dict[int, IterVar] = {}

    def apply(self, record: Record) -> Any:
        """Do what the record says; what the primitive returns. Raises BadRecords (TW0223), and what the primitive raises."""
        return self.call(record)()

    def call(self, record: Record) -> Call:
        """The call that the record stands for. Raises BadRecords (TW0223)."""
        cls = find_owner(record)
        row = find_primitive(cls, record.primitive)
        if row is None:
            raise BadRecords(
                f"cannot replay {record!r}",
                reason=f"no primitive of {'schedules' if record.stage is None else 'stages'} "
                f"is named {record.primitive!r}",
                called=user_source(),
                allowed=", ".join(primitives(cls)),
            )
        named = {name: self.decode(value) for name, value in record.arguments.items()}
        if cls is GroupPrimitives:
            owner = named.pop("group")
        else:
            owner = self.schedule if record.stage is None else self._stage(record.stage)
        try:
            listed = tuple(named.pop(row.listed, ())) if row.listed is not None else ()
            row.signature.bind(owner, *listed, **named)
        except TypeError as error:
            raise BadRecords(
                f"cannot replay {record!r}"[:300],
                reason=str(error),
                called=user_source(),
                allowed=f"{row.name}({', '.join(map(str, row.untyped))})",
            ) from None
        return Call(row, owner, listed, named)

    def decode(self, value: Any) -> Any:
        """An argument as it stands in a record, as what it stands for."""
        if isinstance(value, StageRef):
            return self._stage(value.stage)
        if isinstance(value, AxisRef):
            stage = self._stage(value.stage)
            return self._find_object(stage.all_iter_vars, value.place, f"axes of {stage.name}")
        if isinstance(value, TensorRef):
            stage = self._stage(value.stage)
            return self._find_object(stage.op.outputs, value.output, f"outputs of {stage.name}")
        if isinstance(value, GroupRef):
            return self._find_object(self.schedule.groups, value.place, "groups")
        if isinstance(value, SymbolRef):
            return self._find_object(self.schedule.symbols, value.place, "symbols of the operations")
        if isinstance(value, ThreadRef):
            return self._thread(value)
        if isinstance(value, ExprRef):
            return self._expression(value)
        if isinstance(value, IndexMapRef):
            return self._index_map(value)
        if isinstance(value, IntrinsicRef):
            return self._intrinsic(value)
        if isinstance(value, ParameterRef):
            raise BadRecords(
                "cannot replay the records on these operations",
                reason=f"they name parameter {value.place} outside of a layout",
                called=user_source(),
                fix="pass the records of a schedule, s.trace",
            )
        if isinstance(value, tuple):
            return [self.decode(item) for item in cast("tuple[Any, ...]", value)]
        return value

    def _stage(self, place: int) -> Stage:
        return self._find_object(self.schedule.stages, place, "stages")

    def _find_object(self, things: Sequence[T], place: int, what: str) -> T:
        if not 0 <= place < len(things):
            raise BadRecords(
                "cannot replay the records on these operations",
                reason=f"they name number {place} of the {what}, of which there are {len(things)}",
                called=user_source(),
                fix="replay them on the operations they were recorded for",
            )
        return things[place]

    def _thread(self, ref: ThreadRef) -> IterVar:
        if ref.place not in self.threads:
            self.threads[ref.place] = (
                thread_axis(ref.tag) if ref.extent is None else thread_axis((0, ref.extent), ref.tag)
            )
        return self.threads[ref.place]

    def _intrinsic(self, ref: IntrinsicRef) -> TensorIntrin:
        if ref.arguments is not None:
            from ...te.intrinsics import get  # loads every one that there is

            return get(ref.name, *ref.arguments)
        own = self.intrinsics.get(ref.name, ref.own)
        if own is None:
            raise IntrinsicNotGiven(
                f"cannot replay the records: they use the tensor intrinsic {ref.name!r}",
                called=user_source(),
                reason="it does not come with tilewright, and a text holds its name alone",
                fix=f"te.Schedule.replay(records, ops, intrinsics={{{ref.name!r}: what te.decl_tensor_intrin returned}})",
            )
        return own

    def _index_map(self, ref: IndexMapRef) -> IndexMap:
        if len(ref.parameters) != len(ref.dtypes):
            raise BadRecords(
                "cannot replay the records on these operations",
                reason=f"a layout of theirs has {len(ref.parameters)} parameters, and {len(ref.dtypes)} dtypes of them",
                called=user_source(),
                fix="pass the records of a schedule, s.trace",
            )
        parameters = tuple(Var(name, DType(dtype)) for name, dtype in zip(ref.parameters, ref.dtypes, strict=True))
        indices: list[Expr] = []
        for index in ref.indices:
            indices.append(
                substitute(
                    index.expr,
                    {
                        var: self._find_object(parameters, stands.place, "parameters of a layout")
                        if isinstance(stands, ParameterRef)
                        else self.decode(stands)
                        for var, stands in index.variables
                    },
                )
            )
        return IndexMap(parameters, tuple(indices))

    def _expression(self, ref: ExprRef) -> Expr:
        return substitute(ref.expr, {var: self.decode(stands) for var, stands in ref.variables})


def replay_records(
    records: Iterable[Record],
    ops: Operation | Tensor | Sequence[Operation | Tensor],
    intrinsics: Mapping[str, TensorIntrin] | None = None,
) -> Schedule:
    """See Schedule.replay."""
    schedule = create_schedule(ops)
    replay = Replay(schedule, intrinsics)
    for record in to_items(records):
        if not is_a(record, Record):
            raise BadRecords(
                f"cannot replay {record!r}"[:300],
                reason="it is not a record",
                called=user_source(),
                fix="te.Schedule.replay(s.records, ops)",
            )
        replay.apply(record)
    return schedule
