"""Tensors as lists of what is not zero: places (n, rank), and values (n,)."""

from __future__ import annotations

import math
from typing import Any

from ..base.errors import user_source
from ..ir.expr import IntImm
from ..te import hybrid
from ..te import polymorphic as te
from ..te.hybrid.runtime import output_tensor
from ..te.indices import signed_index
from ..te.shape import Shape
from ..te.tensor import Tensor, tensor_text
from .checks import BadOperand, BadParameter, check_shape, tensor
from .filling import full
from .order import scatter_nd
from .signatures import Scalar
from .transform import injective, reshape, transpose

__all__ = ["argwhere", "sparse_reshape", "sparse_to_dense"]


def argwhere(output_shape: Shape | Tensor, condition: Tensor) -> Tensor:
    """The places of what is not zero, in order, int32 (n, rank): so many as output_shape says, a shape or a tensor that has it.
    Rows that nothing is left for are zeros, and what does not fit is not told. Raises BadOperand (TW0181)."""
    source = tensor(condition, "argwhere")
    if not source.ndim:
        raise BadOperand(
            f"argwhere of {tensor_text(source)}",
            reason="it has no dimensions",
            declared=source.source,
            called=user_source(),
            fix="topi.expand_dims(x, 0)",
        )
    rows = output_shape.shape if isinstance(output_shape, Tensor) else check_shape(output_shape, "argwhere")
    if not rows:
        raise BadParameter(
            "argwhere takes a number of rows",
            reason=f"got {output_shape!r}"[:200],
            called=user_source(),
            fix="output_shape=(n, rank), for at most n places",
        )
    count = rows[0]
    # one dimension, in row-major order, which is the order of numpy's argwhere
    flat = reshape(source, (math.prod(source.shape),))
    found: Any = _nonzero_positions(
        # ~equal rather than != 0, so that NaN counts
        injective(flat.shape, lambda *i: ~flat[i].equal(te.const(0, flat.dtype)), "met"),
        count,
    )
    # of each dimension, how many elements one step of it skips
    strides = [math.prod(source.shape[dim + 1 :]) for dim in range(source.ndim)]

    def coordinate(row: Any, dim: Any) -> Any:
        value: Any = te.const(0, "int32")
        for at in reversed(range(source.ndim)):
            own = te.indexmod(te.indexdiv(found[row], strides[at]), source.shape[at]).astype("int32")
            value = te.select(dim.equal(at), own, value)
        return value

    return injective((count, source.ndim), coordinate, "argwhere")


@hybrid.script
def _nonzero_positions(met: Any, count: Any) -> Any:
    places = output_tensor((count,), "int32")
    for i in range(count):
        places[i] = 0
    number = 0
    for i in range(met.shape[0]):
        if met[i] and number < count:
            places[number] = i
            number = number + 1
    return places


def sparse_to_dense(
    sparse_indices: Tensor, output_shape: Shape, sparse_values: Tensor, default_value: Scalar | Tensor = 0
) -> Tensor:
    """The tensor with values at the given places, and a default elsewhere.

    Parameters
    ----------
    sparse_indices : Tensor
        Integers, (n, rank), (n,) where the rank is 1, or () for one place.
    output_shape : shape
        Of the result.
    sparse_values : Tensor
        (n,), or () for all.
    default_value : number or Tensor, default 0
        A number, or a tensor of rank 0.

    Returns
    -------
    Tensor
        output_shape, in the dtype of the values.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    index, values = tensor(sparse_indices, "sparse_to_dense"), tensor(sparse_values, "sparse_to_dense")
    shape = check_shape(output_shape, "sparse_to_dense")
    if index.ndim > 2 or (index.ndim < 2 and len(shape) != 1):
        raise BadOperand(
            f"sparse_to_dense: {tensor_text(index)} are not places",
            declared=index.source,
            called=user_source(),
            reason=f"the result has {len(shape)} dimensions",
            fix="indices (n, rank)",
        )
    places = transpose(index) if index.ndim == 2 else reshape(index, (1, index.shape[0] if index.ndim else 1))
    many = values if values.ndim else injective((places.shape[1],), lambda *_: values(), "values")
    if isinstance(default_value, Tensor):
        ground = injective(shape, lambda *_: default_value(), "default_value")
    else:
        ground = full(shape, values.dtype, default_value)
    return scatter_nd(ground, places, many)


def sparse_reshape(
    sparse_indices: Tensor,
    prev_shape: Tensor,
    new_shape: Tensor,
    new_sparse_indices_shape: Shape | None = None,
    new_shape_shape: Shape | None = None,
) -> list[Tensor]:
    """The places of a tensor as those in another shape.

    Parameters
    ----------
    sparse_indices : Tensor
        Integers, (n, rank).
    prev_shape : Tensor
        Integers, (rank,).
    new_shape : Tensor
        Integers, (new rank,), of which one may be -1.
    new_sparse_indices_shape : shape, default None
        As TVM's callers pass it.
    new_shape_shape : shape, default None
        As TVM's callers pass it.

    Returns
    -------
    list of Tensor
        The places, (n, new rank), and the shape, (new rank,).

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    del new_sparse_indices_shape, new_shape_shape  # TVM passes the shapes of the results, which are known here
    index, before, after = (
        tensor(sparse_indices, "sparse_reshape", 2),
        tensor(prev_shape, "sparse_reshape", 1),
        tensor(new_shape, "sparse_reshape", 1),
    )
    # ranks shape the program; extents may be data
    ranks = [each.shape[0].value for each in (before, after) if isinstance(each.shape[0], IntImm)]
    if len(ranks) != 2:
        raise BadOperand(
            f"sparse_reshape from {tensor_text(before)} to {tensor_text(after)}",
            declared=after.source,
            called=user_source(),
            reason="the number of dimensions is part of the program",
            fix="shapes of so many elements",
        )
    old, new = ranks

    def wide(value: Any) -> Any:
        return signed_index(value).astype("int64")

    def known(j: Any) -> Any:
        rest: Any = te.const(1, "int64")
        for dim in range(new):
            # an extent of -1 is left out of the product
            rest = rest * te.select(wide(after[dim]) < 0, te.const(1, "int64"), wide(after[dim]))
        every: Any = te.const(1, "int64")
        for dim in range(old):
            every = every * wide(before[dim])
        # truncation, as nothing here is negative
        return te.select(wide(after[j]) < 0, te.truncdiv(every, rest), wide(after[j])).astype(after.dtype)

    shape = te.compute((new,), known, name="new_shape")

    def place(row: Any, dim: Any) -> Any:
        flat: Any = te.const(0, "int64")
        for at in range(old):
            flat = flat * wide(before[at]) + wide(index[row, at])
        value: Any = te.const(0, "int64")
        for at in reversed(range(new)):
            own = te.truncmod(flat, wide(shape[at])) if at else flat  # the first coordinate is what is left
            flat = te.truncdiv(flat, wide(shape[at]))
            value = te.select(dim.equal(at), own, value)
        return value.astype(index.dtype)

    return [te.compute((index.shape[0], new), place, name="new_places"), shape]
