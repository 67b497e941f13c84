"""The greatest element of each window, and where it lies."""

from __future__ import annotations

import math
from typing import Any

from ...te import either as te
from ...te.tensor import Tensor
from ..checks import tensor
from ..reduction import arg_reducer
from ..transform import flat_index
from .window import Padding, Sizes, slide_windows

__all__ = ["max_pool_with_places"]


def max_pool_with_places(
    data: Tensor, kernel: Sizes, stride: Sizes | None, dilation: Sizes = 1, padding: Padding = 0
) -> list[Tensor]:
    """The greatest element of each window, and its place in the image: the first of several. A NaN is the greatest.

    Parameters
    ----------
    data : Tensor
        (N, C, ...).
    kernel : int or sequence of int
        The extents of a window: a number, or one for each dimension after the channels.
    stride : int, sequence of int or None
        Steps between windows: a number, or one for each dimension.
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for each dimension.
    padding : int, sequence of int or str, default 0
        A number, one for each dimension, or those before and those after; never the greatest.

    Returns
    -------
    list of Tensor
        The greatest elements, (N, C, windows ...), and their places in the image in row-major order, int64.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    source = tensor(data, "max_pool_with_places")
    size = source.shape[2:]
    slides = slide_windows(size, kernel, stride, padding, dilation)
    axes = [te.reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(slides.taps)]
    # of equal elements the first place is kept
    greatest = arg_reducer(source.dtype, False, "argmax", lambda a, b: a > b, -math.inf)

    def element(n: Any, c: Any, *i: Any) -> Any:
        place = [
            index * step + tap * by - before
            for index, step, tap, by, before in zip(i, slides.steps, axes, slides.far, slides.low, strict=True)
        ]
        inside = [
            one
            for at, extent, before, after in zip(place, size, slides.low, slides.high, strict=True)
            # no condition where nothing is padded
            for one in ([at >= 0] if before else []) + ([at < extent] if after else [])
        ]
        where = te.all(*inside) if inside else None
        # the place in the image, without padding
        return greatest((flat_index(place, size).astype("int64"), source[(n, c, *place)]), axis=axes, where=where)

    places, values = te.compute((*source.shape[:2], *slides.out), element, name="max_pool_with_places")
    return [values, places]
