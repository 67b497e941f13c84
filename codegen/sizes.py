"""Sizes of memory that may not fit 64 bits."""

from __future__ import annotations

from ..base.limits import INT32_EXTENT_LIMIT
from ..ir import Add, Buffer, Cast, Expr, FloatImm, IntImm, Mul, Sub
from ..ir.analysis.bounds import IntervalEvaluator
from ..ir.arith.interval import EVERYTHING, Interval
from ..ir.dtype import FLOAT64, INT32, INT64
from ..ir.ops import binary, cast

__all__ = ["exceeds_memory"]


def exceeds_memory(buffer: Buffer) -> Expr | None:
    """The condition under which a buffer has more bytes than any memory, by arithmetic that does not overflow; None where its
    extents say that it has not."""
    size: Expr = IntImm(buffer.dtype.bytes, INT64)
    for extent in buffer.shape:
        size = Mul(size, cast(extent, INT64))
    greatest = IntervalEvaluator(lambda var: Interval(0, INT32_EXTENT_LIMIT - 1) if var.dtype == INT32 else EVERYTHING)(
        size
    ).hi
    if isinstance(size, IntImm) or greatest is not None and greatest <= INT64.greatest:
        return None
    return _convert_to_float(size) >= FloatImm(float(1 << 62), FLOAT64)


def _convert_to_float(value: Expr) -> Expr:
    """A size in floating point, within a few roundings."""
    if isinstance(value, (Add, Sub, Mul)):
        return binary(type(value), _convert_to_float(value.a), _convert_to_float(value.b))
    if isinstance(value, Cast):
        return _convert_to_float(value.value)
    return cast(value, FLOAT64)
