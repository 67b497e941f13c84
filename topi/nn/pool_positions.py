"""The greatest element of each window, and where it lies."""

from __future__ import annotations

import math
from typing import Any

from ...te import either as te
from ...te.tensor import Tensor
from ..checks import tensor
from ..reduction import arg_reducer
from ..transform import flat_index
from .window import slide_windows

__all__ = ["max_pool_with_places"]


def max_pool_with_places(data: Tensor, kernel: Any, stride: Any, dilation: Any = 1, padding: Any = 0) -> list[Tensor]:
    """The greatest element of each window over the dimensions behind the first two, (N, C, windows ...), and its place in the
    image, in row-major order, as int64: the first of several. Padding is never the greatest. A NaN is the greatest.

    kernel, stride, dilation: a number, or one for each dimension. padding: a number, one for each dimension, or those before and
    those after. Raises BadWindow (TW0190).
    """
    source = tensor(data, "max_pool_with_places")
    size = source.shape[2:]
    slides = slide_windows(size, kernel, stride, padding, dilation)
    axes = [te.reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(slides.taps)]
    greatest = arg_reducer(source.dtype, False, "argmax", lambda a, b: a > b, -math.inf)

    def element(n: Any, c: Any, *i: Any) -> Any:
        place = [
            index * step + tap * by - before
            for index, step, tap, by, before in zip(i, slides.steps, axes, slides.far, slides.low, strict=True)
        ]
        inside = [
            one
            for at, extent, before, after in zip(place, size, slides.low, slides.high, strict=True)
            for one in ([at >= 0] if before else []) + ([at < extent] if after else [])
        ]
        where = te.all(*inside) if inside else None
        return greatest((flat_index(place, size).astype("int64"), source[(n, c, *place)]), axis=axes, where=where)

    places, values = te.compute((*source.shape[:2], *slides.out), element, name="max_pool_with_places")
    return [values, places]
