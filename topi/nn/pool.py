"""Pooling: the greatest or the mean of windows, over the two dimensions of images.

Windows slide as in a convolution. What padding adds never is a maximum; of a mean it counts as zeros, or not at all where
count_include_pad is False. In ceil mode a last window may reach beyond the padding, as long as it begins before it ends, as
torch and ONNX have it. Means of K numbers are within K * 2**-24 * (mean of the magnitudes) of the exact ones in float32.
"""

from __future__ import annotations

from typing import Any

from ...errors import user_source
from ...ir.expr import Expr, IntImm
from ...te import either as te
from ...te.shape import shape_text
from ...te.tensor import Tensor
from ..checks import tensor
from .errors import BadWindow
from .window import Padding, Pads, Sizes, pad_amounts, padded, pair, window_count

__all__ = [
    "adaptive_pool",
    "avg_pool2d",
    "global_avg_pool2d",
    "global_max_pool2d",
    "global_pool",
    "max_pool2d",
    "pool2d",
]


def max_pool2d(
    data: Tensor,
    kernel: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    layout: str = "NCHW",
) -> Tensor:
    """The greatest element of each window.

    Parameters
    ----------
    data : Tensor
        In the given layout.
    kernel : int or sequence of int
        The extents of a window: a number, or one for height and one for width.
    stride : int, sequence of int or None, default None
        Steps between windows; those of the kernel where it is None.
    padding : int, sequence of int or str, default 0
        Rows and columns around the data, never the greatest: a number, a pair, or (top, left, bottom, right).
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for height and one for width.
    ceil_mode : bool, default False
        Whether a last window may reach beyond the padding.
    layout : str, default "NCHW"
        Where height and width are: "NCHW", "NHWC", "CHW" ...

    Returns
    -------
    Tensor
        The data's other dimensions, and the windows' numbers.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return pool2d(data, kernel, stride, dilation, padding, "max", ceil_mode, layout)


def avg_pool2d(
    data: Tensor,
    kernel: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCHW",
    dilation: Sizes = 1,
) -> Tensor:
    """The mean of each window.

    Parameters
    ----------
    data : Tensor
        In the given layout.
    kernel : int or sequence of int
        The extents of a window: a number, or one for height and one for width.
    stride : int, sequence of int or None, default None
        Steps between windows; those of the kernel where it is None.
    padding : int, sequence of int or str, default 0
        Rows and columns around the data: a number, a pair, or (top, left, bottom, right).
    ceil_mode : bool, default False
        Whether a last window may reach beyond the padding.
    count_include_pad : bool, default True
        Whether padding counts as zeros, or not at all.
    layout : str, default "NCHW"
        Where height and width are: "NCHW", "NHWC", "CHW" ...
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for height and one for width.

    Returns
    -------
    Tensor
        The data's other dimensions, and the windows' numbers; in the dtype of the data.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return pool2d(data, kernel, stride, dilation, padding, "avg", ceil_mode, layout, count_include_pad)


