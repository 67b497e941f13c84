"""The greatest element of each window, and where it lies."""

from __future__ import annotations

import math
from typing import Any

from ...te import polymorphic as te
from ...te.tensor import Tensor
from ..checks import tensor
from ..reduction import arg_reducer
from ..transform import flat_index
from .window import Padding, Sizes, slide_windows

__all__ = ["max_pool_with_places"]


def max_pool_with_places(
    data: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes = 1, padding: Padding = 0
) -> list[Tensor]:
    """The greatest element of each window, and its place in the image: the first of several. A NaN is the greatest.

    Parameters
    ----------
    data : Tensor
        (N, C, ...).
    kernel : int or sequence of int
        The extents of a window: a number, or one for each dimension after the channels.
    stride : int or sequence of int
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
    axes = slides.axes()
    greatest = arg_reducer(source.dtype, False, "argmax", lambda a, b: a > b, -math.inf)

    def element(n: Any, c: Any, *i: Any) -> Any:
        place = slides.sources(slides.places(i, axes))
        inside = slides.guards(place, size)
        where = te.all(*inside) if inside else None
        return greatest((flat_index(place, size).astype("int64"), source[(n, c, *place)]), axis=axes, where=where)

    places, values = te.compute((*source.shape[:2], *slides.out), element, name="max_pool_with_places")
    return [values, places]
