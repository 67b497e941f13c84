"""What was done to a schedule, as small plain records: they name stages and axes by place, so that they say the same of
any schedule of the same operations. A schedule is rebuilt from them by `Schedule.replay`.

Places are those at the time of the call: a stage's place in `s.stages`, an axis's in `stage.all_iter_vars`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ...errors import InternalError, SourceLine
from ...ir.expr import Expr, IterVar, Var
from ...ir.visit import free_vars
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from .index_map import IndexMap

if TYPE_CHECKING:
    from .schedule import Schedule

__all__ = [
    "AxisRef", "ExprRef", "GroupRef", "IndexMapRef", "IntrinsicRef", "ParameterRef", "Record", "StageRef",
    "SymbolRef", "TensorRef", "ThreadRef", "encode",
]


@dataclass(frozen=True, slots=True)
class StageRef:
    """s.stages[stage]"""

    stage: int


@dataclass(frozen=True, slots=True)
class AxisRef:
    """s.stages[stage].all_iter_vars[place]"""

    stage: int
    place: int


@dataclass(frozen=True, slots=True)
class TensorRef:
    """s.stages[stage].op.output(output)"""

    stage: int
    output: int


@dataclass(frozen=True, slots=True)
class SymbolRef:
    """s.symbols[place]"""

    place: int


@dataclass(frozen=True, slots=True)
class ThreadRef:
    """The thread axis number `place` in the order of first use; its tag, and its extent where it was declared."""

    place: int
    tag: str
    extent: int | None


@dataclass(frozen=True, slots=True)
class IntrinsicRef:
    """A tensor intrinsic: te.intrinsics.get(name, *arguments), or one of the user's own (arguments None), of which only
    its name can be written down."""

    name: str
    arguments: tuple[int | str, ...] | None
    own: TensorIntrin | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class GroupRef:
    """s.groups[place]"""

    place: int


@dataclass(frozen=True, slots=True)
class ParameterRef:
    """Parameter `place` of an index map."""

    place: int


VarRef: TypeAlias = AxisRef | SymbolRef | ThreadRef | ParameterRef


@dataclass(frozen=True, slots=True)
class ExprRef:
    """An expression, and what each of its variables stands for."""

    expr: Expr
    variables: tuple[tuple[Var, VarRef], ...] = ()


@dataclass(frozen=True, slots=True)
class IndexMapRef:
    """A function of indices: the names and the dtypes of its parameters, and the indices that it returns."""

    parameters: tuple[str, ...]
    dtypes: tuple[str, ...]
    indices: tuple[ExprRef, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One primitive: its name, the place of the stage it was called on (None: on the schedule), and its arguments by
    the names that the method gives them, as plain values, the references above, and tuples of these."""

    primitive: str
    stage: int | None
    arguments: Mapping[str, Any]
    source: SourceLine | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{'s' if self.stage is None else f's.stages[{self.stage}]'}.{self.primitive}({shown})"


def encode(schedule: Schedule, value: Any) -> Any:
    """An argument of a primitive as a record holds it."""
    from ..primitives.group import Group  # records are below stages and groups, which make them
    from .stage import Stage

    if isinstance(value, Stage):
        return StageRef(schedule.place_of(value))
    if isinstance(value, Group):
        return GroupRef(schedule.group_place(value))
    if isinstance(value, Tensor):
        return TensorRef(schedule.place_of(schedule[value]), value.value_index)
    if isinstance(value, IterVar):
        return _variable(schedule, value)
    if isinstance(value, Expr):
        return ExprRef(value, tuple((var, _variable(schedule, var)) for var in free_vars(value)))
    if isinstance(value, TensorIntrin):
        return IntrinsicRef(*value.shipped) if value.shipped is not None else IntrinsicRef(value.name, None, value)
    if isinstance(value, IndexMap):
        places: dict[Var, VarRef] = {var: ParameterRef(at) for at, var in enumerate(value.parameters)}
        return IndexMapRef(tuple(var.name for var in value.parameters), tuple(str(var.dtype) for var in value.parameters), tuple(
            ExprRef(one, tuple((var, places.get(var) or _variable(schedule, var)) for var in free_vars(one)))
            for one in value.indices))
    if isinstance(value, (list, tuple)):
        return tuple(encode(schedule, one) for one in value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InternalError(f"a record cannot hold {type(value).__name__}")


def _variable(schedule: Schedule, var: Var) -> VarRef:
    for at, stage in enumerate(schedule.stages):
        for place, axis in enumerate(stage.all_iter_vars):
            if axis is var:
                return AxisRef(at, place)
    if isinstance(var, IterVar) and var.kind == "thread":
        extent = None if var.dom is None else int(var.dom.extent)  # pyright: ignore[reportArgumentType]
        return ThreadRef(schedule.thread_place(var), var.thread_tag, extent)
    return SymbolRef(schedule.symbol_place(var))
