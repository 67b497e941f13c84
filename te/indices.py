"""Indices that are data, as operators mean them: counted from the end, clipped, wrapped, or left out where they lie outside.

An index is widened before it meets an extent: the extent of 200 elements is no int8, and int8(-1) + int8(200) is -57. All of
these take an index of any integer dtype and an extent of int32 or int64, a number or a symbol.
"""

from __future__ import annotations

from typing import Any

from ..ir import Expr, ops
from ..ir.dtype import INT64

__all__ = ["clipped_index", "index_from_end", "is_in_range", "signed_index", "wrapped_index"]


def signed_index(index: Expr) -> Expr:
    """An index in a signed dtype of 32 bits or more that holds its values; an uint64 beyond int64 becomes the greatest int64,
    which lies behind every extent as well."""
    dtype = index.dtype
    if dtype.is_signed and dtype.bits >= 32:
        return index
    if dtype.bits == 64:
        index = ops.minimum(index, ops.const(INT64.greatest, dtype))
    return ops.cast(index, INT64)


def index_from_end(index: Expr, extent: Any) -> Expr:
    """An index as one from the beginning: negative ones count from the end."""
    wide = signed_index(index)
    return ops.select(wide < 0, wide + ops.convert(extent), wide) if index.dtype.is_signed else wide


def clipped_index(index: Expr, extent: Any) -> Expr:
    """The index that is inside nearest to `index`. There has to be one: the extent is 1 or more."""
    return ops.maximum(ops.minimum(signed_index(index), ops.convert(extent) - 1), 0)


def wrapped_index(index: Expr, extent: Any) -> Expr:
    """The index modulo the extent, which is 1 or more."""
    if index.dtype.is_signed or index.dtype.bits < 64:
        return ops.floormod(signed_index(index), ops.convert(extent))
    return ops.cast(ops.floormod(index, ops.cast(ops.convert(extent), index.dtype)), INT64)


def is_in_range(index: Expr, extent: Any) -> Expr:
    """The condition that an index lies inside."""
    wide = signed_index(index)
    return ops.logical_and(wide >= 0, wide < ops.convert(extent))
