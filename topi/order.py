"""Orders along a dimension, and writes to places that are known when the kernel runs.

Each is expressions alone, so that any target runs it and schedules may do with it what they like: an element's place in the
order is how many come before it, and what is written to a place is found by looking through the indices. That takes n * n
comparisons for n elements: meant for rows of up to some thousands.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import user_source
from ..ir import ops
from ..ir.expr import IntImm
from ..te.shape import same_extent, scalar_dtype
from ..te.tensor import Tensor, tensor_text
from .checks import axis_of, integers, tensor
from .errors import BadOperand, BadParameter
from .transform import injective

__all__ = ["argsort", "invert_permutation", "scatter_elements", "scatter_nd", "sort", "topk"]


def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """The elements along an axis in order, in the shape and the dtype of data; NaNs stand last, or first where the order descends.
    Raises BadAxis (TW0180)."""
    source, at = _along(data, axis, "sort")
    return _taken(source, _order(source, at, is_ascend, None, "sort"), at, "sort")


def argsort(data: Tensor, valid_count: Tensor | None = None, axis: int = -1, is_ascend: bool = True,
            dtype: object = "float32") -> Tensor:
    """Where the elements in order stand along an axis; equal ones stay in their order. valid_count: how many elements of each
    row count, the rest keeping its place. dtype: of the result. Raises BadAxis (TW0180)."""
    source, at = _along(data, axis, "argsort")
    order = _order(source, at, is_ascend, valid_count, "argsort")
    kind = scalar_dtype(dtype)
    return injective(source.shape, lambda *i: order[i].astype(kind), "argsort")


def topk(data: Tensor, k: int = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False,
         dtype: object = "int64") -> list[Tensor] | Tensor:
    """The k greatest (or least) elements along an axis, in order: "values", their places "indices" in `dtype`, or "both" as a
    list. Each has the data's shape with k for that axis; k below 1 takes all. Raises BadAxis (TW0180), BadParameter (TW0182)."""
    source, at = _along(data, axis, "topk")
    count, = integers(k, "k of topk")
    extent = source.shape[at]
    if ret_type not in ("both", "values", "indices") or (isinstance(extent, IntImm) and count > extent.value):
        raise BadParameter(f"topk of {tensor_text(source)} cannot give {count} {ret_type!r}", declared=source.source,
                           called=user_source(), allowed='"both", "values", "indices", k up to the extent', fix='ret_type="both"')
    order, kind = _order(source, at, is_ascend, None, "topk"), scalar_dtype(dtype)
    if count >= 1:
        shape = (*source.shape[:at], count, *source.shape[at + 1:])
        order = te.compute(shape, lambda *i, whole=order: whole[i], name="topk.first", tag="injective")
    places = injective(order.shape, lambda *i: order[i].astype(kind), "topk_indices")
    if ret_type == "indices":
        return places
    values = _taken(source, order, at, "topk_values")
    return values if ret_type == "values" else [values, places]


def invert_permutation(data: Tensor) -> Tensor:
    """The permutation that undoes one of 0 ... n - 1, in the shape (n,) and the dtype of data: result[data[i]] = i. Raises
    BadOperand (TW0181)."""
    source = tensor(data, "invert_permutation", 1)
    k = te.reduce_axis((0, source.shape[0]), "k")
    inverse: Tensor = te.compute(source.shape, lambda i: te.max(te.select(
        ops.equal(source[k], i.astype(source.dtype)), k.var.astype(source.dtype), ops.const(0, source.dtype)), axis=k),
        name="invert_permutation")
    return inverse


def _along(data: Any, axis: int, subject: str) -> tuple[Tensor, int]:
    source = tensor(data, subject)
    return source, axis_of(source, axis, subject)


def _order(source: Tensor, at: int, ascending: bool, valid_count: Tensor | None, name: str) -> Tensor:
    """order[.., r, ..]: the place of the element that r others come before. int32."""
    extent = source.shape[at]
    k, p = te.reduce_axis((0, extent), "k"), te.reduce_axis((0, extent), "p")

    def earlier(x: Any, y: Any) -> Any:
        less = x < y if ascending else x > y
        if not source.dtype.is_float:
            return less
        last, first = (y, x) if ascending else (x, y)  # NaNs are the greatest
        return te.any(less, te.all(te.isnan(last), ~te.isnan(first)))

    def valid(i: Any) -> Any:
        if valid_count is None:
            return extent
        rest = (*i[:at], *i[at + 1:])
        return valid_count[rest[:valid_count.ndim]].astype("int32")

    def before(*i: Any) -> Any:
        here, there = source[i], source[(*i[:at], k, *i[at + 1:])]
        count = valid(i)
        tied = te.all(~earlier(here, there), k < i[at])
        first = te.select(te.any(earlier(there, here), tied), 1, 0)
        if valid_count is None:
            return te.sum(first, axis=k)
        return te.sum(te.select(te.any(i[at] >= count, k >= count), te.select(k < i[at], 1, 0), first), axis=k)

    rank = te.compute(source.shape, before, name=f"{name}.rank")
    order: Tensor = te.compute(source.shape, lambda *i: te.sum(
        te.select(ops.equal(rank[(*i[:at], p, *i[at + 1:])], i[at]), p.var.astype("int32"), 0), axis=p), name=f"{name}.order")
    return order


