"""Pooling over one dimension and over three, by that over two: windows of three dimensions are windows over height and width,
then over depth. A mean of means is their mean, since what counts in a window is a box."""

from __future__ import annotations

from ...errors import user_source
from ...te.shape import shape_text
from ...te.tensor import Tensor
from .. import transform
from ..checks import tensor
from .errors import BadWindow
from .pool import adaptive_pool, pool2d
from .window import Padding, Sizes, each_side, expand_numbers

__all__ = ["adaptive_pool1d", "adaptive_pool3d", "pool1d", "pool3d"]


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
    at = _place(data, layout, "W")
    return _pool_axis(
        data,
        at,
        expand_numbers(kernel, 1, "kernel")[0],
        expand_numbers(stride, 1, "stride")[0],
        expand_numbers(dilation, 1, "dilation")[0],
        each_side(padding, [1]),
        pool_type,
        ceil_mode,
        count_include_pad,
    )


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
    at = _place(data, layout, "DHW")
    taps, steps, spread = (
        expand_numbers(value, 3, what)
        for value, what in ((kernel, "kernel"), (stride, "stride"), (dilation, "dilation"))
    )
    low, high = each_side(padding, taps)
    plane = layout.replace("D", "X")
    flat = pool2d(
        data, taps[1:], steps[1:], spread[1:], (*low[1:], *high[1:]), pool_type, ceil_mode, plane, count_include_pad
    )
    return _pool_axis(
        flat, at, taps[0], steps[0], spread[0], (low[:1], high[:1]), pool_type, ceil_mode, count_include_pad
    )


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
    return _adaptive(data, _place(data, layout, "W"), expand_numbers(output_size, 1, "output_size")[0], pool_type)


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
    at, out = _place(data, layout, "DHW"), expand_numbers(output_size, 3, "output_size")
    return _adaptive(adaptive_pool(data, out[1:], pool_type, layout.replace("D", "X")), at, out[0], pool_type)


def _pool_axis(
    data: Tensor,
    at: int,
    taps: int,
    step: int,
    spread: int,
    pads: tuple[list[int], list[int]],
    pool_type: str,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Tensor:
    """Pooling along dimension `at`, as height beside a width of 1."""
    (low,), (high,) = pads
    wide, layout = _add_width(data, at)
    pooled = pool2d(
        wide, (taps, 1), (step, 1), (spread, 1), (low, 0, high, 0), pool_type, ceil_mode, layout, count_include_pad
    )
    return transform.squeeze(pooled, at + 1)


def _adaptive(data: Tensor, at: int, out: int, pool_type: str) -> Tensor:
    wide, layout = _add_width(data, at)
    return transform.squeeze(adaptive_pool(wide, (out, 1), pool_type, layout), at + 1)


def _add_width(data: Tensor, at: int) -> tuple[Tensor, str]:
    return transform.expand_dims(data, at + 1), "".join("HW" if dim == at else "ABCDE"[dim] for dim in range(data.ndim))


def _place(data: Tensor, layout: str, letters: str) -> int:
    """Return the position of the first of the letters in a layout of the data's rank."""
    tensor(data, "a pooling")
    if len(layout) != data.ndim or any(layout.count(letter) != 1 for letter in letters):
        raise BadWindow(
            f"{data.name} is not {layout!r}",
            declared=data.source,
            called=user_source(),
            reason=f"its shape is {shape_text(data.shape)}; a layout names each dimension, {', '.join(letters)} once",
            fix=f'layout="NC{letters}"',
        )
    return layout.index(letters[0])
