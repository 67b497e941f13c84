"""Pooling: the greatest or the mean of windows, over one dimension to three, of which any may be the last.

Windows slide as in a convolution. What padding adds never is a maximum; of a mean it counts as zeros, or not at all where
count_include_pad is False. In ceil mode a last window may reach beyond the padding, as long as it begins before it ends, as
torch and ONNX have it. Windows over three dimensions that overlap are windows over height and width, then over depth: a mean of
means is their mean, since what counts in a window is a box. Means of K numbers are within K * 2**-24 * (mean of the magnitudes) of the
exact ones in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...base.errors import user_source
from ...ir.expr import Expr, IntImm
from ...te import polymorphic as te
from ...te.shape import shape_text
from ...te.tensor import Tensor
from ..checks import tensor
from .window import BadWindow, Padding, Sizes, Slides, each_side, expand_numbers, padded, slide_windows

__all__ = [
    "adaptive_pool",
    "adaptive_pool1d",
    "adaptive_pool3d",
    "avg_pool2d",
    "global_avg_pool2d",
    "global_max_pool2d",
    "global_pool",
    "max_pool2d",
    "pool1d",
    "pool2d",
    "pool3d",
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
    at = _dimensions(data, layout, "HW")
    return _pool(data, at, kernel, stride, dilation, padding, pool_type, ceil_mode, count_include_pad)


def pool1d(
    data: Tensor,
    kernel: Sizes,
    stride: Sizes | None,
    dilation: Sizes,
    padding: Padding,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """pool2d over the one dimension W of a layout.

    Parameters
    ----------
    data : Tensor
        In the given layout.
    kernel : int or sequence of int
        The extent of a window.
    stride : int, sequence of int or None
        Steps between windows; the kernel's extent where it is None.
    dilation : int or sequence of int
        Steps between the taps of a window.
    padding : int, sequence of int or str
        Elements at the ends of the data: a number, or (left, right).
    pool_type : str
        "max" or "avg".
    ceil_mode : bool, default False
        As of pool2d.
    layout : str, default "NCW"
        Where W is: "NCW" or "NWC".
    count_include_pad : bool, default True
        As of pool2d.

    Returns
    -------
    Tensor
        The data's other dimensions, and the number of windows.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    at = _dimensions(data, layout, "W")
    return _pool(data, at, kernel, stride, dilation, padding, pool_type, ceil_mode, count_include_pad)


