"""Whole tensors combined element by element, with numpy's broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ..errors import InternalError, user_source
from ..ir import ops
from ..ir.errors import LiteralOutOfRange, MixedTypes, NotAnExpression
from ..ir.expr import EQ, GE, GT, LE, LT, NE, CompareOp, Expr, FloatImm, IntImm, IterVar, ProducerLoad, Var
from ..ir.ops import is_const
from ..ir.visit import post_order
from . import operation as _operation
from .errors import ForeignAxis, ShapesDoNotBroadcast
from .shape import extent_text, same_extent, shape_text, zero_based
from .tag import current_tag
from .tensor import Tensor, TensorSlice, tensor_text

__all__ = ["bitwise", "broadcast", "compare", "identity_compare", "lifted", "operate"]

P = ParamSpec("P")
R = TypeVar("R")
_COMPARISONS: dict[str, type[CompareOp]] = {"<": LT, "<=": LE, ">": GT, ">=": GE, "==": EQ, "!=": NE}


def operate(name: str, function: Callable[..., Any], *operands: Any) -> Any:
    """`function` of the elements of whole tensors and of scalars, as a new tensor of the broadcast shape.

    A tensor of rank 0 beside an expression over axes or elements is read as its value, and so is the result. Raises
    ShapesDoNotBroadcast, and whatever `function` raises on the elements.
    """
    if any(isinstance(operand, TensorSlice) or _is_value(operand) for operand in operands):
        operands = tuple(ops.convert(operand) if isinstance(operand, TensorSlice) else operand for operand in operands)
        if all(not isinstance(operand, Tensor) or operand.ndim == 0 for operand in operands):
            return function(*(operand[()] if isinstance(operand, Tensor) else operand for operand in operands))
    return broadcast(name, function, operands).output(0)


def _is_value(operand: Any) -> bool:
    """Whether this is an expression of more than a symbol or constant: it belongs to the body of some compute."""
    return isinstance(operand, Expr) and (isinstance(operand, IterVar) or not isinstance(operand, (Var, IntImm, FloatImm)))


def broadcast(
    name: str, function: Callable[..., Any], operands: tuple[Any, ...],
    make: Callable[..., _operation.ComputeOp] | None = None,
) -> _operation.ComputeOp:
    """The operation of `operate`. make: what builds it (ComputeOp, or a subclass with more fields bound)."""
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    for operand in operands:
        if isinstance(operand, Expr):
            _check_scalar(name, operand)
    shape = _broadcast_shape(name, tensors)
    axis = tuple(IterVar(f"i{at}", domain.begin.dtype, domain) for at, domain in enumerate(map(zero_based, shape)))
    values = (_element(operand, axis, shape) if isinstance(operand, Tensor) else operand for operand in operands)
    body = ops.convert(function(*values))
    same = all(tensor.ndim == len(shape) and all(map(same_extent, tensor.shape, shape)) for tensor in tensors)
    tag = current_tag() or ("elemwise" if same else "broadcast")
    return (make or _operation.ComputeOp)(name=f"T_{name}", axis=axis, body=(body,), tag=tag, source=user_source())


def _check_scalar(name: str, scalar: Expr) -> None:
    for node in post_order(scalar):
        if isinstance(node, IterVar):
            raise ForeignAxis(
                f"cannot {name} a whole tensor and an expression over axis '{node.name}'",
                reason=f"'{node.name}' has no value outside its own compute: {str(scalar)[:120]}", called=user_source(),
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
    where = [f"{tensor_text(tensor)}, declared at {tensor.source}: {tensor.source.text}" if tensor.source else
             tensor_text(tensor) for tensor in dict.fromkeys(tensors)]
    x, y = a.shape[at], b.shape[at]
    symbolic = not (isinstance(x, IntImm) and isinstance(y, IntImm))
    return ShapesDoNotBroadcast(
        f"cannot {name} {a.name} and {b.name}: shapes {shape_text(a.shape)} and {shape_text(b.shape)} do not broadcast",
        reason="\n".join([f"dimension {at} is {extent_text(x)} in {a.name} and {extent_text(y)} in {b.name}", *where]),
        called=user_source(),
        allowed="aligned from the last dimension on, extents are equal" +
                (" (the same symbol)" if symbolic else "") + ", or one of them is 1",
        fix="declare both with one extent, or say which elements meet: te.compute(shape, lambda i, j: "
            f"{a.name}[...] op {b.name}[...])",
    )


def _element(tensor: Tensor, axis: tuple[IterVar, ...], shape: tuple[Expr, ...]) -> Expr:
    """The element of `tensor` that meets the result's element at `axis`."""
    skipped = len(axis) - tensor.ndim
    indices = tuple(
        ops.const(0, axis[skipped + at].dtype) if is_const(extent, 1) and not is_const(shape[skipped + at], 1)
        else axis[skipped + at]
        for at, extent in enumerate(tensor.shape)
    )
    return ProducerLoad(tensor, indices)


def bitwise(name: str, a: Any, b: Any) -> Any:
    """&, |, ^, << and >> on whole tensors."""
    return operate(name, functools.partial(ops.bitwise, name), a, b)


def compare(symbol: str, a: Any, b: Any) -> Any:
    """A comparison of whole tensors, as a bool tensor (an expression where rank 0 meets an expression's value)."""
    kind = _COMPARISONS[symbol]

    def function(x: Any, y: Any) -> Any:
        return ops.compare(kind, x, y)

    if any(isinstance(operand, TensorSlice) or _is_value(operand) for operand in (a, b)):
        return operate("compare", function, a, b)
    make = functools.partial(_operation.ComparisonOp, symbol=symbol, identical=a is b)
    return broadcast("compare", function, (a, b), make).output(0)


def identity_compare(symbol: str, a: Any, b: object) -> Any:
    """`==` and `!=`: the elementwise comparison where there is one, otherwise a plain bool (never the same)."""
    if a is None or b is None or isinstance(b, (str, bytes, _operation.Operation)):
        return symbol == "!="
    try:
        return compare(symbol, a, b)
    except (ShapesDoNotBroadcast, MixedTypes, LiteralOutOfRange, NotAnExpression):
        return symbol == "!="


def lifted(function: Callable[P, R]) -> Callable[P, R]:
    """A function of expressions that also takes whole tensors, element by element."""

    @functools.wraps(function)
    def either(*operands: P.args, **named: P.kwargs) -> R:
        if any(isinstance(operand, (Tensor, TensorSlice)) for operand in operands):
            return operate(function.__name__, functools.partial(function, **named), *operands)
        return function(*operands, **named)

    return either
