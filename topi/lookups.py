"""Operators that look up places, and find them: by numpy's rules as functions of topi, and as nodes of graphs, whose indices may be
negative (they count from the end), and take the nearest end where they lie outside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import user_source
from ..ir import Expr, IntImm, ops
from ..ir.ops import is_const
from ..te import polymorphic as te
from ..te.indices import clipped_index, index_from_end, signed_index, wrapped_index
from ..te.shape import same_extent, scalar_dtype
from ..te.tensor import Tensor, tensor_text
from .checks import BadOperand, BadParameter, check_shape, integers, normalize_axis, tensor
from .order import topk
from .row import floating, operator, sample
from .row import integers as whole
from .signatures import Scalar
from .transform import injective, unravel_index

__all__ = ["gather", "gather_nd", "one_hot", "take"]


def take(a: Tensor, indices: Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "clip") -> Tensor:
    """The elements (slices) of a tensor at indices along an axis, or of the flattened tensor.

    Parameters
    ----------
    a : Tensor
        Of any shape.
    indices : Tensor
        Integers of any shape.
    axis : int or None, default None
        Negative ones count from the end; None flattens the tensor.
    batch_dims : int, default 0
        How many of the first dimensions of both are the same, and are looked up in each other.
    mode : str, default "clip"
        Of indices outside: "clip" takes the nearest end, "wrap" counts modulo the extent; "fast" takes them to be
        inside, which the caller answers for.

    Returns
    -------
    Tensor
        The shape of a, with the dimensions of indices in place of the axis.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source, index = tensor(a, "take"), _integer_indices(indices, "take")
    if mode not in ("clip", "wrap", "fast"):
        raise BadParameter(
            f"take has no mode {mode!r}", called=user_source(), allowed='"clip", "wrap" and "fast"', fix='mode="clip"'
        )
    if axis is None:
        # of an unknown shape the product is an expression
        size = ops.convert(math.prod(source.shape)) if source.ndim else ops.const(1, "int32")
        return injective(
            index.shape, lambda *i: source[unravel_index(_place(index[i], size, mode), source.shape)], "T_take"
        )
    at = normalize_axis(source, axis, "take")
    (batch,) = integers(batch_dims, "batch_dims of take")
    # batches are looked up in each other, so their extents have to be equal
    if not 0 <= batch <= min(at, index.ndim) or not all(map(same_extent, source.shape[:batch], index.shape[:batch])):
        raise BadParameter(
            f"take: {batch_dims} first dimensions are not the same",
            called=user_source(),
            reason=f"got {tensor_text(source)} and {tensor_text(index)}",
            fix="batch_dims counts dimensions before the axis that both have",
        )
    after = at + index.ndim - batch
    shape = [*source.shape[:at], *index.shape[batch:], *source.shape[at + 1 :]]
    return injective(
        shape,
        lambda *i: source[(*i[:at], _place(index[(*i[:batch], *i[at:after])], source.shape[at], mode), *i[after:])],
        "T_take",
    )


def _place(index: Expr, extent: Expr, mode: str) -> Any:
    if mode == "fast":
        return signed_index(index)  # "fast": the caller answers for indices inside
    return wrapped_index(index, extent) if mode == "wrap" else clipped_index(index, extent)