def pool3d(
    data: Tensor,
    kernel: Sizes,
    stride: Sizes | None,
    dilation: Sizes,
    padding: Padding,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """pool2d over the dimensions D, H, W of a layout.

    Parameters
    ----------
    data : Tensor
        In the given layout.
    kernel : int or sequence of int
        The extents of a window: a number, or three.
    stride : int, sequence of int or None
        Steps between windows: a number, or three; those of the kernel where it is None.
    dilation : int or sequence of int
        Steps between the taps of a window: a number, or three.
    padding : int, sequence of int or str
        Elements around the data: a number, three, or (front, top, left, back, bottom, right).
    pool_type : str
        "max" or "avg".
    ceil_mode : bool, default False
        As of pool2d.
    layout : str, default "NCDHW"
        Where D, H and W are: "NCDHW" or "NDHWC".
    count_include_pad : bool, default True
        As of pool2d.

    Returns
    -------
    Tensor
        The data's other dimensions, and the windows' numbers.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    at = _dimensions(data, layout, "DHW")
    taps, far = expand_numbers(kernel, 3, "kernel"), expand_numbers(dilation, 3, "dilation")
    steps = taps if stride is None else expand_numbers(stride, 3, "stride")
    low, high = each_side(padding, [(extent - 1) * by + 1 for extent, by in zip(taps, far, strict=True)])
    overlap = any((extent - 1) * by >= step for extent, by, step in zip(taps, far, steps, strict=True))
    for some in (slice(1, 3), slice(0, 1)) if overlap else (slice(0, 3),):
        pads = (*low[some], *high[some])
        data = _pool(data, at[some], taps[some], steps[some], far[some], pads, pool_type, ceil_mode, count_include_pad)
    return data


def sum_pool(
    data: Tensor, at: Sequence[int], kernel: Sizes, stride: Sizes, dilation: Sizes, padding: Padding, ceil_mode: bool
) -> Tensor:
    """The sum of each window over the dimensions `at`. Raises BadWindow (TW0190)."""
    size = [data.shape[dim] for dim in at]
    return _reduce_windows(data, at, slide_windows(size, kernel, stride, padding, dilation, ceil_mode=ceil_mode), "sum")


def _pool(
    data: Tensor,
    at: Sequence[int],
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Tensor:
    """Pooling along the dimensions `at`."""
    _check_type(pool_type)
    size = [data.shape[dim] for dim in at]
    steps = kernel if stride is None else stride  # windows side by side, as torch has it
    windows = slide_windows(size, kernel, steps, padding, dilation, ceil_mode=ceil_mode)
    if pool_type == "max":
        return _reduce_windows(data, at, windows, "max")
    return _mean(data, at, windows, count_include_pad)


def _check_type(pool_type: str) -> None:
    if pool_type not in ("max", "avg"):
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
    at = _dimensions(data, layout, "HW")
    return _adapt(data, at, expand_numbers(output_size, 2, "output_size"), pool_type)


def adaptive_pool1d(data: Tensor, output_size: Sizes, pool_type: str, layout: str = "NCW") -> Tensor:
    """adaptive_pool over the one dimension W of a layout.

    Parameters
    ----------
    data : Tensor
        In the given layout.
    output_size : int or sequence of int
        The result's extent along W.
    pool_type : str
        "max" or "avg".
    layout : str, default "NCW"
        Where W is: "NCW" or "NWC".

    Returns
    -------
    Tensor
        The data's other dimensions, and output_size.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    at = _dimensions(data, layout, "W")
    return _adapt(data, at, expand_numbers(output_size, 1, "output_size"), pool_type)


def adaptive_pool3d(data: Tensor, output_size: Sizes, pool_type: str, layout: str = "NCDHW") -> Tensor:
    """adaptive_pool over the dimensions D, H, W of a layout.

    Parameters
    ----------
    data : Tensor
        In the given layout.
    output_size : int or sequence of int
        The result's extents: a number, or three.
    pool_type : str
        "max" or "avg".
    layout : str, default "NCDHW"
        Where D, H and W are: "NCDHW" or "NDHWC".

    Returns
    -------
    Tensor
        The data's other dimensions, and output_size.

    Raises
    ------
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    at, out = _dimensions(data, layout, "DHW"), expand_numbers(output_size, 3, "output_size")
    return _adapt(_adapt(data, at[1:], out[1:], pool_type), at[:1], out[:1], pool_type)


def _adapt(data: Tensor, at: Sequence[int], out: Sequence[int], pool_type: str) -> Tensor:
    """Pooling along the dimensions `at` to so many windows."""
    _check_type(pool_type)
    count = dict(zip(at, out, strict=True))
    shape = [count.get(dim, extent) for dim, extent in enumerate(data.shape)]

    def bounds(index: Any, dim: int) -> tuple[Any, Any]:
        size = data.shape[dim]
        if count[dim] == 1:  # one window is the whole extent, known or not
            return 0, size
        return te.indexdiv(index * size, count[dim]), te.indexdiv((index + 1) * size + count[dim] - 1, count[dim])

    def longest(dim: int) -> Any:
        size, windows = data.shape[dim], count[dim]
        if windows == 1:
            return size
        if isinstance(size, IntImm):
            # windows differ by one in length where the extent does not divide
            each = (-(-(i + 1) * size.value // windows) - i * size.value // windows for i in range(windows))
            return max(each, default=0)
        # at most: size / count rounded up, and one more for where windows begin
        return te.indexdiv(size - 1, windows) + 2

    taps = {
        dim: te.reduce_axis((0, longest(dim)), name) for dim, name in zip(at, ("ry", "rx")[-len(at) :], strict=True)
    }

    def element(*indices: Any) -> Expr:
        there, inside = list(indices), list[Any]()
        for dim, tap in taps.items():
            begin, end = bounds(indices[dim], dim)
            there[dim] = begin + tap
            inside += [] if count[dim] == 1 else [begin + tap < end]  # shorter windows leave their last taps out
        where = te.all(*inside) if inside else None
        value, axes = data[tuple(there)], list(taps.values())
        return (
            te.max(value, axis=axes, where=where)
            if pool_type == "max"
            else te.sum(_wide(value), axis=axes, where=where)
        )

    pooled = te.compute(tuple(shape), element, name=f"adaptive_{pool_type}_pool")
    if pool_type == "max":
        return pooled

    def mean(*indices: Any) -> Expr:
        sides = [bounds(indices[dim], dim) for dim in at]
        return _quotient(pooled[indices], prod(end - begin for begin, end in sides), data)

    return te.compute(tuple(shape), mean, name="adaptive_avg_pool_mean", tag="injective")


# Windows


def _reduce_windows(data: Tensor, at: Sequence[int], windows: Slides, kind: str) -> Tensor:
    """The maximum or the sum of each window."""
    # what is added is never the greatest: the least number of the dtype
    outside = 0 if kind == "sum" else float("-inf") if data.dtype.is_float else data.dtype.least
    after = [high + more for high, more in zip(windows.high, windows.beyond, strict=True)]
    image = padded(data, (*windows.low, *after), at, outside, peeled=True)
    axes, shape = windows.axes(), list(data.shape)
    for dim, extent in zip(at, windows.out, strict=True):
        shape[dim] = extent

    def element(*indices: Any) -> Expr:
        there = list(indices)
        for dim, place in zip(at, windows.places([indices[dim] for dim in at], axes), strict=True):
            there[dim] = place
        value = image[tuple(there)]
        return te.max(value, axis=axes) if kind == "max" else te.sum(_wide(value), axis=axes)

    return te.compute(tuple(shape), element, name=f"pool_{kind}", tag="pool")


def _mean(data: Tensor, at: Sequence[int], windows: Slides, count_include_pad: bool) -> Tensor:
    sums = _reduce_windows(data, at, windows, "sum")

    def along(index: Any, which: int) -> Any:
        """Return the number of taps of a window that count along one dimension."""
        size, taps, spread = data.shape[at[which]], windows.taps[which], windows.far[which]
        before, after, beyond = windows.low[which], windows.high[which], windows.beyond[which]
        if count_include_pad and not beyond or not (before or after or beyond):
            return taps  # every window counts the same number
        begin = index * windows.steps[which] - before
        # what lies beyond the padding never counts
        end = te.min(begin + (taps - 1) * spread + 1, size + (after if count_include_pad else 0))
        # the first tap inside, which dilation may skip
        first = begin if count_include_pad else te.max(begin, te.indexmod(begin, spread) if spread > 1 else 0)
        return te.max(te.indexdiv(end - first + spread - 1, spread), 1)  # a window wholly outside would divide by 0

    def mean(*indices: Any) -> Expr:
        return _quotient(sums[indices], prod(along(indices[dim], which) for which, dim in enumerate(at)), data)

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


def _dimensions(data: Tensor, layout: str, letters: str) -> list[int]:
    """Return the positions of these letters in a layout of the data's rank."""
    tensor(data, "a pooling")
    at = [layout.find(letter) for letter in letters]
    if len(layout) != data.ndim or any(layout.count(letter) != 1 for letter in letters) or at != sorted(at):
        raise BadWindow(
            f"{data.name} is not {layout!r}",
            declared=data.source,
            called=user_source(),
            reason=f"its shape is {shape_text(data.shape)}; a layout names each dimension, {' before '.join(letters)}",
            fix='layout="NCHW", "NHWC", or "CHW"' if letters == "HW" else f'layout="NC{letters}"',
        )
    return at
