"""Elements each once, and places in sorted rows: by hybrid scripts over what order.py sorts."""

from __future__ import annotations

import math
from typing import Any

from ..base.errors import user_source
from ..ir import DType, ops
from ..te import hybrid
from ..te import polymorphic as te
from ..te.hybrid.runtime import allocate, output_tensor
from ..te.indices import signed_index
from ..te.shape import same_extent, scalar_dtype
from ..te.tensor import Tensor, tensor_text
from .checks import BadOperand, tensor
from .order import argsort, order_key
from .transform import injective, reshape

__all__ = ["searchsorted", "unique"]


def unique(data: Tensor, is_sorted: bool = True, return_counts: bool = False) -> list[Tensor]:
    """The elements of a vector each once.

    All results have n elements, of which only the first `number` mean something; behind them values are data[0],
    indices and counts 0.

    Parameters
    ----------
    data : Tensor
        (n,).
    is_sorted : bool, default True
        Whether values ascend, NaNs as one at the end, or stand in the order in which they are first met.
    return_counts : bool, default False
        Whether counts are asked for.

    Returns
    -------
    list of Tensor
        The values; int32 the places where each is first met; the place among them of each element of data; their
        number, (1,); and, where asked for, how often each is met.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(data, "unique", 1)
    key = order_key(source.dtype, True)

    def ranked(i: Any) -> Any:
        return key(source[i])

    keys = injective(source.shape, ranked, "keys")
    first, inverse, counts, number = _groups(keys, argsort(source, dtype="int32"))
    if not is_sorted:
        first, inverse, counts = _order_by_appearance(first, inverse, counts, number)

    def value(i: Any) -> Any:
        return source[te.max(te.min(first[i], source.shape[0] - 1), 0)]

    values = injective(source.shape, value, "unique")
    return [values, first, inverse, number, *([counts] if return_counts else [])]


@hybrid.script
def _groups(keys: Any, order: Any) -> Any:
    """The groups of equal keys, in order: the first place, the number of the group by place, how many there are, and how many groups."""
    first = output_tensor(keys.shape, "int32")
    inverse = output_tensor(keys.shape, "int32")
    counts = output_tensor(keys.shape, "int32")
    number = output_tensor((1,), "int32")
    group = 0
    for i in range(keys.shape[0]):
        place = order[i]
        if i > 0 and keys[place] != keys[order[max(i, 1) - 1]]:
            group = group + 1
        if counts[group] == 0:
            first[group] = place
        counts[group] = counts[group] + 1
        inverse[place] = group
    number[0] = 0
    if keys.shape[0] > 0:
        number[0] = group + 1
    return first, inverse, counts, number


@hybrid.script
def _order_by_appearance(first: Any, inverse: Any, counts: Any, number: Any) -> Any:
    """The groups in the order of their first places."""
    firsts = output_tensor(first.shape, "int32")
    inverses = output_tensor(first.shape, "int32")
    sizes = output_tensor(first.shape, "int32")
    begins = allocate(first.shape, "int32")
    place = allocate(first.shape, "int32")
    for i in range(number[0]):
        begins[first[i]] = i + 1
    group = 0
    for i in range(first.shape[0]):
        if begins[i] > 0:
            firsts[group] = i
            sizes[group] = counts[begins[i] - 1]
            place[begins[i] - 1] = group
            group = group + 1
    for i in range(first.shape[0]):
        inverses[i] = place[inverse[i]]
    return firsts, inverses, sizes


def searchsorted(sorted_sequence: Tensor, values: Tensor, right: bool = False, out_dtype: object = "int64") -> Tensor:
    """The positions at which to insert values into ascending rows so that these stay in order. NaNs stand behind all
    numbers, as sort puts them.

    Parameters
    ----------
    sorted_sequence : Tensor
        (..., n), or (n,) beside values of any shape.
    values : Tensor
        (..., m).
    right : bool, default False
        Whether values go behind elements that are equal, or before them.
    out_dtype : dtype, default "int64"
        Of the result.

    Returns
    -------
    Tensor
        The shape of values.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source, given = tensor(sorted_sequence, "searchsorted"), tensor(values, "the values of searchsorted")
    alone = source.ndim == 1
    if not source.ndim or (
        not alone and (source.ndim != given.ndim or not all(map(same_extent, source.shape[:-1], given.shape[:-1])))
    ):
        raise BadOperand(
            f"searchsorted: {tensor_text(given)} are not values for rows of {tensor_text(source)}",
            declared=given.source,
            called=user_source(),
            fix="a row for each row of values, or one for all",
        )
    rows: Any = 1 if alone else math.prod(source.shape[:-1])
    count: Any = math.prod(given.shape) if alone else given.shape[-1]
    keys, wanted = (_ordering_keys(each, source.dtype, given.dtype) for each in (source, given))
    size = ops.integer_value(source.shape[-1])
    places: Any = _search_rows(
        reshape(keys, (rows, source.shape[-1])),
        reshape(wanted, (rows, count)),
        1 if right else 0,
        31 if size is None else max(size.bit_length(), 1),  # digits of an int32
    )
    kind = scalar_dtype(out_dtype)
    flat = (
        places
        if str(places.dtype) == str(kind)
        else injective(places.shape, lambda *i: places[i].astype(kind), "searchsorted")
    )
    return reshape(flat, given.shape)


def _ordering_keys(data: Tensor, own: DType, other: DType) -> Tensor:
    """Elements as what `<` orders them by, beside those of another dtype: floats by their keys, NaNs last, and integers of which
    one is signed as signed ones."""
    dtype = ops.common_dtype(own, other)
    if dtype.is_float:
        key = order_key(dtype, True)
        return injective(data.shape, lambda *i: key(data[i].astype(dtype)), "keys")
    if own.is_signed == other.is_signed:
        return data
    return injective(data.shape, lambda *i: signed_index(data[i]).astype("int64"), "keys")


@hybrid.script
def _search_rows(rows: Any, values: Any, right: int, steps: int) -> Any:
    """Binary search without branches (Khuong and Morin, Array Layouts for Comparison-Based Searching, 2017): how many elements of a row
    stand before a value, digit by digit, so that values are lanes."""
    places = output_tensor(values.shape, "int32")
    for r in range(values.shape[0]):
        for i in range(values.shape[1]):
            low = 0
            for digit in range(steps):
                at = low + (1 << (steps - 1 - digit))
                low = (
                    at
                    if at <= rows.shape[1]
                    and (rows[r, at - 1] <= values[r, i] if right == 1 else rows[r, at - 1] < values[r, i])
                    else low
                )
            places[r, i] = low
    return places
