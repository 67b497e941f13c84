"""Records of schedule primitives, plain data: they name stages and axes by place, so that they say the same of
any schedule of the same operations. A schedule is rebuilt from them by `Schedule.replay`.

Places are those at the time of the call: a stage's place in `s.stages`, an axis's in `stage.all_iter_vars`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ...base import SourceLine, dataclass, field
from ...ir.expr import Expr, Var
from ...te.tensor_intrin import TensorIntrin

__all__ = [
    "AxisRef",
    "ExprRef",
    "GroupRef",
    "IndexMapRef",
    "IntrinsicRef",
    "ParameterRef",
    "Record",
    "StageRef",
    "SymbolRef",
    "TensorRef",
    "ThreadRef",
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
