"""Operators that write to places of their first input, and what they store where the result lies in that input's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from ... import topi
from ...ir import ops
from ...ir.builder import ir_builder
from ...ir.stmt import Stmt
from ...te import either as te
from ...te.indices import index_from_end, is_in_range
from ...topi.transform import injective
from .row import operator

__all__ = ["IN_PLACE"]

IN_PLACE: dict[str, Callable[..., te.Tensor]] = {}
"""By an operator's name the tensor, of its first input's shape and dtype, of which only the elements that change are stored: from
that shape and dtype, the other inputs, and the attributes."""

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": np.minimum,
    "max": np.maximum,
}
_STORED: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": ops.add,
    "mul": ops.multiply,
    "min": ops.minimum,
    "max": ops.maximum,
}


_Place = Callable[[tuple[Any, ...], list[Any]], Sequence[Any]]


def _in_place(name: str) -> Callable[[Callable[..., te.Tensor]], Callable[..., te.Tensor]]:
    def register(function: Callable[..., te.Tensor]) -> Callable[..., te.Tensor]:
        IN_PLACE[name] = function
        return function

    return register


def _stored(
    shape: Sequence[Any],
    dtype: str,
    inputs: Sequence[te.Tensor],
    extents: Sequence[Any],
    place: _Place,
    reduction: str = "update",
) -> te.Tensor:
    """Stores the last of the inputs, of these extents, at the places that `place` gives for a position in it and buffers of the
    inputs; what is outside is left out. Later positions come after earlier ones."""

    def body(ins: list[Any], outs: list[Any]) -> Stmt:
        ib = ir_builder()
        given, result = [ib.buffer_ptr(one) for one in ins], ib.buffer_ptr(outs[0])
        with ExitStack() as loops:
            i = tuple(loops.enter_context(ib.for_range(0, extent, name=f"i{at}")) for at, extent in enumerate(extents))
            there = place(i, given)
            for index, extent in zip(there, shape, strict=True):
                if not any(index is one for one in i):
                    loops.enter_context(ib.if_scope(is_in_range(index, extent)))
            new = ops.cast(given[-1][i], result.dtype)
            result[tuple(there)] = new if reduction == "update" else _STORED[reduction](result[tuple(there)], new)
        return ib.get()

    tensor: te.Tensor = te.extern(tuple(shape), list(inputs), body, name="stored", dtype=dtype)
    return tensor


def _numpy_put(x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    result = x.copy()
    rows, source = np.moveaxis(result, axis, 0), np.moveaxis(updates, axis, 0)
    for at, index in enumerate(indices):
        place = int(index) + (x.shape[axis] if index < 0 else 0)
        if 0 <= place < x.shape[axis]:
            rows[place] = source[at]
    return result


@operator("put", _numpy_put)
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
    last = topi.scatter_elements(nothing, wide, numbers, 0)
    return injective(
        x.shape,
        lambda *i: te.if_then_else(
            last[i[at]] > 0, updates[(*i[:at], te.max(last[i[at]] - 1, 0), *i[at + 1 :])].astype(x.dtype), x[i]
        ),
        "put",
    )


@_in_place("put")
def _put_in_place(shape: Any, dtype: str, indices: Any, updates: Any, *, axis: int) -> te.Tensor:
    at = axis % len(shape)
    return _stored(
        shape,
        dtype,
        [indices, updates],
        updates.shape,
        lambda i, given: (*i[:at], index_from_end(given[0][i[at]], shape[at]), *i[at + 1 :]),
    )


def _scattered(x: Any, indices: Any, updates: Any, *, axis: int, reduction: str) -> Any:
    result = x.copy()
    for place in np.ndindex(indices.shape):
        index = int(indices[place])
        index += x.shape[axis] if index < 0 else 0
        if 0 <= index < x.shape[axis]:
            there = (*place[: axis % x.ndim], index, *place[axis % x.ndim + 1 :])
            result[there] = _COMBINE[reduction](result[there], updates[place])
    return result


@operator("scatter_elements", _scattered)
def _scatter_elements(x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "update") -> Any:
    """x with updates[i, j] at x[indices[i, j], j] for axis 0, and so on; reduction: "update", "add", "mul", "min" or "max"."""
    return topi.scatter_elements(x, indices, updates, axis, reduction)


@_in_place("scatter_elements")
def _elements_in_place(shape: Any, dtype: str, indices: Any, updates: Any, *, axis: int, reduction: str) -> te.Tensor:
    at = axis % len(shape)
    return _stored(
        shape,
        dtype,
        [indices, updates],
        indices.shape,
        lambda i, given: (*i[:at], index_from_end(given[0][i], shape[at]), *i[at + 1 :]),
        reduction,
    )


def _scattered_nd(x: Any, indices: Any, updates: Any, *, reduction: str) -> Any:
    result = x.copy()
    for place in np.ndindex(indices.shape[:-1]):
        there = tuple(
            int(index) + (extent if index < 0 else 0) for index, extent in zip(indices[place], x.shape, strict=False)
        )
        if all(0 <= index < extent for index, extent in zip(there, x.shape, strict=False)):
            result[there] = _COMBINE[reduction](result[there], updates[place])
    return result


@operator("scatter_nd", _scattered_nd)
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
    return topi.scatter_nd(x, first, updates, reduction)


@_in_place("scatter_nd")
def _nd_in_place(shape: Any, dtype: str, indices: Any, updates: Any, *, reduction: str) -> te.Tensor:
    rank, depth = indices.ndim - 1, int(indices.shape[-1])
    return _stored(
        shape,
        dtype,
        [indices, updates],
        updates.shape,
        lambda i, given: (*(index_from_end(given[0][(*i[:rank], at)], shape[at]) for at in range(depth)), *i[rank:]),
        reduction,
    )
