"""The greatest element of each window, and where it lies."""

from __future__ import annotations

import math
from typing import Any

from ...te import either as te
from ...te.tensor import Tensor
from ..checks import tensor
from ..reduction import arg_reducer
from ..transform import flat_index
from .window import each_side, expand_numbers, window_count

__all__ = ["max_pool_with_places"]


def max_pool_with_places(data: Tensor, kernel: Any, stride: Any, dilation: Any = 1, padding: Any = 0) -> list[Tensor]:
    """The greatest element of each window over the dimensions behind the first two, (N, C, windows ...), and its place in the
    image, in row-major order, as int64: the first of several. Padding is never the greatest. A NaN is the greatest.

    kernel, stride, dilation: a number, or one for each dimension. padding: a number, one for each dimension, or those before and
    those after. Raises BadWindow (TW0190).
    """
    source = tensor(data, "max_pool_with_places")
    rank, size = source.ndim - 2, source.shape[2:]
    taps, steps, far = (
        expand_numbers(value, rank, what)
        for value, what in ((kernel, "kernel"), (stride, "stride"), (dilation, "dilation"))
    )
    reach = [(extent - 1) * by + 1 for extent, by in zip(taps, far, strict=True)]
    low, high = each_side(padding, reach)
    out: list[Any] = [
        window_count(size[at], low[at], high[at], reach[at], steps[at], f"dimension {at}") for at in range(rank)
    ]
    axes = [te.reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(taps)]
    greatest = arg_reducer(source.dtype, False, "argmax", lambda a, b: a > b, -math.inf)

    def element(n: Any, c: Any, *i: Any) -> Any:
        place = [
            index * step + tap * by - before
            for index, step, tap, by, before in zip(i, steps, axes, far, low, strict=True)
        ]
        inside = [
            one
            for at, extent, before, after in zip(place, size, low, high, strict=True)
            for one in ([at >= 0] if before else []) + ([at < extent] if after else [])
        ]
        where = te.all(*inside) if inside else None
        return greatest((flat_index(place, size).astype("int64"), source[(n, c, *place)]), axis=axes, where=where)

    places, values = te.compute((*source.shape[:2], *out), element, name="max_pool_with_places")
    return [values, places]