def _taken(source: Tensor, order: Tensor, at: int, name: str) -> Tensor:
    last = source.shape[at] - 1
    return injective(order.shape, lambda *i: source[(*i[:at], te.max(te.min(order[i], last), 0), *i[at + 1:])], name)


# Writing to places

_KINDS = ("update", "add", "mul", "min", "max")


def scatter_elements(data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update") -> Tensor:
    """`data` with updates[i, j] at data[indices[i, j], j] for axis 0, and so on; negative indices count from the end.

    reduction: "update" (of several updates of one place the last counts), "add", "mul", "min" or "max". indices and updates are
    of one shape, whose extents besides the axis are at most the data's. Raises BadAxis (TW0180), BadOperand (TW0181), BadParameter
    (TW0182).
    """
    source, index, new = tensor(data, "scatter_elements"), tensor(indices, "scatter_elements"), tensor(updates, "scatter_elements")
    at = axis_of(source, axis, "scatter_elements")
    _check(source, index, new, reduction, index.ndim == new.ndim == source.ndim and all(map(same_extent, index.shape, new.shape)))
    k = te.reduce_axis((0, index.shape[at]), "k")
    rest = [dim for dim in range(source.ndim) if dim != at]

    def here(i: Any, tap: Any) -> tuple[Any, Any]:
        there = (*i[:at], tap, *i[at + 1:])
        where, last = index[there], ops.convert(source.shape[at]).astype(index.dtype)
        where = te.select(where < 0, where + last, where)
        inside = [i[dim] < index.shape[dim] for dim in rest if not same_extent(index.shape[dim], source.shape[dim])]
        return te.all(*inside, ops.equal(where, i[at].astype(index.dtype))), new[there]

    return _scattered(source, k, lambda i: here(i, k), lambda i, tap: here(i, tap)[1], reduction, "scatter_elements")


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update") -> Tensor:
    """`data` with updates[y..., x...] at data[indices[0, y...], indices[1, y...], ..., x...]; modes as scatter_elements has them.

    Raises BadOperand (TW0181), BadParameter (TW0182).
    """
    source, index, new = tensor(data, "scatter_nd"), tensor(indices, "scatter_nd"), tensor(updates, "scatter_nd")
    depth = index.shape[0].value if index.ndim and isinstance(index.shape[0], IntImm) else -1
    many = index.ndim - 1
    _check(source, index, new, mode, 0 <= depth <= source.ndim and new.ndim == many + source.ndim - depth)
    total: Any = 1
    for extent in index.shape[1:]:
        total = total * extent
    k = te.reduce_axis((0, total), "k")

    def place(tap: Any) -> tuple[Any, ...]:
        coordinates = list[Any]()
        for extent in reversed(index.shape[1:]):
            coordinates.append(te.indexmod(tap, extent))
            tap = te.indexdiv(tap, extent)
        return tuple(reversed(coordinates))

    def here(i: Any, tap: Any) -> tuple[Any, Any]:
        there = place(tap)
        same = [ops.equal(index[(dim, *there)], i[dim].astype(index.dtype)) for dim in range(depth)]
        return te.all(*same), new[(*there, *i[depth:])]

    return _scattered(source, k, lambda i: here(i, k), lambda i, tap: here(i, tap)[1], mode, "scatter_nd")


def _scattered(source: Tensor, k: Any, here: Any, update: Any, kind: str, name: str) -> Tensor:
    """here(i): whether update k is for place i, and what it is; update(i, k): what it is."""
    wide = source.dtype
    if kind == "update":
        last = te.compute(source.shape, lambda *i: te.max(te.select(here(i)[0], k.var.astype("int32"), -1), axis=k),
                          name=f"{name}.last")
        return injective(source.shape, lambda *i: te.if_then_else(
            last[i] >= 0, update(i, te.max(last[i], 0)).astype(wide), source[i]), name)
    if kind in ("add", "mul"):
        neutral, reduce = (0, te.sum) if kind == "add" else (1, te.prod)
        updates = te.compute(source.shape, lambda *i: reduce(
            te.if_then_else(here(i)[0], here(i)[1].astype(wide), te.const(neutral, wide)), axis=k), name=f"{name}.{kind}")
        return injective(source.shape, lambda *i: source[i] + updates[i] if kind == "add" else source[i] * updates[i], name)
    reduce, combine = (te.min, te.min) if kind == "min" else (te.max, te.max)
    most = te.max_value(wide) if kind == "min" else te.min_value(wide)
    updates = te.compute(source.shape, lambda *i: reduce(te.if_then_else(here(i)[0], here(i)[1].astype(wide), most), axis=k),
                         name=f"{name}.{kind}")
    return injective(source.shape, lambda *i: combine(source[i], updates[i]), name)


def _check(source: Tensor, index: Tensor, new: Tensor, kind: str, fits: bool) -> None:
    if kind not in _KINDS:
        raise BadParameter(f"there is no reduction {kind!r} of updates", called=user_source(), allowed=", ".join(_KINDS),
                           fix='"update", or "add"')
    if not fits or not index.dtype.is_integer:
        raise BadOperand(f"cannot write {tensor_text(new)} into {tensor_text(source)} at {tensor_text(index)}",
                         declared=index.source, called=user_source(), reason="shapes do not fit, or the indices are no integers",
                         fix="indices and updates of the shapes that the operator names")
