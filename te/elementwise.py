"""Whole tensors combined element by element, with numpy's broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ..base.errors import InternalError, TensorExpressionError, user_source
from ..ir import ops
from ..ir.expr import EQ, GE, GT, LE, LT, NE, CompareOp, Expr, FloatImm, IntImm, IterVar, Producer, ProducerLoad, Var
from ..ir.ops import is_const
from ..ir.visit import post_order
from . import operation as _operation
from .errors import ForeignAxis, ShapesDoNotBroadcast
from .shape import declare_axes, extent_text, same_extent, shape_text
from .tag import current_tag
from .tensor import Tensor, TensorSlice, tensor_text
from .wraparound import wrapping

__all__ = ["bitwise", "broadcast", "compare", "identity_compare", "lift", "operate"]

P = ParamSpec("P")
R = TypeVar("R")
_COMPARISONS: dict[str, tuple[str, type[CompareOp]]] = {
    "<": ("less", LT),
    "<=": ("less_equal", LE),
    ">": ("greater", GT),
    ">=": ("greater_equal", GE),
    "==": ("equal", EQ),
    "!=": ("not_equal", NE),
}


def operate(
    name: str,
    function: Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any],
    *operands: Any,
) -> Any:
    """`function` of the elements of whole tensors and of scalars, as a new tensor of the broadcast shape.

    A tensor of rank 0 beside an expression over axes or elements is read as its value, and so is the result. Raises
    ShapesDoNotBroadcast (TW0121), ForeignAxis (TW0120) for an expression over axes, and whatever `function` raises on the elements.
    """
    if any(isinstance(operand, TensorSlice) or _is_value(operand) for operand in operands):
        operands = tuple(ops.convert(operand) if isinstance(operand, TensorSlice) else operand for operand in operands)
        if all(not isinstance(operand, Tensor) or operand.ndim == 0 for operand in operands):
            return function(*(operand[()] if isinstance(operand, Tensor) else operand for operand in operands))
    return broadcast(name, function, operands).output(0)


def _is_value(operand: Any) -> bool:
    """Return whether this is an expression of more than a symbol or constant: it belongs to the body of some compute."""
    return isinstance(operand, IterVar) or (
        isinstance(operand, Expr) and not isinstance(operand, (Var, IntImm, FloatImm))
    )


def broadcast(
    name: str,
    function: Callable[..., Any],
    operands: tuple[Any, ...],
    make: Callable[..., _operation.ComputeOp] | None = None,
) -> _operation.ComputeOp:
    """The operation of `operate`. make: what builds it (ComputeOp, or a subclass with more fields bound). Raises
    ShapesDoNotBroadcast (TW0121), ForeignAxis (TW0120)."""
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    for operand in operands:
        if isinstance(operand, Expr):
            _check_scalar(name, operand)
    shape = _broadcast_shape(name, tensors)
    axis = declare_axes(shape, "i")
    values = (_element(operand, axis, shape) if isinstance(operand, Tensor) else operand for operand in operands)
    (body,) = wrapping(axis, (ops.convert(function(*values)),))
    tag = current_tag() or ("elemwise" if len(tensors) == 1 else "broadcast")
    return (make or _operation.ComputeOp)(name=f"T_{name}", axis=axis, body=(body,), tag=tag, source=user_source())


def _check_scalar(name: str, scalar: Expr) -> None:
    for node in post_order(scalar):
        if isinstance(node, IterVar):
            raise ForeignAxis(
                f"cannot {name} a whole tensor and an expression over axis '{node.name}'",
                reason=f"'{node.name}' has no value outside its own compute: {str(scalar)[:120]}",
                called=user_source(),
                fix="index the tensor inside the compute: A[i] instead of A",
            )


def _broadcast_shape(name: str, tensors: list[Tensor]) -> tuple[Expr, ...]:
    rank = max(tensor.ndim for tensor in tensors)
    shape: list[Expr] = []
    for at in range(-rank, 0):
        chosen: Expr | None = None
        owner: Tensor | None = None
        for tensor in tensors:
            if -at > tensor.ndim:
                continue
            extent = tensor.shape[at]
            if chosen is None or owner is None or is_const(chosen, 1):
                chosen, owner = extent, tensor
            elif not is_const(extent, 1) and not same_extent(chosen, extent):
                raise _mismatch(name, tensors, at, owner, tensor)
        if chosen is None:
            raise InternalError("no tensor has the dimension that the rank was taken from")
        shape.append(chosen)
    return tuple(shape)


def _mismatch(name: str, tensors: list[Tensor], at: int, a: Tensor, b: Tensor) -> ShapesDoNotBroadcast:
    x, y = a.shape[at], b.shape[at]
    symbolic = not (isinstance(x, IntImm) and isinstance(y, IntImm))
    where = f"dimension {at + a.ndim}" if a.ndim == b.ndim else f"dimension {at}, counted from the end,"
    declared = [
        tensor_text(tensor) + (f", declared at {tensor.source}: {tensor.source.text}" if tensor.source else "")
        for tensor in dict.fromkeys(tensors)
    ]
    return ShapesDoNotBroadcast(
        f"cannot {name} {a.name} and {b.name}: shapes {shape_text(a.shape)} and {shape_text(b.shape)} do not broadcast",
        reason="\n".join([f"{where} is {extent_text(x)} in {a.name} and {extent_text(y)} in {b.name}", *declared]),
        called=user_source(),
        allowed="aligned from the last dimension on, extents are equal"
        + (" (the same symbol)" if symbolic else "")
        + ", or one of them is 1",
        fix=f"declare {a.name} and {b.name} with one extent there, or say which elements meet: "
        "te.compute(shape, lambda *i: ...)",
    )


def _element(tensor: Tensor, axis: tuple[IterVar, ...], shape: tuple[Expr, ...]) -> Expr:
    """The element of `tensor` that meets the result's element at `axis`."""
    skipped = len(axis) - tensor.ndim
    indices = tuple(
        ops.const(0, axis[skipped + at].dtype)
        if is_const(extent, 1) and not is_const(shape[skipped + at], 1)
        else axis[skipped + at]
        for at, extent in enumerate(tensor.shape)
    )
    return ProducerLoad(tensor, indices)


