"""Operators that look up places, and find them. Indices may be negative: they count from the end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import topi
from ...ir import ops
from ...ir.expr import IntImm
from ...ir.ops import is_const
from ...te import either as te
from ...te.indices import clipped_index, index_from_end
from ...topi.transform import injective
from .row import operator

__all__: list[str] = []


def _within(index: Any, extent: Any) -> Any:
    """An index from the end as one from the beginning, inside whatever it is: what is outside takes the nearest end."""
    return clipped_index(index_from_end(index, extent), extent)


def _refuse_nothing(x: Any, axes: Any, indices: Any) -> None:
    """Raises ValueError where something is looked up in nothing."""
    if any(is_const(x.shape[at], 0) for at in axes) and not any(is_const(extent, 0) for extent in indices.shape):
        raise ValueError("a place is looked up where there are none")


def _index(indices: NDArray[Any], extent: int) -> Any:
    wide = indices.astype(np.int64)
    return np.clip(np.where(wide < 0, wide + extent, wide), 0, extent - 1)


def _taken(x: NDArray[Any], indices: NDArray[Any], *, axis: int) -> Any:
    return np.take(x, _index(indices, x.shape[axis]), axis)


@operator("take", _taken, "injective")
def _take(x: Any, indices: Any, *, axis: int = 0) -> Any:
    """The slices of x at indices along an axis, whose dimensions stand in its place."""
    at = axis % x.ndim
    after = at + indices.ndim
    _refuse_nothing(x, [at], indices)
    return injective(
        (*x.shape[:at], *indices.shape, *x.shape[at + 1 :]),
        lambda *i: x[(*i[:at], _within(indices[i[at:after]], x.shape[at]), *i[after:])],
        "take",
    )


def _gathered(x: Any, indices: Any, *, axis: int) -> Any:
    whole: list[Any] = [*np.indices(indices.shape, sparse=True)]
    whole[axis] = _index(indices, x.shape[axis])
    return x[tuple(whole)]


@operator("gather", _gathered, "injective")
def _gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    """result[i, j] = x[indices[i, j], j] for axis 0, and so on."""
    at = axis % x.ndim
    if indices.ndim != x.ndim or any(
        isinstance(one, IntImm) and isinstance(other, IntImm) and one.value > other.value
        for dim, (one, other) in enumerate(zip(indices.shape, x.shape, strict=True))
        if dim != at
    ):
        raise ValueError(
            "the indices have as many dimensions as what they look up, none longer but the one along which they look"
        )
    _refuse_nothing(x, [at], indices)
    return injective(indices.shape, lambda *i: x[(*i[:at], _within(indices[i], x.shape[at]), *i[at + 1 :])], "gather")


def _gathered_nd(x: Any, indices: Any, *, batch_dims: int) -> Any:
    result = np.empty((*indices.shape[:-1], *x.shape[batch_dims + indices.shape[-1] :]), x.dtype)
    for place in np.ndindex(indices.shape[:-1]):
        coordinates = [
            int(_index(index, extent)) for index, extent in zip(indices[place], x.shape[batch_dims:], strict=False)
        ]
        result[place] = x[(*place[:batch_dims], *coordinates)]
    return result


@operator("gather_nd", _gathered_nd, "injective")
def _gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    """result[b, i, j] = x[b, indices[b, i, :], j]: the last dimension of the indices holds coordinates."""
    count = int(indices.shape[-1])
    rank = indices.ndim - 1
    if not 0 <= batch_dims <= rank or batch_dims + count > x.ndim:
        raise ValueError(f"{count} coordinates after {batch_dims} dimensions of {x.ndim}")
    looked_up = x.shape[batch_dims : batch_dims + count]
    _refuse_nothing(x, range(batch_dims, batch_dims + count), indices)
    return injective(
        (*indices.shape[:-1], *x.shape[batch_dims + count :]),
        lambda *i: x[
            (
                *i[:batch_dims],
                *(_within(indices[(*i[:rank], at)], extent) for at, extent in enumerate(looked_up)),
                *i[rank:],
            )
        ],
        "gather_nd",
    )


def _hot(indices: NDArray[Any], values: NDArray[Any], *, depth: int, axis: int) -> Any:
    whole = np.expand_dims(indices.astype(np.int64), axis)
    place = np.where(whole < 0, whole + depth, whole)
    numbers = np.arange(depth).reshape([-1 if at == axis % place.ndim else 1 for at in range(place.ndim)])
    return values[(place == numbers).astype(np.int64)]


@operator("one_hot", _hot, "injective")
def _one_hot(indices: Any, values: Any, *, depth: int, axis: int = -1) -> Any:
    """values[1] where the index along a new dimension is the element of `indices`, else values[0]."""
    at = axis % (indices.ndim + 1)

    def element(*i: Any) -> Any:
        index = indices[(*i[:at], *i[at + 1 :])]
        return te.select(ops.equal(index_from_end(index, depth), i[at]), values[1], values[0])

    return injective((*indices.shape[:at], depth, *indices.shape[at:]), element, "one_hot")


def _best(x: Any, *, k: int, axis: int, largest: bool) -> Any:
    keys = x if x.dtype.kind in "iu" else x.astype(np.float64)
    count = x.shape[axis]
    if largest:  # what ascends, from its end: NaN is the greatest
        order = count - 1 - np.flip(np.argsort(np.flip(keys, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(keys, axis, kind="stable")
    places = np.take(order, np.arange(count if k < 0 else k), axis)
    return np.take_along_axis(x, places, axis), places


@operator("topk", _best)
def _topk(x: Any, *, k: int, axis: int = -1, largest: bool = True) -> Any:
    """The k greatest (or least) elements along an axis, all of them for a k below 0, in order, and their places; of equal ones the
    first."""
    if k == 0:
        raise ValueError("k is 0")
    values, places = topi.topk(x, k, axis, "both", not largest, "int64")
    return [values, places]
