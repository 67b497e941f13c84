"""Orders along a dimension, and writes to places that are known when the kernel runs.

Rows are sorted by their digits, from the least to the greatest one (Knuth, volume 3, section 5.2.5): as many walks over a row
as its elements have bytes. Equal elements keep their order. What is moved are the elements' places, and elements are read
there afterwards, so that gradients go through sort and topk. Walks that store at places given as data are hybrid scripts and
scatters: they run on any target, rows of the script in parallel where a schedule says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import dataclass, user_source
from ..ir import DType, Expr, IntImm, IterVar, ops
from ..ir.ops import integer_value
from ..te import polymorphic as te
from ..te.hybrid.forms import where_target_has
from ..te.indices import clipped_index, index_from_end, is_in_range
from ..te.scatter import Combine, scatter
from ..te.scatter_add import Addition
from ..te.shape import declare_axes, same_extent, scalar_dtype
from ..te.tensor import Tensor, tensor_text
from .block_orders import sorted_in_blocks
from .checks import BadOperand, BadParameter, integers, normalize_axis, tensor
from .row import floating, operator, sample
from .row import integers as whole
from .row_orders import FEW_OF_A_ROW, SHORT_ROW, partial_sort_positions, radix_sort_positions, rank_positions
from .stored_updates import COMBINE, elements_in_place
from .transform import flat_index, injective, reshape, transpose, unravel_index

__all__ = ["argsort", "invert_permutation", "scatter_elements", "scatter_nd", "sort", "topk"]


def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """The elements along an axis in order. NaNs stand last, or first where the order descends.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int, default -1
        Negative ones count from the end.
    is_ascend : bool, default True
        Whether the order ascends.

    Returns
    -------
    Tensor
        The shape and the dtype of data.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source, at = _source_axis(data, axis, "sort")
    return _take(source, _order(source, at, is_ascend, None), at, "sort")


def argsort(
    data: Tensor, valid_count: Tensor | None = None, axis: int = -1, is_ascend: bool = True, dtype: object = "float32"
) -> Tensor:
    """The positions of the elements in order along an axis. Equal ones stay in their order.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    valid_count : Tensor or None, default None
        How many elements of each row count, the rest keeping its place; all where it is None.
    axis : int, default -1
        Negative ones count from the end.
    is_ascend : bool, default True
        Whether the order ascends.
    dtype : dtype, default "float32"
        Of the result.

    Returns
    -------
    Tensor
        The shape of data.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source, at = _source_axis(data, axis, "argsort")
    order = _order(source, at, is_ascend, valid_count)
    kind = scalar_dtype(dtype)
    return order if order.dtype == kind else injective(source.shape, lambda *i: order[i].astype(kind), "argsort")


def topk(
    data: Tensor, k: int = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: object = "int64"
) -> list[Tensor] | Tensor:
    """The k greatest (or least) elements along an axis, in order. Of equal elements the first ones are taken; a NaN is
    the greatest.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    k : int, default 1
        How many; below 1 all of them.
    axis : int, default -1
        Negative ones count from the end.
    ret_type : str, default "both"
        "values", their places "indices", or "both" as a list.
    is_ascend : bool, default False
        Whether the least ones are taken.
    dtype : dtype, default "int64"
        Of the places.

    Returns
    -------
    list of Tensor or Tensor
        The shape of data, with k for the axis.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source, at = _source_axis(data, axis, "topk")
    (count,) = integers(k, "k of topk")
    extent = source.shape[at]
    if ret_type not in ("both", "values", "indices") or (isinstance(extent, IntImm) and count > extent.value):
        raise BadParameter(
            f"topk of {tensor_text(source)} cannot give {count} {ret_type!r}",
            declared=source.source,
            called=user_source(),
            allowed='"both", "values", "indices", k up to the extent',
            fix='ret_type="both"',
        )
    order, kind = _order(source, at, is_ascend, None, max(count, 0)), scalar_dtype(dtype)
    places = injective(order.shape, lambda *i: order[i].astype(kind), "topk_indices")
    if ret_type == "indices":
        return places
    values = _take(source, order, at, "topk_values")
    return values if ret_type == "values" else [values, places]


def invert_permutation(data: Tensor) -> Tensor:
    """The permutation that undoes one of 0 ... n - 1, in the shape (n,) and the dtype of data: result[data[i]] = i. Raises
    BadOperand (TW0181)."""
    source = tensor(data, "invert_permutation", 1)
    loops = declare_axes(source.shape, "i")
    place = source[loops]
    return scatter(
        "invert_permutation",
        source.shape,
        Addition(ops.cast(loops[0], source.dtype), loops, (place,), _index_conditions(place, source.shape[0])),
        "store",
    )


def _source_axis(data: Any, axis: int, subject: str) -> tuple[Tensor, int]:
    source = tensor(data, subject)
    return source, normalize_axis(source, axis, subject)


