"""Convolutions over one dimension or three, and over two with the batch last. Bounds of errors are those of conv2d."""

from __future__ import annotations

from ...base.errors import user_source
from ...te.tensor import Tensor
from ..signatures import ElementType
from .convolutions import check_rank, convolve, convolve_transposed
from .window import BadConvolution, Padding, Sizes

__all__ = [
    "conv1d",
    "conv1d_ncw",
    "conv1d_nwc",
    "conv1d_transpose_ncw",
    "conv2d_hwcn",
    "conv3d_ncdhw",
    "conv3d_ndhwc",
    "conv3d_transpose_ncdhw",
    "group_conv1d_ncw",
    "group_conv1d_nwc",
]


def conv1d(
    data: Tensor,
    kernel: Tensor,
    strides: Sizes = 1,
    padding: Padding = "VALID",
    dilation: Sizes = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: ElementType | None = None,
) -> Tensor:
    """Convolution over one dimension.

    Parameters
    ----------
    data : Tensor
        (N, C, W), or (N, W, C) for "NWC".
    kernel : Tensor
        (O, C / groups, KW), or (KW, C / groups, O) for "NWC".
    strides : int or sequence of int, default 1
        Steps between windows.
    padding : int, sequence of int or str, default "VALID"
        Zeros at the ends of the data: a number, (left, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.
    data_layout : str, default "NCW"
        "NCW" or "NWC".
    kernel_layout : str, default ""
        As TVM's callers pass it; that of the data layout where it is empty.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        The sums in the layout of the data, with O channels.

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    if data_layout not in ("NCW", "NWC"):
        raise BadConvolution(
            f"there is no layout {data_layout!r} of one dimension",
            called=user_source(),
            reason="data is (N, C, W) or (N, W, C)",
            allowed='"NCW", "NWC"',
            fix='data_layout="NCW"',
        )
    layout = kernel_layout or {"NCW": "OIW", "NWC": "WIO"}[data_layout]
    return convolve(data, kernel, strides, padding, dilation, groups, data_layout, layout, out_dtype)


def conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Sizes = 1,
    padding: Padding = "VALID",
    dilation: Sizes = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv1d in the layout NCW.

    Parameters
    ----------
    data : Tensor
        (N, C, W).
    kernel : Tensor
        (O, C, KW).
    strides : int or sequence of int, default 1
        Steps between windows.
    padding : int, sequence of int or str, default "VALID"
        Zeros at the ends of the data: a number, (left, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        (N, O, OW).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return convolve(data, kernel, strides, padding, dilation, 1, "NCW", "OIW", out_dtype)


def conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Sizes = 1,
    padding: Padding = "VALID",
    dilation: Sizes = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv1d in the layout NWC.

    Parameters
    ----------
    data : Tensor
        (N, W, C).
    kernel : Tensor
        (KW, C, O).
    strides : int or sequence of int, default 1
        Steps between windows.
    padding : int, sequence of int or str, default "VALID"
        Zeros at the ends of the data: a number, (left, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        (N, OW, O).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return convolve(data, kernel, strides, padding, dilation, 1, "NWC", "WIO", out_dtype)


def group_conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Sizes = 1,
    padding: Padding = "VALID",
    dilation: Sizes = 1,
    groups: int = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv1d in groups, in the layout NCW.

    Parameters
    ----------
    data : Tensor
        (N, C, W).
    kernel : Tensor
        (O, C / groups, KW).
    strides : int or sequence of int, default 1
        Steps between windows.
    padding : int, sequence of int or str, default "VALID"
        Zeros at the ends of the data: a number, (left, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        (N, O, OW).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return convolve(data, kernel, strides, padding, dilation, groups, "NCW", "OIW", out_dtype)


def group_conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Sizes = 1,
    padding: Padding = "VALID",
    dilation: Sizes = 1,
    groups: int = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv1d in groups, in the layout NWC.

    Parameters
    ----------
    data : Tensor
        (N, W, C).
    kernel : Tensor
        (KW, C / groups, O).
    strides : int or sequence of int, default 1
        Steps between windows.
    padding : int, sequence of int or str, default "VALID"
        Zeros at the ends of the data: a number, (left, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        (N, OW, O).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return convolve(data, kernel, strides, padding, dilation, groups, "NWC", "WIO", out_dtype)


def conv2d_hwcn(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv2d in the layout HWCN.

    Parameters
    ----------
    data : Tensor
        (H, W, C, N).
    kernel : Tensor
        (KH, KW, C, O).
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for height and one for width.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        (OH, OW, O, N).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return convolve(data, kernel, stride, padding, dilation, 1, "HWCN", "HWIO", out_dtype)


def conv3d_ncdhw(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes = 1,
    groups: int = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """Convolution over three dimensions, in the layout NCDHW.

    Parameters
    ----------
    data : Tensor
        (N, C, D, H, W).
    kernel : Tensor
        (O, C / groups, KD, KH, KW).
    stride : int or sequence of int
        Steps between windows: a number, or three.
    padding : int, sequence of int or str
        Zeros around the data: a number, three, (front, top, left, back, bottom, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or three.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        (N, O, OD, OH, OW).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return convolve(data, kernel, stride, padding, dilation, groups, "NCDHW", "OIDHW", out_dtype)


def conv3d_ndhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes = 1,
    groups: int = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """Convolution over three dimensions, in the layout NDHWC.

    Parameters
    ----------
    data : Tensor
        (N, D, H, W, C).
    kernel : Tensor
        (KD, KH, KW, C / groups, O).
    stride : int or sequence of int
        Steps between windows: a number, or three.
    padding : int, sequence of int or str
        Zeros around the data: a number, three, (front, top, left, back, bottom, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or three.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        (N, OD, OH, OW, O).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return convolve(data, kernel, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype)


def conv1d_transpose_ncw(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    out_dtype: ElementType | None = None,
    output_padding: Sizes = 0,
) -> Tensor:
    """The transposed convolution over one dimension.

    Parameters
    ----------
    data : Tensor
        (N, C, W).
    kernel : Tensor
        (C, O, KW).
    stride : int or sequence of int
        Steps between the elements of the data in the result.
    padding : int, sequence of int or str
        Elements taken away at the ends of the result: a number, (left, right), "SAME" or "VALID".
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.
    output_padding : int or sequence of int, default 0
        Elements added at the right end.

    Returns
    -------
    Tensor
        (N, O, (W - 1) * stride - left - right + KW + output_padding).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    check_rank(data, 3, "(N, C, W)")
    return convolve_transposed(data, kernel, stride, padding, output_padding, out_dtype)


def conv3d_transpose_ncdhw(
    data: Tensor,
    kernel: Tensor,
    strides: Sizes,
    padding: Padding,
    out_dtype: ElementType | None = None,
    output_padding: Sizes = 0,
) -> Tensor:
    """The transposed convolution over three dimensions.

    Parameters
    ----------
    data : Tensor
        (N, C, D, H, W).
    kernel : Tensor
        (C, O, KD, KH, KW).
    strides : int or sequence of int
        Steps between the elements of the data in the result: a number, or three.
    padding : int, sequence of int or str
        Elements taken away around the result: a number, three, (front, top, left, back, bottom, right), "SAME" or
        "VALID".
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.
    output_padding : int or sequence of int, default 0
        Elements added at the end of each dimension: a number, or three.

    Returns
    -------
    Tensor
        (N, O, ...), the extents as of conv1d_transpose_ncw in each dimension.

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    check_rank(data, 5, "(N, C, D, H, W)")
    return convolve_transposed(data, kernel, strides, padding, output_padding, out_dtype)
