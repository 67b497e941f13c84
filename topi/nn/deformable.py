"""Convolutions whose taps lie where data says."""

from __future__ import annotations

from typing import Any

from ...ir.expr import IntImm
from ...te import polymorphic as te
from ...te.tensor import Tensor
from ..checks import tensor
from ..image.sampling import weigh_neighbours
from ..signatures import ElementType, Positive
from ..transform import reshape, transpose
from .conv2d import conv2d
from .convolutions import check_channels, check_rank, misfit, tap_count
from .window import Padding, Sizes, slide_windows

__all__ = ["deformable_conv2d_nchw", "deformable_conv2d_nhwc"]


def deformable_conv2d_nchw(
    data: Tensor,
    offset: Tensor,
    kernel: Tensor,
    strides: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    deformable_groups: Positive = 1,
    groups: Positive = 1,
    out_dtype: ElementType | None = None,
    mask: Tensor | None = None,
    partial: bool = True,
) -> Tensor:
    """The convolution whose taps are moved by offsets and weighed by a mask (J. Dai et al., 2017).

    Between elements taps are weighed bilinearly, and outside of the data they are zeros.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W).
    offset : Tensor
        (N, deformable_groups * KH * KW * 2, OH, OW), in elements, rows before columns.
    kernel : Tensor
        (O, C / groups, KH, KW).
    strides : int or sequence of int, default 1
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str, default 0
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for height and one for width.
    deformable_groups : int, default 1
        Into how many parts the channels are cut, each with offsets of its own.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.
    mask : Tensor or None, default None
        (N, deformable_groups * KH * KW, OH, OW), or None for 1.
    partial : bool, default True
        Whether a tap less than one element before the first is weighed from it and zeros. Without, as in TVM, it counts
        nothing.

    Returns
    -------
    Tensor
        (N, O, OH, OW).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    check_rank(data, 4, "NCHW")
    check_rank(kernel, 4, "OIHW")
    moved = tensor(offset, "the offset of deformable_conv2d", 4)
    check_channels(data, data.shape[1], kernel, kernel.shape[1], kernel.shape[0], groups)
    taps = [tap_count(extent) for extent in kernel.shape[2:]]
    channels, outputs = tap_count(data.shape[1]), tap_count(kernel.shape[0])
    slides = slide_windows(data.shape[2:], taps, strides, padding, dilation, ("height", "width"))
    steps, far, low, out = slides.steps, slides.far, slides.low, slides.out
    count = taps[0] * taps[1]
    for name, given, numbers in (("an offset", moved, 2), ("a mask", mask, 1)):
        wanted = [data.shape[0], deformable_groups * count * numbers, *out]
        # a mask has one number for a tap, an offset two
        if given is not None and (channels % deformable_groups or not _may_have(tensor(given, name, 4), wanted)):
            sizes = f"({', '.join(map(str, wanted))}), {numbers} for each of {count} taps of {deformable_groups} groups"
            raise misfit(given, kernel, f"{name} is {sizes}")
    each = channels // deformable_groups
    kind = "float64" if str(data.dtype) == "float64" else "float32"

    def column(n: Any, row: Any, y: Any, x: Any) -> Any:
        channel, tap = te.indexdiv(row, count), te.indexmod(row, count)
        which = te.indexdiv(channel, each) * count + tap  # offsets belong to groups of channels
        turns = te.indexdiv(tap, taps[1]), te.indexmod(tap, taps[1])
        places: list[Any] = []
        for dim, index in enumerate((y, x)):
            own = (index * steps[dim] - low[dim] + turns[dim] * far[dim]).astype(kind)
            place = own + moved[n, 2 * which + dim, y, x].astype(kind)
            # places far outside are brought near before they become integers
            places.append(te.max(te.min(place, (data.shape[2 + dim] + 1).astype(kind)), -2))
        value = weigh_neighbours(data, (n, channel), places, 2, "zeros")
        if not partial:
            # TVM counts no tap that begins outside
            value = te.select(te.all(*(place >= 0 for place in places)), value, te.const(0, value.dtype))
        return (value if mask is None else value * mask[n, which, y, x].astype(kind)).astype(data.dtype)

    columns = te.compute((data.shape[0], channels * count, *out), column, name="deformed")
    # taps are columns already, so that the convolution is one by one
    weights = reshape(kernel, (outputs, channels // groups * count, 1, 1))
    return conv2d(columns, weights, 1, 0, 1, groups, "NCHW", out_dtype)


def _may_have(given: Tensor, shape: list[Any]) -> bool:
    """Return whether no extent is known to be another one; of symbols it is asked when a kernel is called."""
    numbers = [extent.value if isinstance(extent, IntImm) else extent for extent in shape]
    return all(
        not isinstance(extent, IntImm) or not isinstance(number, int) or extent.value == number
        for extent, number in zip(given.shape, numbers, strict=True)
    )


def deformable_conv2d_nhwc(
    data: Tensor,
    offset: Tensor,
    kernel: Tensor,
    strides: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    deformable_groups: Positive = 1,
    groups: Positive = 1,
    out_dtype: ElementType | None = None,
    mask: Tensor | None = None,
    partial: bool = True,
) -> Tensor:
    """deformable_conv2d_nchw in the layout NHWC.

    Parameters
    ----------
    data : Tensor
        (N, H, W, C).
    offset : Tensor
        (N, OH, OW, deformable_groups * KH * KW * 2), in elements, rows before columns.
    kernel : Tensor
        (KH, KW, C / groups, O).
    strides : int or sequence of int, default 1
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str, default 0
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for height and one for width.
    deformable_groups : int, default 1
        Into how many parts the channels are cut, each with offsets of its own.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.
    mask : Tensor or None, default None
        (N, deformable_groups * KH * KW, OH, OW), or None for 1.
    partial : bool, default True
        As of deformable_conv2d_nchw.

    Returns
    -------
    Tensor
        (N, OH, OW, O).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    first = [transpose(tensor(each, "deformable_conv2d", 4), (0, 3, 1, 2)) for each in (data, offset)]
    weights = transpose(tensor(kernel, "the kernel of deformable_conv2d", 4), (3, 2, 0, 1))
    result = deformable_conv2d_nchw(
        first[0], first[1], weights, strides, padding, dilation, deformable_groups, groups, out_dtype, mask, partial
    )
    return transpose(result, (0, 2, 3, 1))
