"""Running sums and products along one dimension, by te.scan."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .. import te
from ..ir import DType, Expr, IntImm, ops
from ..ir.ops import is_const
from ..te.shape import scalar_dtype
from ..te.tensor import Tensor
from .checks import normalize_axis, tensor
from .filling import full
from .row import REQUIRED, Sample, floating, integers, operator, sample
from .transform import flip, reshape, transpose

__all__ = ["cumprod", "cumsum"]


F = TypeVar("F", bound=Callable[..., Tensor])


def _row(name: str, reference: Callable[..., Any], neutral: int, *samples: Sample) -> Callable[[F], F]:
    """The row of running results along one axis. reference: numpy's function; samples: those that others have not."""

    def computed(x: Any, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
        # integers are summed exactly, floats in float64 for reference
        wide = x if x.dtype.kind in "iu" else x.astype(np.float64)
        source = np.flip(wide, axis) if reverse else wide
        if exclusive and source.shape[axis]:
            first = np.full_like(np.take(source, [0], axis), neutral)
            source = np.concatenate([first, np.delete(source, -1, axis)], axis)
        result = reference(source, axis, dtype=source.dtype)
        return np.flip(result, axis) if reverse else result

    return operator(
        name,
        reference=computed,
        attributes={"axis": "axis", "exclusive": "exclusive", "reverse": "reverse"},
        defaults={"axis": REQUIRED},
        samples=[
            sample(floating(3, 7), axis=1),
            sample(floating(3, 7), axis=0, exclusive=True, reverse=True),
            *samples,
        ],
    )


@_row("cumsum", np.cumsum, 0, sample(integers(3, 7), axis=1, exclusive=True))
def cumsum(
    data: Tensor, axis: int | None = None, dtype: object = None, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """The sums of data[: i + 1] along an axis.

    Additions are made in order. An element is off by at most n * eps times the sum of the n absolute values before it.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int or None, default None
        Negative ones count from the end; None flattens the tensor.
    dtype : dtype or None, default None
        Of the result and of the additions; that of data where it is None, int32 of bools.
    exclusive : bool, default False
        Whether element i is left out: data[:i].
    reverse : bool, default False
        Whether sums run from the other end: data[i:], or data[i + 1 :].

    Returns
    -------
    Tensor
        The shape of data.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    return _running(data, axis, dtype, exclusive, reverse, "cumsum", ops.add, 0)


@_row("cumprod", np.cumprod, 1)
def cumprod(
    data: Tensor, axis: int | None = None, dtype: object = None, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """The products of data[: i + 1] along an axis. n products are off by n * eps, relatively.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int or None, default None
        Negative ones count from the end; None flattens the tensor.
    dtype : dtype or None, default None
        Of the result and of the products; that of data where it is None, int32 of bools.
    exclusive : bool, default False
        Whether element i is left out: data[:i].
    reverse : bool, default False
        Whether products run from the other end.

    Returns
    -------
    Tensor
        The shape of data.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    return _running(data, axis, dtype, exclusive, reverse, "cumprod", ops.multiply, 1)


def _running(
    data: Tensor,
    axis: int | None,
    dtype: object,
    exclusive: bool,
    reverse: bool,
    name: str,
    combine: Callable[[Any, Any], Any],
    neutral: int,
) -> Tensor:
    source = tensor(data, name)
    if axis is None:
        source = reshape(source, (math.prod(source.shape),))  # without an axis numpy flattens
    if reverse:
        at = normalize_axis(source, 0 if axis is None else axis, name)
        # a reversed sum is the sum of the reversed tensor, reversed
        return flip(_running(flip(source, at), at, dtype, exclusive, False, name, combine, neutral), at)
    at = normalize_axis(source, 0 if axis is None else axis, name)
    # sums of bools count
    kind = scalar_dtype(dtype) if dtype is not None else scalar_dtype("int32") if source.dtype.is_bool else source.dtype
    order = [at, *(dim for dim in range(source.ndim) if dim != at)]  # te.scan runs along its first dimension
    extent, rest = source.shape[at], [source.shape[dim] for dim in order[1:]]
    if is_const(extent, 0):  # a scan has at least one step
        return full(source.shape, kind, 0)

    def element(time: Any, others: tuple[Any, ...]) -> Any:
        return source[(*others[:at], time, *others[at:])].astype(kind)

    if isinstance(extent, IntImm):  # a known extent has a first element to begin with
        running = _scan_from_first(element, extent, rest, kind, name, combine, neutral if exclusive else None, source)
    else:
        running = _scan_from_identity(element, extent, rest, kind, name, combine, neutral, exclusive, source)
    return transpose(running, [order.index(dim) for dim in range(source.ndim)]) if at else running


def _scan_from_first(
    element: Callable[[Any, Any], Any],
    extent: Expr,
    rest: list[Expr],
    kind: DType,
    name: str,
    combine: Callable[[Any, Any], Any],
    neutral: int | None,
    source: Tensor,
) -> Tensor:
    """Running results along time of one step at least. neutral: what they begin with where they are exclusive, else None."""
    state = te.placeholder((extent, *rest), kind, name=f"{name}_state")

    def first(t: Expr, *i: Expr) -> Expr:
        return element(t, i) if neutral is None else ops.const(neutral, kind)

    def next(t: Expr, *i: Expr) -> Expr:
        # at 0 nothing stands before: the max keeps the index inside
        return combine(state[(t - 1, *i)], element(t if neutral is None else te.max(t - 1, 0), i))

    begin = te.compute((1, *rest), first, name=f"{name}_init")
    step = te.compute((extent, *rest), next, name=f"{name}_update")  # time runs from 1 on
    running: Tensor = te.scan(begin, step, state, inputs=[source], name=name)
    return running


def _scan_from_identity(
    element: Callable[[Any, Any], Any],
    extent: Expr,
    rest: list[Expr],
    kind: DType,
    name: str,
    combine: Callable[[Any, Any], Any],
    neutral: int,
    exclusive: bool,
    source: Tensor,
) -> Tensor:
    """Running results along time that may be empty: a scan begins with a step, which here stands before the first result."""
    state = te.placeholder((extent + 1, *rest), kind, name=f"{name}_state")
    # -0 changes no float that is added to it, -0 among them; exclusive results begin with 0.
    zero = -0.0 if neutral == 0 and kind.is_float and not exclusive else neutral

    def first(*_: Expr) -> Expr:
        return ops.const(zero, kind)

    def next(t: Expr, *i: Expr) -> Expr:
        return combine(state[(t - 1, *i)], element(t - 1, i))

    def moved(t: Expr, *i: Expr) -> Expr:
        return running[(t if exclusive else t + 1, *i)]

    begin = te.compute((1, *rest), first, name=f"{name}_init")
    step = te.compute((extent + 1, *rest), next, name=f"{name}_update")
    running: Tensor = te.scan(begin, step, state, inputs=[source], name=f"{name}_scan")
    result: Tensor = te.compute((extent, *rest), moved, name=name, tag="injective")
    return result
