"""Running sums and products along one dimension, by te.scan."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import te
from ..ir import ops
from ..ir.expr import Expr
from ..ir.ops import is_const
from ..te.shape import scalar_dtype
from ..te.tensor import Tensor
from .checks import axis_of, tensor
from .elementwise import full
from .transform import reshape, transpose

__all__ = ["cumprod", "cumsum"]


def cumsum(data: Tensor, axis: int | None = None, dtype: object = None, exclusive: bool = False) -> Tensor:
    """The sums of data[: i + 1] along an axis, or of the flattened tensor without one; exclusive: of data[: i].

    dtype: of the result and of the additions, which are made in order; of data, int32 of bools. An element is off by at most
    n * eps times the sum of the n absolute values before it. Raises BadAxis (TW0180).
    """
    return _running(data, axis, dtype, exclusive, "cumsum", ops.add, 0)


def cumprod(data: Tensor, axis: int | None = None, dtype: object = None, exclusive: bool = False) -> Tensor:
    """The products of data[: i + 1] along an axis, as cumsum gives sums, in its shape; n products are off by n * eps, relatively.
    Raises BadAxis (TW0180)."""
    return _running(data, axis, dtype, exclusive, "cumprod", ops.multiply, 1)


def _running(
    data: Tensor,
    axis: int | None,
    dtype: object,
    exclusive: bool,
    name: str,
    combine: Callable[[Any, Any], Any],
    neutral: int,
) -> Tensor:
    source = tensor(data, name)
    if axis is None:
        source = reshape(source, (math.prod(source.shape),))
    at = axis_of(source, 0 if axis is None else axis, name)
    kind = scalar_dtype(dtype) if dtype is not None else scalar_dtype("int32") if source.dtype.is_bool else source.dtype
    order = [at, *(dim for dim in range(source.ndim) if dim != at)]
    extent, rest = source.shape[at], [source.shape[dim] for dim in order[1:]]
    if is_const(extent, 0):
        return full(source.shape, kind, 0)

    def element(time: Any, others: tuple[Any, ...]) -> Any:
        return source[(*others[:at], time, *others[at:])].astype(kind)

    state = te.placeholder((extent, *rest), kind, name=f"{name}_state")

    def first(t: Expr, *i: Expr) -> Expr:
        return ops.const(neutral, kind) if exclusive else element(t, i)

    def next(t: Expr, *i: Expr) -> Expr:
        return combine(state[(t - 1, *i)], element(te.max(t - 1, 0) if exclusive else t, i))

    begin = te.compute((1, *rest), first, name=f"{name}_init")
    step = te.compute((extent, *rest), next, name=f"{name}_update")  # time runs from 1 on
    running: Tensor = te.scan(begin, step, state, inputs=[source], name=name)
    return transpose(running, [order.index(dim) for dim in range(source.ndim)]) if at else running
