"""Windows of images as columns, and columns added up to images: of one to any number of dimensions, channels first."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...base.errors import user_source
from ...ir import ops
from ...te import polymorphic as te
from ...te.shape import shape_text
from ...te.tensor import Tensor
from ..checks import known, tensor
from ..transform import flat_index, injective, unravel_index
from .window import BadWindow, Padding, Sizes, slide_windows

__all__ = ["col2im", "im2col"]


def im2col(data: Tensor, kernel: Sequence[int], stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1) -> Tensor:
    """The windows of images as columns, in row-major order.

    Parameters
    ----------
    data : Tensor
        (N, C, ...).
    kernel : sequence of int
        The extents of a window, one for each dimension after the channels.
    stride : int or sequence of int, default 1
        Steps between windows: a number, or one for each dimension.
    padding : int, sequence of int or str, default 0
        Zeros around the data: a number, one for each dimension, or those before all dimensions, then those after.
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for each dimension.

    Returns
    -------
    Tensor
        (N, C * taps, windows).

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    source = tensor(data, "im2col")
    rank = source.ndim - 2
    if rank < 1:
        tensor(source, "im2col", 3)
    slides = slide_windows(source.shape[2:], kernel, stride, padding, dilation)
    taps, out = slides.taps, list(map(ops.convert, slides.out))

    def element(n: Any, row: Any, column: Any) -> Any:
        channel, *tap = unravel_index(row, [source.shape[1], *map(ops.convert, taps)])
        place = slides.sources(slides.places(unravel_index(column, out), tap))
        inside = slides.guards(place, source.shape[2:])
        value = source[(n, channel, *place)]
        return te.if_then_else(te.all(*inside), value, te.const(0, source.dtype)) if inside else value

    return injective((source.shape[0], source.shape[1] * prod(taps), prod(out)), element, "im2col")


def col2im(
    data: Tensor,
    image: Sequence[Any],
    kernel: Sequence[int],
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
) -> Tensor:
    """The columns of im2col added up where they lie in images: what it takes several times is added as often.

    Parameters
    ----------
    data : Tensor
        (N, C * taps, windows).
    image : sequence of numbers
        The extents of the images, one for each dimension after the channels.
    kernel : sequence of int
        The extents of a window.
    stride : int or sequence of int, default 1
        As of im2col.
    padding : int, sequence of int or str, default 0
        As of im2col.
    dilation : int or sequence of int, default 1
        As of im2col.

    Returns
    -------
    Tensor
        (N, C, *image).

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    source = tensor(data, "col2im", 3)
    slides = slide_windows(list(map(ops.convert, image)), kernel, stride, padding, dilation)
    taps, out = slides.taps, list(map(ops.convert, slides.out))
    rows, columns = known(source.shape[1:2]), known(source.shape[2:])
    count = known([ops.convert(prod(out))])
    if rows is None or rows[0] % prod(taps) or (columns is not None and count is not None and columns != count):
        raise BadWindow(
            f"columns of shape {shape_text(source.shape)} are not windows of {tuple(taps)} over {tuple(image)}",
            declared=source.source,
            called=user_source(),
            fix="what im2col gives for an image of this size",
        )
    axes = [te.reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(taps)]

    def element(n: Any, c: Any, *i: Any) -> Any:
        place = [
            index + before - tap * by for index, before, tap, by in zip(i, slides.low, axes, slides.far, strict=True)
        ]
        inside = [
            one
            for at, step, extent in zip(place, slides.steps, out, strict=True)
            for one in (at >= 0, at < extent * step, *([te.indexmod(at, step).equal(0)] if step > 1 else []))
        ]
        column = flat_index([te.indexdiv(at, step) for at, step in zip(place, slides.steps, strict=True)], out)
        row = c * prod(taps) + flat_index(axes, taps)
        return te.sum(source[n, row, column], axis=axes, where=te.all(*inside))

    return te.compute((source.shape[0], rows[0] // prod(taps), *image), element, name="col2im")