def _integer_indices(indices: Any, subject: str) -> Tensor:
    index = tensor(indices, subject)
    if not index.dtype.is_integer:
        raise BadOperand(
            f"{subject} takes integer indices",
            reason=f"got {tensor_text(index)}",
            declared=index.source,
            called=user_source(),
            fix='topi.cast(indices, "int32")',
        )
    return index


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """result[i, j, k] = data[i, indices[i, j, k], k] for axis 1, and so on. Indices have to be inside.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int
        Along which elements are looked up.
    indices : Tensor
        Integers of as many dimensions, in the others no longer than data.

    Returns
    -------
    Tensor
        The shape of indices, the dtype of data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    source = tensor(data, "gather")
    index = _integer_indices(tensor(indices, "gather", source.ndim), "gather")
    at = normalize_axis(source, axis, "gather")
    return injective(
        index.shape, lambda *i: source[(*i[:at], _place(index[i], source.shape[at], "fast"), *i[at + 1 :])], "T_gather"
    )


def gather_nd(a: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """result[i..., j...] = a[indices[0, i...], indices[1, i...], ..., j...]. Indices have to be inside.

    Parameters
    ----------
    a : Tensor
        Of any shape.
    indices : Tensor
        Integers, (m, ...): the first dimension, of a known extent, holds the coordinates.
    batch_dims : int, default 0
        How many of the first dimensions of `a` are those that `indices` has after its first, and are not looked up.

    Returns
    -------
    Tensor
        The dimensions of indices after the first, then those of a that are not looked up.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source, index = tensor(a, "gather_nd"), _integer_indices(indices, "gather_nd")
    count = index.shape[0] if index.ndim else None
    (batch,) = integers(batch_dims, "batch_dims of gather_nd")
    if not isinstance(count, IntImm) or not 0 <= batch < index.ndim or count.value + batch > source.ndim:
        raise BadOperand(
            "gather_nd: the first dimension of the indices is not a number of coordinates",
            reason=f"got {tensor_text(source)} and {tensor_text(index)}",
            declared=index.source,
            called=user_source(),
            fix=f"indices of shape (m, ...), m at most {source.ndim}",
        )
    rank = index.ndim - 1
    within = source.shape[batch : batch + count.value]  # the dimensions that coordinates index
    return injective(
        [*index.shape[1:], *source.shape[batch + count.value :]],
        lambda *i: source[
            (
                *i[:batch],
                *(_place(index[(at, *i[:rank])], extent, "fast") for at, extent in enumerate(within)),
                *i[rank:],
            )
        ],
        "T_gather_nd",
    )


