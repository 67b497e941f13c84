"""The place of the greatest or least element of long rows, in two steps.

    best[i, b] = max over k < 256 of x[i, b * 256 + k]         # all of x, at the rate of memory: one operation an element
    block[i] = argmax over b of best[i, b]
    y[i] = argmax over k < 256 of x[i, block[i] * 256 + k]     # one block of each row

A reduction over pairs of an index and a value takes some ten operations an element, and would be slower than memory. Of equal
elements the first is that of the first block, and of NaN likewise, so that both steps follow the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..ir import DType, IntImm, ops
from ..te.tag import AlgorithmTag
from ..te.tensor import Tensor

BLOCK = 256
LONG = 8
"""Blocks from which on a row is taken in blocks."""
TAG = AlgorithmTag("arg_blocks")


def are_long(data: Tensor, axes: Sequence[int]) -> bool:
    """Return whether these axes are the last one alone, and it has several blocks."""
    extent = data.shape[-1] if data.ndim else None
    return (
        list(axes) == [data.ndim - 1]
        and not data.dtype.is_bool
        and isinstance(extent, IntImm)
        and extent.value >= LONG * BLOCK
    )


def place_by_blocks(
    data: Tensor,
    extremum: Callable[..., Any],
    reducer: Callable[..., Any],
    index_dtype: DType,
    keepdims: bool,
    name: str,
) -> Tensor:
    """The place along the last axis. extremum: te.max or te.min; reducer: that of pairs of an index and a value."""
    extent = data.shape[-1]
    assert isinstance(extent, IntImm)
    count, rows = extent.value, tuple(data.shape[:-1])
    blocks = -(-count // BLOCK)  # the last block may be short

    def inside(place: Any) -> dict[str, Any]:
        # where every block is full no condition is needed
        return {} if count % BLOCK == 0 else {"where": place < count}

    k = te.reduce_axis((0, BLOCK), name="k")
    best = te.compute(
        (*rows, blocks),
        lambda *i: extremum(data[(*i[:-1], i[-1] * BLOCK + k)], axis=k, **inside(i[-1] * BLOCK + k)),
        name=f"{name}.best",
        tag=TAG.part("best"),
    )
    b = te.reduce_axis((0, blocks), name="b")
    block, _ = te.compute(
        rows,
        # one pair for each block: little beside the pass before
        lambda *i: reducer((ops.cast(b, index_dtype), best[(*i, b)]), axis=b),
        name=f"{name}.block",
        tag=TAG.part("block"),
    )
    j = te.reduce_axis((0, BLOCK), name="j")

    def element(*i: Any) -> Any:
        # block[i] is data, so that LLVM cannot know the products to fit 32 bits
        place = ops.cast(block[i], "int64") * BLOCK + ops.cast(
            j, "int64"
        )  # in 64 bits neighbours surely are neighbours
        return reducer((ops.cast(place, index_dtype), data[(*i, place)]), axis=j, **inside(place))

    place, _ = te.compute(rows, element, name=f"{name}.place", tag=TAG.part("place"))
    index: Tensor = te.compute(
        (*rows, 1) if keepdims else rows, lambda *i: place[i[:-1] if keepdims else i], name=name, tag=TAG
    )
    return index
