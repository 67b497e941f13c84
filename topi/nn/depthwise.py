"""Depthwise convolution: each channel is convolved by windows of its own.

    y[n, c * m + k, i, j] = sum over p, q of  data[n, c, i * stride + p * dilation, j * stride + q * dilation] * kernel[c, k, p, q]

for k below the channel multiplier m, over data that is padded by zeros. Each element is a sum of K = KH * KW products: for
float32 it is within K * 2**-24 * sum |data * kernel| of the exact one.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import user_source
from ...ir.expr import Expr, IntImm
from ...ir.ops import is_const
from ...te import polymorphic as te
from ...te.shape import same_extent, shape_text
from ...te.tensor import Tensor
from ..signatures import ElementType
from .convolutions import At, check_rank, layout_windows, sum_windows
from .window import BadConvolution, Padding, Sizes

__all__ = ["depthwise_conv2d", "depthwise_conv2d_nchw", "depthwise_conv2d_nhwc"]


def depthwise_conv2d(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes = 1,
    layout: str = "NCHW",
    out_dtype: ElementType | None = None,
) -> Tensor:
    """Depthwise convolution in either layout, with M windows for each channel.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W) or (N, H, W, C).
    kernel : Tensor
        (C, M, KH, KW), or as torch has it (C * M, 1, KH, KW); in NHWC (KH, KW, C, M).
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for height and one for width.
    layout : str, default "NCHW"
        "NCHW" or "NHWC".
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        The sums in the layout of the data, with C * M channels.

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    if layout == "NCHW":
        return depthwise_conv2d_nchw(data, kernel, stride, padding, dilation, out_dtype)
    if layout == "NHWC":
        return depthwise_conv2d_nhwc(data, kernel, stride, padding, dilation, out_dtype)
    raise BadConvolution(
        f"there is no layout {layout!r}",
        reason="layouts name the order of batch, channels, height and width",
        called=user_source(),
        fix='layout="NCHW"',
        allowed='"NCHW", "NHWC"',
    )


def depthwise_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """depthwise_conv2d in the layout NCHW.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W).
    kernel : Tensor
        (C, M, KH, KW), or (C * M, 1, KH, KW).
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
        (N, C * M, OH, OW).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return _depthwise(data, kernel, stride, padding, dilation, "NCHW", "OIHW", out_dtype)


def depthwise_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """depthwise_conv2d in the layout NHWC.

    Parameters
    ----------
    data : Tensor
        (N, H, W, C).
    kernel : Tensor
        (KH, KW, C, M).
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
        (N, OH, OW, C * M).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return _depthwise(data, kernel, stride, padding, dilation, "NHWC", "HWOI", out_dtype)


def _depthwise(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    kernel_layout: str,
    out_dtype: Any,
) -> Tensor:
    """The sum in a layout, the kernel's channels being O, and the windows of each I."""
    check_rank(data, 4, f"({', '.join(layout)})")
    check_rank(kernel, 4, "(C, M, KH, KW)" if layout == "NCHW" else "(KH, KW, C, M)")
    taps, channels = dict(zip(kernel_layout, kernel.shape, strict=True)), data.shape[layout.index("C")]
    stacked = layout == "NCHW" and is_const(taps["I"], 1) and _times(taps["O"], channels)
    multiplier = te.const(stacked, "int32") if stacked else taps["I"]
    if not stacked and not same_extent(taps["O"], channels):
        raise _misfit(data, kernel, channels, taps["O"])

    def place(c: Any) -> tuple[Any, Any]:
        """The channel of the data that one of the result is made from, and which of its windows it has."""
        return (c, 0) if is_const(multiplier, 1) else (te.indexdiv(c, multiplier), te.indexmod(c, multiplier))

    def weight(at: At, k: At) -> Expr:
        of, which = (at["C"], 0) if stacked else place(at["C"])
        there = {"O": of, "I": which, **k}
        return kernel[tuple(there[letter] for letter in kernel_layout)]

    return sum_windows(
        data,
        layout,
        layout_windows(data, layout, [taps["H"], taps["W"]], stride, padding, dilation),
        "HW",
        {**taps, "O": channels * multiplier},
        lambda at, k: {"C": place(at["C"])[0]},
        weight,
        f"depthwise_conv2d_{layout.lower()}",
        out_dtype=out_dtype,
        peeled=True,
    )


def _times(outer: Any, channels: Any) -> int:
    """Return the number of windows that each channel has where the kernel lists them one after the other; 0 where it does not."""
    if (
        not (isinstance(outer, IntImm) and isinstance(channels, IntImm))
        or same_extent(outer, channels)
        or not channels.value
    ):  # no channels: nothing to divide by
        return 0
    return 0 if outer.value % channels.value else outer.value // channels.value


def _misfit(data: Tensor, kernel: Tensor, channels: Any, outer: Any) -> BadConvolution:
    shapes = [f"{tensor.name} of shape {shape_text(tensor.shape)}" for tensor in (data, kernel)]
    return BadConvolution(
        f"{shapes[0]} and {shapes[1]} do not fit",
        declared=kernel.source,
        called=user_source(),
        reason=f"data has {channels} channels, the kernel has windows for {outer}",
        fix="a depthwise kernel is (C, M, KH, KW), or (KH, KW, C, M) for NHWC",
    )