def one_hot(indices: Tensor, on_value: Scalar, off_value: Scalar, depth: int, axis: int, dtype: object) -> Tensor:
    """on_value where the index along a new dimension is the element of `indices`, else off_value.

    Parameters
    ----------
    indices : Tensor
        Integers of any shape.
    on_value : number or expression
        At the index.
    off_value : number or expression
        Elsewhere.
    depth : int
        The extent of the new dimension.
    axis : int
        Where it stands; -1 for the last.
    dtype : dtype
        Of the result.

    Returns
    -------
    Tensor
        The shape of indices, with the new dimension.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    index = _integer_indices(indices, "one_hot")
    at = normalize_axis(index, axis, "one_hot", 1)
    kind = scalar_dtype(dtype)
    on, off = (ops.cast(ops.convert(value), kind) for value in (on_value, off_value))
    shape = check_shape([*index.shape[:at], depth, *index.shape[at:]], "one_hot")
    return injective(
        shape, lambda *i: te.select(ops.equal(index[(*i[:at], *i[at + 1 :])], i[at]), on, off), "T_one_hot"
    )


# Nodes of graphs


def _place_from_end(index: Any, extent: Any) -> Any:
    """An index from the end as one from the beginning, inside whatever it is: what is outside takes the nearest end."""
    # outside of memory nothing may be read, whatever the data
    return clipped_index(index_from_end(index, extent), extent)


def _refuse_nothing(x: Any, axes: Any, indices: Any) -> None:
    """Refuse lookups in nothing, by a ValueError."""
    # an empty lookup in nothing is fine
    if any(is_const(x.shape[at], 0) for at in axes) and not any(is_const(extent, 0) for extent in indices.shape):
        raise ValueError("a place is looked up where there are none")


def _index(indices: NDArray[Any], extent: int) -> Any:
    wide = indices.astype(np.int64)
    return np.clip(np.where(wide < 0, wide + extent, wide), 0, extent - 1)


def _numpy_take(x: NDArray[Any], indices: NDArray[Any], *, axis: int) -> Any:
    return np.take(x, _index(indices, x.shape[axis]), axis)


@operator(
    "take",
    reference=_numpy_take,
    fusion="injective",
    samples=[sample(floating(5, 3), whole(2, 4), axis=0), sample(floating(5, 3), np.asarray(-1, "int64"), axis=1)],
)
def _take(x: Any, indices: Any, *, axis: int = 0) -> Any:
    """The slices of x at indices along an axis, whose dimensions stand in its place."""
    at = axis % x.ndim  # negative axes, as ONNX has them
    after = at + indices.ndim
    _refuse_nothing(x, [at], indices)
    return injective(
        (*x.shape[:at], *indices.shape, *x.shape[at + 1 :]),
        lambda *i: x[(*i[:at], _place_from_end(indices[i[at:after]], x.shape[at]), *i[after:])],
        "take",
    )


def _numpy_gather(x: Any, indices: Any, *, axis: int) -> Any:
    whole: list[Any] = [*np.indices(indices.shape, sparse=True)]
    whole[axis] = _index(indices, x.shape[axis])
    return x[tuple(whole)]


@operator("gather", reference=_numpy_gather, fusion="injective", samples=[sample(floating(4, 3), whole(2, 3), axis=0)])
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
    return injective(
        indices.shape, lambda *i: x[(*i[:at], _place_from_end(indices[i], x.shape[at]), *i[at + 1 :])], "gather"
    )


def _numpy_gather_nd(x: Any, indices: Any, *, batch_dims: int) -> Any:
    result = np.empty((*indices.shape[:-1], *x.shape[batch_dims + indices.shape[-1] :]), x.dtype)
    for place in np.ndindex(indices.shape[:-1]):
        coordinates = [
            int(_index(index, extent)) for index, extent in zip(indices[place], x.shape[batch_dims:], strict=False)
        ]
        result[place] = x[(*place[:batch_dims], *coordinates)]
    return result


@operator(
    "gather_nd",
    reference=_numpy_gather_nd,
    fusion="injective",
    samples=[sample(floating(4, 3, 5), whole(7, 2)), sample(floating(2, 3, 4), whole(2, 5, 1), batch_dims=1)],
)
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
                *(_place_from_end(indices[(*i[:rank], at)], extent) for at, extent in enumerate(looked_up)),
                *i[rank:],
            )
        ],
        "gather_nd",
    )


def _numpy_one_hot(indices: NDArray[Any], values: NDArray[Any], *, depth: int, axis: int) -> Any:
    whole = np.expand_dims(indices.astype(np.int64), axis)
    place = np.where(whole < 0, whole + depth, whole)
    numbers = np.arange(depth).reshape([-1 if at == axis % place.ndim else 1 for at in range(place.ndim)])
    return values[(place == numbers).astype(np.int64)]  # the index counts from the end where it is negative


@operator(
    "one_hot",
    reference=_numpy_one_hot,
    fusion="injective",
    samples=[sample(whole(2, 3), np.asarray([0.5, 2.0], "float32"), depth=3, axis=1)],
)
def _one_hot(indices: Any, values: Any, *, depth: int, axis: int = -1) -> Any:
    """values[1] where the index along a new dimension is the element of `indices`, else values[0]."""
    at = axis % (indices.ndim + 1)

    def element(*i: Any) -> Any:
        index = indices[(*i[:at], *i[at + 1 :])]
        return te.select(ops.equal(index_from_end(index, depth), i[at]), values[1], values[0])

    return injective((*indices.shape[:at], depth, *indices.shape[at:]), element, "one_hot")


def _numpy_topk(x: Any, *, k: int, axis: int, largest: bool) -> Any:
    keys = x if x.dtype.kind in "iu" else x.astype(np.float64)
    count = x.shape[axis]
    if largest:  # what ascends, from its end: NaN is the greatest
        # argsort ascends: from the end, and stable from there
        order = count - 1 - np.flip(np.argsort(np.flip(keys, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(keys, axis, kind="stable")
    places = np.take(order, np.arange(count if k < 0 else k), axis)
    return np.take_along_axis(x, places, axis), places


@operator(
    "topk",
    reference=_numpy_topk,
    samples=[sample(floating(3, 7), k=3, axis=1), sample(floating(5, 3), k=2, axis=0, largest=False)],
)
def _topk(x: Any, *, k: int, axis: int = -1, largest: bool = True) -> Any:
    """The k greatest (or least) elements along an axis, all of them for a k below 0, in order, and their places; of equal ones the
    first."""
    if k == 0:
        raise ValueError("k is 0")
    values, places = topk(x, k, axis, "both", not largest, "int64")
    return [values, places]
