"""Softmax and its logarithm along one axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.expr import Expr, IntImm
from ...te import polymorphic as te
from ...te.operation import ZERO_GRADIENT
from ...te.tag import AlgorithmTag
from ...te.tensor import Tensor
from ..row import floating, operator, sample
from .rowwise import Rows

__all__ = ["log_softmax", "softmax"]

LONG = 1 << 17
"""Elements from which on a contiguous row is taken in blocks: a row and its exponentials no longer fit into an L2 cache."""
BLOCK = 4096
"""Elements of a block: with their exponentials they stay in the L1 cache."""
_SHIFT = {ZERO_GRADIENT: True}
"""Of a maximum that is taken away from all elements: the result would be the same with any other number."""


def numpy_softmax(x: NDArray[Any], *, axis: int) -> Any:
    """Softmax in float64, the reference."""
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):  # a row of -inf alone gives NaN
        powers = np.exp(wide - wide.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


@operator("softmax", reference=numpy_softmax, samples=[sample(floating(3, 7), axis=-1)])
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """e^(x - max) / sum of e^(x - max) along an axis; the shape and, if it is one of floats, the type of x.

    float16, bfloat16 and integers are computed in float32; integers give float32. In float32 the relative error of an
    element is at most (n / 64 + |x - max| + 16) * 2^-24 plus the smallest normal number, for rows of n: e^d loses |d|
    units where d = x - max is rounded, and sums are taken in 16 or more parts; along another axis than the last they are
    taken in one, and n stands for n / 64. A row with a NaN or with +infinity is NaN, and
    so is one of -infinity alone. Contiguous rows of LONG elements or more are read twice, not three times: each block has
    a maximum and a sum of its own, which are rescaled and added up (M. Milakov and N. Gimelshein, 2018, "Online normalizer
    calculation for softmax", in blocks). Raises BadAxis (TW0180).
    """
    rows = Rows("softmax", x, [axis])
    if _is_long(rows):
        greatest, total = _reduce_blocks(rows)
        # a division for each row, and a product for each element
        scale = rows.declare_row("scale", lambda row: te.const(1, rows.wide) / total[row])
        return rows.result(lambda i: te.exp(rows.value(i) - greatest[rows.row_of(i)]) * scale[rows.row_of(i)])
    greatest = rows.reduce("max", _maximum(rows), rows.value, _SHIFT)
    power = te.compute(
        x.shape, lambda *i: te.exp(rows.value(i) - greatest[rows.row_of(i)]), name="softmax.exp", tag="softmax.exp"
    )
    total = rows.reduce("sum", te.sum, lambda i: power[i])  # NaN passes the maximum and comes back here
    scale = rows.declare_row("scale", lambda row: te.const(1, rows.wide) / total[row])
    return rows.result(lambda i: power[i] * scale[rows.row_of(i)])


def _numpy_log_softmax(x: NDArray[Any], *, axis: int) -> Any:
    wide = x.astype(np.float64)
    far = wide - wide.max(axis, keepdims=True, initial=-np.inf)
    return far - np.log(np.exp(far).sum(axis, keepdims=True))


@operator("log_softmax", reference=_numpy_log_softmax, samples=[sample(floating(3, 7, 2), axis=1)])
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """x - max - log(sum of e^(x - max)) along an axis; the shape and, if it is one of floats, the type of x.

    Types and special values as for softmax. In float32 the absolute error is at most
    (n / 64 + |x - max| + log(n) + 16) * 2^-24 for rows of n, with n for n / 64 as there. Raises BadAxis (TW0180).
    """
    rows = Rows("log_softmax", x, [axis])
    if _is_long(rows):
        greatest, total = _reduce_blocks(rows)
    else:
        greatest = rows.reduce("max", _maximum(rows), rows.value, _SHIFT)
        total = rows.reduce("sum", te.sum, lambda i: te.exp(rows.value(i) - greatest[rows.row_of(i)]))
    logarithm = rows.declare_row("log", lambda row: te.log(total[row]))
    return rows.result(lambda i: (rows.value(i) - greatest[rows.row_of(i)]) - logarithm[rows.row_of(i)])


def _maximum(rows: Rows) -> Any:
    """The largest number, at least the least finite one. NaN is passed over: it comes back by the sum. One instruction a
    vector where te.max, which keeps NaN, takes three."""
    return te.comm_reducer(lambda a, b: te.select(b > a, b, a), lambda _: te.min_value(rows.wide), name="largest")


def _is_long(rows: Rows) -> bool:
    extent = rows.x.shape[-1] if rows.x.ndim else None  # only contiguous rows are read in blocks
    return rows.axes == (rows.x.ndim - 1,) and isinstance(extent, IntImm) and extent.value >= LONG


def _reduce_blocks(rows: Rows) -> tuple[Tensor, Tensor]:
    """The maximum of each row, and the sum of the exponentials, by blocks."""
    rows.tag = AlgorithmTag(f"{rows.name}_blocks")
    x, count = rows.x, rows.count
    assert isinstance(count, IntImm)
    blocks = -(-count.value // BLOCK)
    outer = x.shape[:-1]

    def over_block(
        part: str,
        reduce: Any,
        element: Callable[[Sequence[Any], Expr], Expr],
        attrs: Mapping[str, Any] | None = None,
    ) -> Tensor:
        k = te.reduce_axis((0, BLOCK), name="k")
        reduction: Tensor = te.compute(
            (*outer, blocks),
            lambda *i: reduce(
                element(i, rows.value((*i[:-1], i[-1] * BLOCK + k))),
                axis=k,
                where=None if count.value % BLOCK == 0 else i[-1] * BLOCK + k < count,
            ),  # the last block may be short
            name=f"{rows.name}.{part}",
            tag=rows.tag.part(part),
            attrs=attrs,
        )
        return reduction

    def over_blocks(
        part: str,
        reduce: Any,
        element: Callable[[Sequence[Any], Expr], Expr],
        attrs: Mapping[str, Any] | None = None,
    ) -> Tensor:
        b = te.reduce_axis((0, blocks), name="b")
        reduction: Tensor = te.compute(
            outer,
            lambda *row: reduce(element(row, b), axis=b),
            name=f"{rows.name}.{part}",
            tag=rows.tag.part(part),
            attrs=attrs,
        )
        return reduction

    def relative(value: Expr, to: Expr) -> Expr:
        return te.exp(value - to)

    block_max = over_block("block_max", _maximum(rows), lambda _, value: value, _SHIFT)
    block_sum = over_block("block_sum", te.sum, lambda i, value: relative(value, block_max[i]))
    maxima, sums = te.compute(  # both of a block in one operation, which reads it once
        block_max.shape,
        lambda *i: (block_max[i], block_sum[i]),
        name=f"{rows.name}.block",
        tag=rows.tag.part("block"),
        attrs={"block": BLOCK},
    )
    greatest = over_blocks("max", _maximum(rows), lambda row, b: maxima[(*row, b)], _SHIFT)
    # each block's sum is brought to the maximum of the row
    total = over_blocks("sum", te.sum, lambda row, b: sums[(*row, b)] * relative(maxima[(*row, b)], greatest[row]))
    return greatest, total
