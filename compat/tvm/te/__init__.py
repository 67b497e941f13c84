"""tvm.te."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from .... import te as _te
from ....base.arguments import is_a, is_sequence
from ....driver.lower import lower
from ....ir import Function
from ....ir.ops import convert as convert
from ....te import *  # noqa: F403  (every name of ours is TVM's)
from ....te import Tensor as Tensor
from ....te.reduce import comm_reducer as _comm_reducer
from .. import wmma
from ..container import Attrs
from ..nodes import ours, theirs
from ..tir import add as add
from ..tir import div as div
from ..tir import logaddexp as logaddexp
from ..tir import multiply as multiply
from ..tir import subtract as subtract
from . import operation as operation
from . import schedule as schedule
from . import tag as tag
from . import tensor as tensor
from .hybrid import HybridModule as HybridModule  # which makes `hybrid` the one here, not that of our te
from .stage import Schedule as Schedule
from .stage import Stage as Stage
from .stage import create_schedule as create_schedule
from .tag import tag_scope as tag_scope
from .tensor import HybridOp as HybridOp

if not TYPE_CHECKING:  # checkers go by the imports: they do not follow a list that another module's is added to
    __all__ = [
        "HybridModule",
        "HybridOp",
        "Schedule",
        "Stage",
        "add",
        "comm_reducer",
        "compute",
        "convert",
        "create_prim_func",
        "create_schedule",
        "decl_tensor_intrin",
        "div",
        "extern",
        "logaddexp",
        "multiply",
        "operation",
        "schedule",
        "subtract",
        "tag",
        "tag_scope",
        "tensor",
        *_te.__all__,
    ]


def create_prim_func(ops: Any) -> Function:
    """The loops of tensors in call order (inputs, then outputs), unscheduled: tvm.build takes it."""
    computed = [each.op for each in ops if isinstance(each, Tensor) and not each.op.is_passed]
    return theirs(lower(create_schedule(computed), list(ops)))


def _compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Declare as te.compute does. The elements may hold nodes with TVM's names. The operation's attrs are nodes, and print as JSON."""
    element = _convert_elements(fcompute) if callable(fcompute) else fcompute
    return _te.compute(
        shape, element, name, tag, Attrs({key: _convert_attrs(value) for key, value in (attrs or {}).items()})
    )


def _convert_elements(fcompute: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, whose elements are nodes of ours alone."""

    @wraps(fcompute)
    def element(*indices: Any) -> Any:
        returned = fcompute(*indices)
        return type(returned)(map(ours, returned)) if is_a(returned, (tuple, list)) else ours(returned)

    return element


_compute.__name__ = "compute"
compute = _te.compute if TYPE_CHECKING else _compute  # whose overloads are the types of these too


def _convert_attrs(value: Any) -> Any:
    """Convert the notes of an author on an operation: numbers as nodes, in lists too."""
    if is_sequence(value):
        return [_convert_attrs(each) for each in value]
    return convert(value) if isinstance(value, (int, float)) else value


def comm_reducer(fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce") -> Any:
    """Declare as te.comm_reducer does. Called with values alone, it combines them."""
    return replace(_comm_reducer(fcombine, fidentity, name), elementwise=True)


def extern(shape: Any, inputs: Any, fcompute: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Declare as te.extern does. The statement may hold nodes with TVM's names."""

    def body(ins: Any, outs: Any) -> Any:
        return ours(fcompute(ins, outs))

    declare: Callable[..., Any] = _te.extern
    return declare(shape, inputs, body, *args, **named)


def decl_tensor_intrin(op: Any, fcompute: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Declare as te.decl_tensor_intrin does. The statements may hold nodes with TVM's names; those that call tensor cores give ours."""

    made: list[Any] = []

    def bodies(*buffers: Any) -> Any:
        given = fcompute(*buffers)
        made.append(tuple(map(ours, given)) if is_a(given, tuple) else ours(given))
        return made[-1]

    intrin = _te.decl_tensor_intrin(op, bodies, *args, **named)
    return wmma.intrinsic(intrin, made[-1]) or replace(intrin, buffers=_Buffers(intrin.buffers))


class _Buffers(dict[Any, Any]):
    """The buffers of an intrinsic by their tensors, and by their numbers."""

    def __missing__(self, key: object) -> Any:
        if isinstance(key, int):
            return list(self.values())[key]
        raise KeyError(key)