def bitwise(name: str, a: Any, b: Any) -> Any:
    """&, |, ^, << and >> on whole tensors, element by element. Raises ShapesDoNotBroadcast (TW0121), ForeignAxis (TW0120)."""
    return operate(name, functools.partial(ops.bitwise, name), a, b)


def compare(symbol: str, a: Any, b: Any) -> Any:
    """A comparison of whole tensors, as a bool tensor (an expression where rank 0 meets an expression's value). Raises
    ShapesDoNotBroadcast (TW0121), ForeignAxis (TW0120)."""
    name, kind = _COMPARISONS[symbol]

    def function(x: Any, y: Any) -> Any:
        return ops.compare(kind, x, y)

    if any(isinstance(operand, TensorSlice) or _is_value(operand) for operand in (a, b)):
        return operate(name, function, a, b)
    make = functools.partial(_operation.ComparisonOp, symbol=symbol, identical=a is b)
    return broadcast(name, function, (a, b), make).output(0)


class NotComparable(Producer):
    """`A == B` where there is no elementwise comparison: it still has its truth value, and raises on any other use."""

    __slots__ = ("_error", "_truth")

    def __init__(self, truth: bool, error: TensorExpressionError) -> None:
        self._truth, self._error = truth, error

    def __bool__(self) -> bool:
        return self._truth

    def __getitem__(self, indices: Any) -> Any:
        raise self._error

    def __getattr__(self, name: str) -> Any:
        raise self._error if not name.startswith("__") else AttributeError(name)


def identity_compare(symbol: str, a: Any, b: object) -> Any:
    """`==` and `!=`: the elementwise comparison where `b` can be an operand, otherwise a plain bool. Either way its
    truth value is identity, for which no shape needs to match."""
    if not isinstance(b, (Expr, Producer, bool, int, float)) and getattr(b, "dtype", None) is None:
        return symbol == "!="
    try:
        return compare(symbol, a, b)
    except TensorExpressionError as error:
        return NotComparable((a is b) == (symbol == "=="), error)


def lift(function: Callable[P, R]) -> Callable[P, R]:
    """A function of expressions that also takes whole tensors, element by element."""

    @functools.wraps(function)
    def either(*operands: P.args, **named: P.kwargs) -> R:
        if any(isinstance(operand, (Tensor, TensorSlice)) for operand in operands):
            return operate(function.__name__, functools.partial(function, **named), *operands)
        return function(*operands, **named)

    return either
