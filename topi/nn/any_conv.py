"""Convolution over any number of dimensions, in any layout: over one or three, and over two where no layout of its own serves.

    y[n, o, i, ...] = sum over c, p, ... of  data[n, c, i * stride + p * dilation, ...] * kernel[o, c, p, ...]

over data that is padded by zeros. Bounds of errors are those of conv2d. Layouts name a dimension by a letter: N, C, and D, H, W
in the data; O, I, and D, H, W in the kernel.
"""

from __future__ import annotations

from typing import Any

from ...errors import user_source
from ...ir.expr import Expr
from ...te import either as te
from ...te.tensor import Tensor
from .. import transform
from ..half_precision import convert_elements, sum_dtype
from ..signatures import ElementType
from .convolutions import check_channels, check_rank, tap_count, transposed_operands
from .errors import BadConvolution, BadWindow
from .window import Padding, Sizes, each_side, expand_numbers, window_count

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
    return _convolution(data, kernel, strides, padding, dilation, groups, data_layout, layout, out_dtype)


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
    return _convolution(data, kernel, strides, padding, dilation, 1, "NCW", "OIW", out_dtype)


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
    return _convolution(data, kernel, strides, padding, dilation, 1, "NWC", "WIO", out_dtype)


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
    return _convolution(data, kernel, strides, padding, dilation, groups, "NCW", "OIW", out_dtype)


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
    return _convolution(data, kernel, strides, padding, dilation, groups, "NWC", "WIO", out_dtype)


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
    return _convolution(data, kernel, stride, padding, dilation, 1, "HWCN", "HWIO", out_dtype)


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
    return _convolution(data, kernel, stride, padding, dilation, groups, "NCDHW", "OIDHW", out_dtype)


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
    return _convolution(data, kernel, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype)


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
    return _conv_transpose(data, kernel, stride, padding, out_dtype, output_padding, "NCW", "IOW")


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
    return _conv_transpose(data, kernel, strides, padding, out_dtype, output_padding, "NCDHW", "IODHW")


def _conv_transpose(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    out_dtype: Any,
    output_padding: Sizes,
    layout: str,
    kernel_layout: str,
) -> Tensor:
    check_rank(data, len(layout), layout)
    check_rank(kernel, len(kernel_layout), kernel_layout)
    reach = [tap_count(extent) for extent in kernel.shape[2:]]
    dims = len(reach)
    steps, more = expand_numbers(stride, dims, "stride"), expand_numbers(output_padding, dims, "output_padding", 0)
    low, high = each_side(padding, reach)
    ends = [taps + extra - pad for taps, pad, extra in zip(reach, high, more, strict=True)]
    if any(pad >= taps for taps, pad in zip(reach, low, strict=True)) or min(ends) < 1:
        raise BadWindow(
            f"padding is {padding!r}",
            called=user_source(),
            fix="padding below the kernel's extent",
            reason=f"it takes away more than a kernel of {' x '.join(map(str, reach))} adds",
        )
    image, turned = transposed_operands(data, kernel, steps, (*low, *high), [1] * dims, more, 1)
    return _convolution(image, turned, 1, 0, 1, 1, layout, kernel_layout.replace("IO", "OI"), out_dtype)


def _convolution(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    layout: str,
    kernel_layout: str,
    out_dtype: Any,
) -> Tensor:
    check_rank(data, len(layout), layout)
    check_rank(kernel, len(kernel_layout), kernel_layout)
    space = [letter for letter in layout if letter not in "NC"]
    if sorted(kernel_layout) != sorted(["O", "I", *space]):
        raise BadConvolution(
            f"there is no layout {kernel_layout!r} of a kernel for {layout} data",
            called=user_source(),
            reason="it names O, I and the dimensions of windows",
            fix=f'"OI{"".join(space)}"',
        )
    size, taps = (
        dict(zip(names, tensor.shape, strict=True)) for names, tensor in ((layout, data), (kernel_layout, kernel))
    )
    check_channels(data, size["C"], kernel, taps["I"], taps["O"], groups)
    steps, spread = expand_numbers(stride, len(space), "stride"), expand_numbers(dilation, len(space), "dilation")
    reach = [(tap_count(taps[name]) - 1) * by + 1 for name, by in zip(space, spread, strict=True)]
    low, high = each_side(padding, reach)
    names = {"D": "depth", "H": "height", "W": "width"}
    out = {
        name: window_count(size[name], before, after, wide, step, names[name])
        for name, before, after, wide, step in zip(space, low, high, reach, steps, strict=True)
    }
    pads = dict(zip(space, zip(low, high, strict=True), strict=True))
    image = data
    if any(low) or any(high):
        image = transform.pad(
            data,
            [pads[name][0] if name in pads else 0 for name in layout],
            [pads[name][1] if name in pads else 0 for name in layout],
            name="pad_temp",
        )
    axes = {name: te.reduce_axis((0, taps[name]), f"r{name.lower()}") for name in ("I", *space)}
    dtype, each = sum_dtype(data.dtype, out_dtype), 0 if groups == 1 else tap_count(taps["O"]) // groups

    def element(*i: Any) -> Expr:
        at = dict(zip(layout, i, strict=True))
        there = {"N": at["N"], "C": axes["I"] if groups == 1 else te.indexdiv(at["C"], each) * taps["I"] + axes["I"]}
        for name, step, by in zip(space, steps, spread, strict=True):
            there[name] = at[name] * step + axes[name] * by
        weight = kernel[tuple(at["C"] if name == "O" else axes[name] for name in kernel_layout)]
        value = image[tuple(there[name] for name in layout)]
        return te.sum(value.astype(dtype) * weight.astype(dtype), axis=list(axes.values()))

    convolved: Tensor = te.compute(
        tuple(taps["O"] if name == "C" else out.get(name, size[name]) for name in layout),
        element,
        name=f"conv{len(space)}d_{layout.lower()}",
    )
    return convert_elements(convolved, out_dtype or data.dtype)
