"""Pooling over one dimension and over three, by that over two: windows of three dimensions are windows over height and width,
then over depth. A mean of means is their mean, since what counts in a window is a box."""

from __future__ import annotations

from typing import Any

from ...errors import user_source
from ...te.shape import shape_text
from ...te.tensor import Tensor
from .. import transform
from ..checks import tensor
from .errors import BadWindow
from .pool import adaptive_pool, pool2d
from .window import each_side, expand_numbers

__all__ = ["adaptive_pool1d", "adaptive_pool3d", "pool1d", "pool3d"]


def pool1d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """pool2d over the one dimension W of a layout. padding: a number, or (left, right). Raises BadWindow (TW0190)."""
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
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """pool2d over the dimensions D, H, W of a layout. padding: a number, three, or (front, top, left, back, bottom, right).

    Raises BadWindow (TW0190).
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


def adaptive_pool1d(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCW") -> Tensor:
    """adaptive_pool over the one dimension W of a layout. Raises BadWindow (TW0190)."""
    return _adaptive(data, _place(data, layout, "W"), expand_numbers(output_size, 1, "output_size")[0], pool_type)


def adaptive_pool3d(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCDHW") -> Tensor:
    """adaptive_pool over the dimensions D, H, W of a layout. output_size: a number, or three. Raises BadWindow (TW0190)."""
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
