"""Greatest sums over windows: morphological dilation by a structuring function."""

from __future__ import annotations

from typing import Any

from ... import te
from ...base.errors import user_source
from ...te.shape import same_extent
from ...te.tensor import Tensor, tensor_text
from ..checks import tensor
from ..nn.convolutions import tap_count
from ..nn.window import Padding, Sizes, padded, slide_windows
from ..signatures import ElementType
from ..transform import transpose
from .errors import BadImage

__all__ = ["dilation2d_nchw", "dilation2d_nhwc"]


def dilation2d_nchw(
    input: Tensor,
    filter: Tensor,
    stride: Sizes,
    padding: Padding,
    dilations: Sizes = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """Morphological dilation: the greatest of image plus filter over windows, over data padded by zeros.

    Parameters
    ----------
    input : Tensor
        (N, C, H, W).
    filter : Tensor
        (C, KH, KW).
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        As of topi.nn.conv2d.
    dilations : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for height and one for width.
    out_dtype : dtype or None, default None
        Of the sums and the result; that of the input where it is None.

    Returns
    -------
    Tensor
        (N, C, OH, OW).

    Raises
    ------
    BadImage (TW0195)
        An image, or a size, that does not fit.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    image, window = tensor(input, "dilation2d", 4), tensor(filter, "the filter of dilation2d", 3)
    if not same_extent(image.shape[1], window.shape[0]):
        raise BadImage(
            f"dilation2d: {tensor_text(window)} is not a window for the channels of {tensor_text(image)}",
            declared=window.source,
            called=user_source(),
            fix="a window for each channel",
        )
    dtype = out_dtype or image.dtype
    taps = [tap_count(extent) for extent in window.shape[1:]]
    windows = slide_windows(image.shape[2:], taps, stride, padding, dilations)
    wide = padded(image, (*windows.low, *windows.high), (2, 3))  # by zeros, as TVM has it, not by the least number
    axes = windows.axes()

    def element(n: Any, c: Any, *at: Any) -> Any:
        value = wide[(n, c, *windows.places(at, axes))]
        # converted before they are added: int8 sums would wrap
        return te.max(value.astype(dtype) + window[(c, *axes)].astype(dtype), axis=axes)

    return te.compute((*image.shape[:2], *windows.out), element, name="dilation2d")


def dilation2d_nhwc(
    input: Tensor,
    filter: Tensor,
    stride: Sizes,
    padding: Padding,
    dilations: Sizes = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """dilation2d_nchw in the layout NHWC.

    Parameters
    ----------
    input : Tensor
        (N, H, W, C).
    filter : Tensor
        (KH, KW, C).
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        As of topi.nn.conv2d.
    dilations : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for height and one for width.
    out_dtype : dtype or None, default None
        Of the sums and the result; that of the input where it is None.

    Returns
    -------
    Tensor
        (N, OH, OW, C).

    Raises
    ------
    BadImage (TW0195)
        An image, or a size, that does not fit.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    image = transpose(tensor(input, "dilation2d", 4), (0, 3, 1, 2))
    window = transpose(tensor(filter, "the filter of dilation2d", 3), (2, 0, 1))
    return transpose(dilation2d_nchw(image, window, stride, padding, dilations, out_dtype), (0, 2, 3, 1))
