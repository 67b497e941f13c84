"""Updates of tensors as nodes of graphs have them: negative indices count from the end, and elements outside of the tensor are left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..te import polymorphic as te
from ..te.indices import index_from_end
from ..te.tensor import Tensor
from .order import scatter_elements, scatter_nd
from .row import floating, integers, operator, sample
from .stored_updates import COMBINE, store
from .transform import injective


def _numpy_put(x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    result = x.copy()
    rows, source = np.moveaxis(result, axis, 0), np.moveaxis(updates, axis, 0)
    for at, index in enumerate(indices):
        place = int(index) + (x.shape[axis] if index < 0 else 0)
        if 0 <= place < x.shape[axis]:
            rows[place] = source[at]
    return result


def _put_in_place(shape: Any, dtype: str, indices: Any, updates: Any, *, axis: int) -> Tensor:
    at = axis % len(shape)
    return store(
        shape,
        dtype,
        [indices, updates],
        updates.shape,
        lambda i, given: (*i[:at], index_from_end(given[0][i[at]], shape[at]), *i[at + 1 :]),
    )


@operator(
    "put",
    reference=_numpy_put,
    in_place=_put_in_place,
    samples=[
        sample(floating(2, 5, 3), integers(4), floating(2, 4, 3), axis=1),
        sample(floating(5), integers(0), floating(0), axis=0),
    ],
)
def _put(x: Any, indices: Any, updates: Any, *, axis: int = 0) -> Any:
    """x with the slices of updates in the place of those at indices, a vector, along an axis; of equal ones the last counts, and
    those outside are left out."""
    at = axis % x.ndim
    if indices.ndim != 1 or updates.ndim != x.ndim:
        raise ValueError("indices are a vector, and updates have as many dimensions as what they are put into")

    def place(i: Any) -> Any:
        return index_from_end(indices[i], x.shape[at]).astype("int64")

    def number(i: Any) -> Any:
        return i.astype("int64") + 1

    def zero(_: Any) -> Any:
        return te.const(0, "int64")

    wide, numbers = injective(indices.shape, place, "places"), injective(indices.shape, number, "numbers")
    nothing = injective((x.shape[at],), zero, "none")
    last = scatter_elements(nothing, wide, numbers, 0)
    return injective(
        x.shape,
        lambda *i: te.if_then_else(
            last[i[at]] > 0, updates[(*i[:at], te.max(last[i[at]] - 1, 0), *i[at + 1 :])].astype(x.dtype), x[i]
        ),
        "put",
    )


def _numpy_scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str) -> Any:
    result = x.copy()
    for place in np.ndindex(indices.shape[:-1]):
        there = tuple(
            int(index) + (extent if index < 0 else 0) for index, extent in zip(indices[place], x.shape, strict=False)
        )
        if all(0 <= index < extent for index, extent in zip(there, x.shape, strict=False)):
            result[there] = COMBINE[reduction](result[there], updates[place])
    return result


def _nd_in_place(shape: Any, dtype: str, indices: Any, updates: Any, *, reduction: str) -> Tensor:
    rank, depth = indices.ndim - 1, int(indices.shape[-1])
    return store(
        shape,
        dtype,
        [indices, updates],
        updates.shape,
        lambda i, given: (*(index_from_end(given[0][(*i[:rank], at)], shape[at]) for at in range(depth)), *i[rank:]),
        reduction,
    )


@operator(
    "scatter_nd",
    reference=_numpy_scatter_nd,
    in_place=_nd_in_place,
    samples=[
        sample(floating(4, 3), integers(5, 1), floating(5, 3), reduction="max"),
        sample(floating(4, 3), integers(5, 2), floating(5), reduction="add"),
    ],
)
def _scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "update") -> Any:
    """x with updates[i, j] at x[indices[i, :], j]: the last dimension of the indices holds coordinates."""
    rank = indices.ndim - 1
    extents = x.shape

    def turned(at: Any, *i: Any) -> Any:
        last: Any = te.const(0, "int32")
        for dim in reversed(range(int(indices.shape[-1]))):
            last = te.select(at.equal(dim), extents[dim], last)
        return index_from_end(indices[(*i, at)], last)

    first = injective((indices.shape[-1], *indices.shape[:rank]), turned, "coordinates")
    return scatter_nd(x, first, updates, reduction)
