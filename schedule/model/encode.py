"""The arguments of a primitive as records hold them: stages, axes, tensors and symbols by their places. See replay for the way
back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from ...base.errors import user_source
from ...ir import Expr, IterVar, Var, free_vars
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from ..errors import WrongArgument
from .group import Group
from .index_map import IndexMap
from .records import (
    AxisRef,
    ExprRef,
    GroupRef,
    IndexMapRef,
    IntrinsicRef,
    ParameterRef,
    StageRef,
    SymbolRef,
    TensorRef,
    ThreadRef,
    VarRef,
)
from .stage import Stage

if TYPE_CHECKING:
    from .schedule import Schedule

__all__ = ["encode"]


def encode(schedule: Schedule, value: Any, near: Sequence[Stage] = ()) -> Any:
    """An argument of a primitive as a record holds it. near: the stages that the call is about, whose axes it most likely is."""
    if isinstance(value, Stage):
        return StageRef(schedule.find_place(value))
    if isinstance(value, Group):
        return GroupRef(schedule.group_place(value))
    if isinstance(value, Tensor):
        return TensorRef(schedule.find_place(schedule[value]), value.value_index)
    if isinstance(value, IterVar):
        return _variable(schedule, value, near)
    if isinstance(value, Expr):
        return ExprRef(value, tuple((var, _variable(schedule, var, near)) for var in free_vars(value)))
    if isinstance(value, TensorIntrin):
        # ours by their arguments, so that records can be read elsewhere
        return IntrinsicRef(*value.shipped) if value.shipped is not None else IntrinsicRef(value.name, None, value)
    if isinstance(value, IndexMap):
        # parameters of the map are its own, not the schedule's symbols
        places: dict[Var, VarRef] = {var: ParameterRef(at) for at, var in enumerate(value.parameters)}
        return IndexMapRef(
            tuple(var.name for var in value.parameters),
            tuple(str(var.dtype) for var in value.parameters),
            tuple(
                ExprRef(
                    index, tuple((var, places.get(var) or _variable(schedule, var, near)) for var in free_vars(index))
                )
                for index in value.indices
            ),
        )
    if isinstance(value, (list, tuple)):
        return tuple(encode(schedule, item, near) for item in cast("Sequence[Any]", value))
    # bool before int is of no account here: both are kept as they are
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise WrongArgument(
        f"a {type(value).__name__} is not an argument of a schedule primitive",
        called=user_source(),
        allowed="numbers, texts, None, tensors, stages, axes, expressions, tensor intrinsics and lists of them",
    )


def _variable(schedule: Schedule, var: Var, near: Sequence[Stage]) -> VarRef:
    if not isinstance(var, IterVar):
        return SymbolRef(schedule.symbol_place(var))
    is_thread = var.kind == "thread"  # as loops only scans have them
    for stage in chain(near, schedule.stages):  # the stages of the call first, as an axis most likely is theirs
        if not is_thread or stage.written_op.is_stepwise:
            for place, axis in enumerate(stage.all_iter_vars):
                if axis is var:
                    return AxisRef(schedule.find_place(stage), place)
    if is_thread:
        extent = None if var.dom is None else int(var.dom.extent)  # launch sizes are numbers
        return ThreadRef(schedule.thread_place(var), var.thread_tag, extent)
    return SymbolRef(schedule.symbol_place(var))