def _order(source: Tensor, at: int, ascending: bool, valid_count: Tensor | None, count: int = 0) -> Tensor:
    """order[.., r, ..]: the place of the element that r others come before; the first `count` of them, or all for 0. int32."""
    dims = [*(dim for dim in range(source.ndim) if dim != at), at]
    outer, extent = [source.shape[dim] for dim in dims[:-1]], source.shape[at]
    rows: Any = math.prod(outer, start=ops.const(1, extent.dtype))
    key = order_key(source.dtype, ascending)
    moved = transpose(source, dims) if at != source.ndim - 1 else source
    flat = moved if source.ndim == 2 else reshape(moved, (rows, extent))
    keys: Tensor = te.compute((rows, extent), lambda r, i: key(flat[r, i]), name="keys", tag="injective")
    if valid_count is None:
        counts: Tensor = te.compute((rows,), lambda _: ops.cast(extent, "int32"), name="counts", tag="injective")
    else:
        given = reshape(tensor(valid_count, "valid_count of argsort"), (rows,))
        counts = te.compute(
            (rows,), lambda r: clipped_index(given[r], extent + 1).astype("int32"), name="counts", tag="injective"
        )
    length = integer_value(extent)
    if 0 < count <= FEW_OF_A_ROW and (length is None or length > count):
        order: Tensor = partial_sort_positions(keys, count)
    elif length is not None and length <= SHORT_ROW:
        order = rank_positions(keys, counts)
    else:
        order = radix_sort_positions(keys, counts, max(keys.dtype.bits // 8, 1))
    if length:
        asked = integer_value(order.shape[1], length)
        order = where_target_has("cuda", sorted_in_blocks(keys, counts, length, asked), order)
    if count > 0 and not same_extent(order.shape[1], ops.convert(count)):
        whole = order
        order = te.compute((rows, count), lambda r, i: whole[r, i], name="first", tag="injective")
    shape = (*outer, order.shape[1])
    unfolded = order if source.ndim == 2 else reshape(order, shape)
    return transpose(unfolded, [dims.index(dim) for dim in range(source.ndim)]) if at != source.ndim - 1 else unfolded


def order_key(dtype: DType, ascending: bool) -> Callable[[Expr], Any]:
    """Unsigned integers that are in the order of the elements: NaNs the greatest, both zeros the same."""
    kind = f"uint{max(dtype.bits, 8)}"
    sign = te.const(1 << (dtype.bits - 1), kind) if dtype.bits > 1 else None

    def key(value: Expr) -> Any:
        if dtype.is_float:
            bits: Any = te.reinterpret(kind, value)
            bits = te.select(
                te.isnan(value),
                te.max_value(kind),
                te.select(ops.equal(value, ops.const(0, dtype)), sign, te.select(bits >= sign, ~bits, bits | sign)),
            )
        elif dtype.is_integer and dtype.is_signed:
            bits = te.reinterpret(kind, value) ^ sign
        else:
            bits = value.astype(kind)
        return bits if ascending else ~bits

    return key


def _take(source: Tensor, order: Tensor, at: int, name: str) -> Tensor:
    last = source.shape[at] - 1
    return injective(order.shape, lambda *i: source[(*i[:at], te.max(te.min(order[i], last), 0), *i[at + 1 :])], name)


# Writing to places

_KINDS: dict[str, Combine] = {"update": "store", "add": "add", "mul": "multiply", "min": "min", "max": "max"}
_OF_BOOLS: dict[str, Combine] = {"add": "max", "mul": "min"}
"""Sums and products of bools, as numpy has them: or, and and."""


def _numpy_scatter_elements(x: Any, indices: Any, updates: Any, *, axis: int, reduction: str) -> Any:
    result = x.copy()
    for place in np.ndindex(indices.shape):
        index = int(indices[place])
        index += x.shape[axis] if index < 0 else 0
        if 0 <= index < x.shape[axis]:
            there = (*place[: axis % x.ndim], index, *place[axis % x.ndim + 1 :])
            result[there] = COMBINE[reduction](result[there], updates[place])
    return result


@operator(
    "scatter_elements",
    reference=_numpy_scatter_elements,
    in_place=elements_in_place,
    samples=[
        sample(floating(4, 3), whole(2, 3), floating(2, 3), axis=0),
        sample(floating(4, 3), whole(4, 2), floating(4, 2), axis=1, reduction="add"),
    ],
)
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """A tensor with updates[i, j] at data[indices[i, j], j] for axis 0, and so on. Updates at places outside are left
    out.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    indices : Tensor
        Integers, in the other dimensions no longer than data; negative ones count from the end.
    updates : Tensor
        In the shape of indices.
    axis : int, default 0
        Along which indices count.
    reduction : str, default "update"
        "update" (of several updates of one place the last counts), "add", "mul", "min" or "max", in the order of the
        updates.

    Returns
    -------
    Tensor
        The shape and the dtype of data.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source, index, new = (
        tensor(data, "scatter_elements"),
        tensor(indices, "scatter_elements"),
        tensor(updates, "scatter_elements"),
    )
    at = normalize_axis(source, axis, "scatter_elements")
    _check(
        source,
        index,
        new,
        reduction,
        index.ndim == new.ndim == source.ndim and all(map(same_extent, index.shape, new.shape)),
    )
    loops = declare_axes(index.shape, "i")
    place = index_from_end(index[loops], source.shape[at])
    return _scatter(
        source,
        new,
        (*loops[:at], place, *loops[at + 1 :]),
        _Updates(loops, loops[at], lambda number, i: (*i[:at], number, *i[at + 1 :])),
        reduction,
        "scatter_elements",
    )


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update") -> Tensor:
    """A tensor with updates[y..., x...] at data[indices[0, y...], indices[1, y...], ..., x...].

    Parameters
    ----------
    data : Tensor
        Of any shape.
    indices : Tensor
        Integers, (coordinates, ...).
    updates : Tensor
        The dimensions of indices after the first, then those of data that have no coordinate.
    mode : str, default "update"
        As the reduction of scatter_elements.

    Returns
    -------
    Tensor
        The shape and the dtype of data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source, index, new = tensor(data, "scatter_nd"), tensor(indices, "scatter_nd"), tensor(updates, "scatter_nd")
    depth = integer_value(index.shape[0], -1) if index.ndim else -1
    many = index.ndim - 1
    _check(source, index, new, mode, 0 <= depth <= source.ndim and new.ndim == many + source.ndim - depth)
    loops = declare_axes((*index.shape[1:], *source.shape[depth:]), "i")
    place = (*(index[(dim, *loops[:many])] for dim in range(depth)), *loops[many:])
    number = ops.cast(flat_index(loops[:many], index.shape[1:]), "int64")
    return _scatter(
        source,
        new,
        place,
        _Updates(loops, number, lambda number, i: (*unravel_index(number, index.shape[1:]), *i[depth:])),
        mode,
        "scatter_nd",
    )


@dataclass(frozen=True, slots=True)
class _Updates:
    """The updates that a scatter walks over. number: of an update among those that may meet in an element; found(number, i):
    its indices, where i is the element's place."""

    loops: tuple[IterVar, ...]
    number: Expr
    found: Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]


def _scatter(source: Tensor, new: Tensor, place: tuple[Any, ...], updates: _Updates, kind: str, name: str) -> Tensor:
    """`source` with each of the updates put at its `place`."""
    shape = source.shape
    combine: Combine = _OF_BOOLS.get(kind, _KINDS[kind]) if source.dtype.is_bool else _KINDS[kind]
    inside = tuple(
        part for index, extent in zip(place, shape, strict=True) for part in _index_conditions(index, extent)
    )

    def put(value: Expr, name: str, begin: Tensor | None = None) -> Tensor:
        return scatter(name, shape, Addition(value, updates.loops, place, inside), combine, begin)

    if combine == "add":
        added = put(ops.cast(new[updates.loops], source.dtype), f"{name}.add")
        return injective(shape, lambda *i: source[i] + added[i], name)
    if combine != "store":
        return put(ops.cast(new[updates.loops], source.dtype), name, source)
    last = put(updates.number + 1, f"{name}.last")

    def element(*i: Any) -> Any:
        at = updates.found(te.max(last[i] - 1, 0), i)
        within = [
            part < extent if isinstance(part, IterVar) else extent > 0
            for part, extent in zip(at, new.shape, strict=True)
        ]
        return te.if_then_else(te.all(*within, last[i] > 0), new[at].astype(source.dtype), source[i])

    return injective(shape, element, name)


def _index_conditions(index: Any, extent: Expr) -> tuple[tuple[Expr, bool], ...]:
    """The condition of an index that is data, with all behind it evaluated only where it holds; none of a loop's variable."""
    if isinstance(index, IterVar):
        return ()
    return ((is_in_range(index, extent), True),)


def _check(source: Tensor, index: Tensor, new: Tensor, kind: str, fits: bool) -> None:
    if kind not in _KINDS:
        raise BadParameter(
            f"there is no reduction {kind!r} of updates",
            called=user_source(),
            allowed=", ".join(_KINDS),
            fix='"update", or "add"',
        )
    if not fits or not index.dtype.is_integer:
        raise BadOperand(
            f"cannot write {tensor_text(new)} into {tensor_text(source)} at {tensor_text(index)}",
            declared=index.source,
            called=user_source(),
            reason="shapes do not fit, or the indices are not integers",
            fix="indices and updates of the shapes that the operator names",
        )
