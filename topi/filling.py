"""Tensors that are made of a number, of a range, or by repeating another."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import user_source
from ..ir import Expr, IntImm, ops
from ..ir.ops import integer_value
from ..te import polymorphic as te
from ..te.shape import Shape, same_extent, scalar_dtype, shape_text
from ..te.tensor import Tensor, tensor_text
from .checks import BadOperand, BadParameter, check_shape, tensor
from .row import floating, operator, sample
from .signatures import Number, Scalar

__all__ = [
    "arange",
    "broadcast_to",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def _fill(shape: Any, dtype: object, value: Any, name: str) -> Tensor:
    kind = scalar_dtype(dtype)
    element = ops.cast(ops.convert(value), kind)  # one expression for all elements
    filled: Tensor = te.compute(check_shape(shape, name), lambda *_: element, name=name, tag="elemwise")
    return filled


def full(shape: Shape, dtype: object, fill_value: Scalar) -> Tensor:
    """A tensor filled with one number.

    Parameters
    ----------
    shape : int, expression or sequence of these
        One extent, or several.
    dtype : dtype
        Of the result.
    fill_value : number or expression
        Converted to the dtype.

    Returns
    -------
    Tensor
        The given shape.

    Raises
    ------
    BadExtent (TW0110)
        A shape that is none.
    UnknownDType (TW0101)
        A dtype that there is not.
    NotAnExpression (TW0106)
        An operand that is neither a number nor a tensor.
    """
    return _fill(shape, dtype, fill_value, "T_full")


def full_like(x: Tensor, fill_value: Scalar) -> Tensor:
    """A tensor of x's shape and dtype, filled with one number or scalar expression. Raises BadOperand (TW0181), NotAnExpression
    (TW0106)."""
    return _fill(tensor(x, "full_like").shape, x.dtype, fill_value, "T_full_like")


def zeros(shape: Shape, dtype: object = "float32") -> Tensor:
    """A tensor of `shape` and `dtype` filled with zeros. Raises BadExtent (TW0110), UnknownDType (TW0101)."""
    return full(shape, dtype, 0)


def ones(shape: Shape, dtype: object = "float32") -> Tensor:
    """A tensor of `shape` and `dtype` filled with ones. Raises BadExtent (TW0110), UnknownDType (TW0101)."""
    return full(shape, dtype, 1)


def zeros_like(x: Tensor) -> Tensor:
    """Zeros in x's shape and dtype. Raises BadOperand (TW0181)."""
    return full_like(x, 0)


def ones_like(x: Tensor) -> Tensor:
    """Ones in x's shape and dtype. Raises BadOperand (TW0181)."""
    return full_like(x, 1)


def arange(
    start: Expr | Number, stop: Expr | Number | None = None, step: Expr | Number = 1, dtype: object = "float32"
) -> Tensor:
    """start, start + step, ... up to but without stop; arange(stop) begins at 0.

    Parameters
    ----------
    start : expression or number
        A number, or an integer expression with steps of 1.
    stop : expression or number or None, default None
        The same; where it is None, start is the stop.
    step : expression or number, default 1
        A number other than 0.
    dtype : dtype, default "float32"
        Of the result. Element i is start + i * step, rounded as that arithmetic is.

    Returns
    -------
    Tensor
        (ceil((stop - start) / step),).

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    UnknownDType (TW0101)
        A dtype that there is not.
    """
    if stop is None:
        start, stop = 0, start  # as Python's range, one argument is the end
    kind = scalar_dtype(dtype)
    extent = _arange_extent(start, stop, step)
    values: Tensor = te.compute(
        (extent,),
        # start + i * step, not a running sum: errors do not add up
        lambda i: ops.cast(ops.convert(start), kind) + ops.cast(i, kind) * ops.cast(ops.convert(step), kind),
        name="T_arange",
        tag="elemwise",
    )
    return values


def _arange_extent(start: Any, stop: Any, step: Any) -> Any:
    # a bool is an int to Python
    odd = [bound for bound in (start, stop, step) if isinstance(bound, bool) or not isinstance(bound, (Real, Expr))]
    if odd:
        raise BadParameter(
            "arange takes numbers and integer expressions",
            reason=f"got {odd[0]!r}"[:200],
            called=user_source(),
            fix="topi.arange(stop), or topi.arange(start, stop, step)",
        )
    symbolic = any(isinstance(bound, Expr) and not isinstance(bound, IntImm) for bound in (start, stop, step))
    first, last, by = (integer_value(bound, bound) for bound in (start, stop, step))
    # the extent is (stop - start) / step rounded up, which symbols have of steps of 1 alone
    if by == 0 or (symbolic and not (isinstance(by, int) and by == 1)):
        raise BadParameter(
            "arange cannot tell how many elements it has",
            reason=f"got the step {step}",
            called=user_source(),
            fix="a step of 1 where start or stop is an expression, any number but 0 elsewhere",
        )
    if symbolic:
        return te.max(stop - start, 0)
    return (
        max(-int(-(last - first) // by), 0)  # integers are divided exactly
        if isinstance(first + last + by, int)
        else max(_ceiling((last - first) / by), 0)
    )


def _ceiling(x: float) -> int:
    return -int(-x // 1)


def _numpy_broadcast(x: NDArray[Any], *, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(x, shape)


@operator(
    "broadcast_to",
    reference=_numpy_broadcast,
    fusion="injective",
    samples=[sample(floating(3, 1), shape=(2, 3, 5))],
)
def broadcast_to(data: Tensor, shape: Shape) -> Tensor:
    """`data` in `shape`, repeated along dimensions that it lacks, or has with extent 1. Raises BadOperand (TW0181) where it does
    not fit, BadExtent (TW0110)."""
    source, extents = tensor(data, "broadcast_to"), check_shape(shape, "broadcast_to")
    skipped = len(extents) - source.ndim
    repeated = [isinstance(extent, IntImm) and extent.value == 1 for extent in source.shape]  # extents of 1 repeat
    fits = skipped >= 0 and all(
        single or same_extent(extent, extents[skipped + at])
        for at, (extent, single) in enumerate(zip(source.shape, repeated, strict=True))
    )
    if not fits:
        raise BadOperand(
            f"cannot broadcast {source.name} to {shape_text(extents)}",
            reason=f"got {tensor_text(source)}",
            declared=source.source,
            called=user_source(),
            allowed="aligned from the last dimension on, extents that are equal or 1",
            fix="topi.tile repeats parts",
        )
    broadcast: Tensor = te.compute(
        extents,
        lambda *i: source[tuple(0 if single else i[skipped + at] for at, single in enumerate(repeated))],
        name="T_broadcast_to",
        tag="broadcast",
    )
    return broadcast