def pool2d(
    data: Tensor,
    kernel: Sizes,
    stride: Sizes | None,
    dilation: Sizes,
    padding: Padding,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """max_pool2d or avg_pool2d, with TVM's order of arguments.

    Parameters
    ----------
    data : Tensor
        In the given layout.
    kernel : int or sequence of int
        The extents of a window: a number, or one for height and one for width.
    stride : int, sequence of int or None
        Steps between windows; those of the kernel where it is None.
    dilation : int or sequence of int
        Steps between the taps of a window: a number, or one for height and one for width.
    padding : int, sequence of int or str
        Rows and columns around the data: a number, a pair, or (top, left, bottom, right).
    pool_type : str
        "max" or "avg".
    ceil_mode : bool, default False
        Whether a last window may reach beyond the padding.
    layout : str, default "NCHW"
        Where height and width are: "NCHW", "NHWC", "CHW" ...
    count_include_pad : bool, default True
        Whether padding counts as zeros in a mean, or not at all.

    Returns
    -------
    Tensor
        The data's other dimensions, and the windows' numbers.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    at = _image(data, layout)
    windows = _Windows.of(data, at, kernel, stride, dilation, padding, ceil_mode)
    if pool_type == "max":
        return _reduce_windows(data, at, windows, "max")
    if pool_type == "avg":
        return _mean(data, at, windows, count_include_pad)
    raise BadWindow(
        f"there is no pooling {pool_type!r}",
        called=user_source(),
        reason="windows give their maximum or their mean",
        allowed='"max", "avg"',
        fix='pool_type="max"',
    )


def global_avg_pool2d(data: Tensor, layout: str = "NCHW") -> Tensor:
    """The mean of each whole image: height and width of the result are 1, its other dimensions the data's. Raises BadWindow
    (TW0190)."""
    return global_pool(data, "avg", layout)


def global_max_pool2d(data: Tensor, layout: str = "NCHW") -> Tensor:
    """The greatest element of each whole image: height and width of the result are 1, its other dimensions the data's. Raises
    BadWindow (TW0190)."""
    return global_pool(data, "max", layout)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pooling over whole images, whose height and width may be symbols.

    Parameters
    ----------
    data : Tensor
        In the given layout.
    pool_type : str
        "max" or "avg".
    layout : str, default "NCHW"
        Where height and width are: "NCHW", "NHWC", "CHW" ...

    Returns
    -------
    Tensor
        Height and width are 1, the other dimensions those of the data.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return adaptive_pool(data, 1, pool_type, layout)  # one window over the whole image


def adaptive_pool(data: Tensor, output_size: Sizes, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pooling to images of a given size. Window i of n begins at floor(i * size / n) and ends before ceil((i + 1) *
    size / n), so that windows cover the image, and overlap where they must.

    Parameters
    ----------
    data : Tensor
        In the given layout.
    output_size : int or sequence of int
        The result's height and width: a number, or one for each.
    pool_type : str
        "max" or "avg".
    layout : str, default "NCHW"
        Where height and width are: "NCHW", "NHWC", "CHW" ...

    Returns
    -------
    Tensor
        The data's other dimensions, and output_size.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    at = _image(data, layout)
    if pool_type not in ("max", "avg"):
        raise BadWindow(
            f"there is no pooling {pool_type!r}",
            called=user_source(),
            allowed='"max", "avg"',
            fix='pool_type="max"',
            reason="windows give their maximum or their mean",
        )
    out = pair(output_size, "output_size")
    shape: list[Any] = list(data.shape)
    shape[at[0]], shape[at[1]] = out

    def bounds(index: Any, dim: int) -> tuple[Any, Any]:
        size, count = data.shape[at[dim]], out[dim]
        if count == 1:  # one window is the whole extent, known or not
            return 0, size
        return te.indexdiv(index * size, count), te.indexdiv((index + 1) * size + count - 1, count)

    def longest(dim: int) -> Any:
        size, count = data.shape[at[dim]], out[dim]
        if count == 1:
            return size
        if isinstance(size, IntImm):
            # windows differ by one in length where the extent does not divide
            return max((-(-(i + 1) * size.value // count) - i * size.value // count for i in range(count)), default=0)
        # at most: size / count rounded up, and one more for where windows begin
        return te.indexdiv(size - 1, count) + 2

    ry, rx = te.reduce_axis((0, longest(0)), "ry"), te.reduce_axis((0, longest(1)), "rx")

    def element(*indices: Any) -> Expr:
        there, inside = list(indices), list[Any]()
        for dim, tap in ((0, ry), (1, rx)):
            begin, end = bounds(indices[at[dim]], dim)
            there[at[dim]] = begin + tap
            inside += [] if out[dim] == 1 else [begin + tap < end]  # shorter windows leave their last taps out
        where = te.all(*inside) if inside else None
        value = data[tuple(there)]
        return (
            te.max(value, axis=[ry, rx], where=where)
            if pool_type == "max"
            else te.sum(_wide(value), axis=[ry, rx], where=where)  # sums of bytes need more than their own type
        )

    pooled = te.compute(tuple(shape), element, name=f"adaptive_{pool_type}_pool")
    if pool_type == "max":
        return pooled

    def mean(*indices: Any) -> Expr:
        (top, bottom), (left, right) = bounds(indices[at[0]], 0), bounds(indices[at[1]], 1)
        return _quotient(pooled[indices], (bottom - top) * (right - left), data)

    return te.compute(tuple(shape), mean, name="adaptive_avg_pool_mean", tag="injective")


# Windows


class _Windows:
    """Windows on an image: height before width."""

    def __init__(
        self,
        taps: tuple[int, int],
        stride: tuple[int, int],
        dilation: tuple[int, int],
        pads: Pads,
        beyond: tuple[int, int],
        out: tuple[Any, Any],
    ) -> None:
        self.taps, self.stride, self.dilation, self.pads, self.beyond, self.out = (
            taps,
            stride,
            dilation,
            pads,
            beyond,
            out,
        )

    @staticmethod
    def of(
        data: Tensor,
        at: tuple[int, int],
        kernel: Sizes,
        stride: Sizes | None,
        dilation: Sizes,
        padding: Padding,
        ceil_mode: bool,
    ) -> _Windows:
        taps, spread = pair(kernel, "kernel"), pair(dilation, "dilation")
        steps = taps if stride is None else pair(stride, "stride")  # windows side by side, as torch has it
        reach = ((taps[0] - 1) * spread[0] + 1, (taps[1] - 1) * spread[1] + 1)
        pads = pad_amounts(padding, reach)
        beyond, out = [0, 0], list[Any]()
        for dim in (0, 1):
            size = data.shape[at[dim]]
            what = ("height", "width")[dim]
            count = window_count(size, pads[dim], pads[dim + 2], reach[dim], steps[dim], what)
            if ceil_mode:
                count, beyond[dim] = _one_more(size, pads[dim], pads[dim + 2], reach[dim], steps[dim], what)
            out.append(count)
        return _Windows(taps, steps, spread, pads, (beyond[0], beyond[1]), (out[0], out[1]))


def _one_more(size: Any, before: int, after: int, reach: int, step: int, what: str) -> tuple[Any, int]:
    """In ceil mode: how many windows there are, and how far the last may reach beyond the padding."""
    if not isinstance(size, IntImm):
        raise BadWindow(
            f"the {what} {size} is not a constant",
            called=user_source(),
            fix="ceil_mode=False, or a size that is known",
            reason="in ceil mode the number of windows depends on it in a way that shapes do not express",
        )
    count = -(-(size.value + before + after - reach) // step) + 1  # rounded up
    # a last window that would begin behind the padding is left out, as torch does
    if (count - 1) * step >= size.value + before:
        count -= 1
    return count, max((count - 1) * step + reach - (size.value + before + after), 0)


def _reduce_windows(data: Tensor, at: tuple[int, int], windows: _Windows, kind: str) -> Tensor:
    """The maximum or the sum of each window."""
    top, left, bottom, right = windows.pads
    high, wide = windows.beyond
    # what is added is never the greatest: the least number of the dtype
    outside = 0 if kind == "sum" else float("-inf") if data.dtype.is_float else data.dtype.least
    image = padded(data, (top, left, bottom + high, right + wide), at, outside, peeled=True)
    ry, rx = te.reduce_axis((0, windows.taps[0]), "ry"), te.reduce_axis((0, windows.taps[1]), "rx")
    shape = list(data.shape)
    shape[at[0]], shape[at[1]] = windows.out

    def element(*indices: Any) -> Expr:
        there = list(indices)
        for dim, tap in ((0, ry), (1, rx)):
            there[at[dim]] = indices[at[dim]] * windows.stride[dim] + tap * windows.dilation[dim]
        value = image[tuple(there)]
        return te.max(value, axis=[ry, rx]) if kind == "max" else te.sum(_wide(value), axis=[ry, rx])

    return te.compute(tuple(shape), element, name=f"pool_{kind}", tag="pool")


def _mean(data: Tensor, at: tuple[int, int], windows: _Windows, count_include_pad: bool) -> Tensor:
    sums = _reduce_windows(data, at, windows, "sum")

    def along(index: Any, dim: int) -> Any:
        """Return the number of taps of a window that count along one dimension."""
        size, taps, spread = data.shape[at[dim]], windows.taps[dim], windows.dilation[dim]
        before, after = windows.pads[dim], windows.pads[dim + 2]
        # every window counts the same number of taps
        if count_include_pad and not windows.beyond[dim] or not (before or after or windows.beyond[dim]):
            return taps
        begin = index * windows.stride[dim] - before
        # what lies beyond the padding never counts
        end = te.min(begin + (taps - 1) * spread + 1, size + (after if count_include_pad else 0))
        # the first tap inside, which dilation may skip
        first = begin if count_include_pad else te.max(begin, te.indexmod(begin, spread) if spread > 1 else 0)
        return te.max(te.indexdiv(end - first + spread - 1, spread), 1)  # a window wholly outside would divide by 0

    def mean(*indices: Any) -> Expr:
        high, wide = along(indices[at[0]], 0), along(indices[at[1]], 1)
        return _quotient(sums[indices], high * wide, data)

    return te.compute(sums.shape, mean, name="pool_avg", tag="injective")


def _wide(value: Expr) -> Expr:
    """Return the type of sums: integers of 32 bits, so that windows of bytes do not wrap."""
    if value.dtype.is_float or value.dtype.bits >= 32:
        return value
    return value.astype("uint32" if value.dtype.kind == "uint" else "int32")


def _quotient(total: Expr, count: Any, data: Tensor) -> Expr:
    """total / count in the data's dtype; of integers rounded toward zero."""
    if data.dtype.is_float:
        if isinstance(count, int):
            return (
                total * te.const(1.0 / count, total.dtype)  # a product gives the same bits only for powers of two
                if count & (count - 1) == 0
                else total / te.const(count, total.dtype)
            )
        return total / count.astype(total.dtype)
    divisor = te.const(count, total.dtype) if isinstance(count, int) else count.astype(total.dtype)
    return te.truncdiv(total, divisor).astype(data.dtype)


def _image(data: Tensor, layout: str) -> tuple[int, int]:
    """Return the positions of height and width in a layout of the data's rank."""
    tensor(data, "a pooling")
    if (
        len(layout) != data.ndim
        or layout.count("H") != 1
        or layout.count("W") != 1
        or layout.index("H") > layout.index("W")
    ):
        raise BadWindow(
            f"{data.name} is not {layout!r}",
            declared=data.source,
            called=user_source(),
            reason=f"its shape is {shape_text(data.shape)}; a layout names each dimension, H before W",
            fix='layout="NCHW", "NHWC", or "CHW"',
        )
    return layout.index("H"), layout.index("W")
