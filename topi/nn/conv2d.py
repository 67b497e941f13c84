"""Two-dimensional convolution.

    y[n, o, i, j] = sum over c, p, q of  data[n, c, i * stride + p * dilation, j * stride + q * dilation] * kernel[o, c, p, q]

over data that is padded by zeros. A bias, a folded batch norm, relu and residuals are written behind it, and schedules put
them into its store:

    y = topi.nn.conv2d(data, kernel, stride=1, padding=1)
    z = topi.nn.relu(te.compute(y.shape, lambda n, o, i, j: y[n, o, i, j] + bias[o]))

Each element is a sum of K = C/groups * KH * KW products, in an order that schedules choose: for float32 it is within
K * 2**-24 * sum |data * kernel| of the exact one.

Weights that stay the same from call to call are best laid out once: conv2d_prepack gives them in blocks of output
channels, and conv2d_prepacked takes them.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import user_source
from ...ir.expr import Expr, IntImm
from ...te import polymorphic as te
from ...te.shape import integer_value, same_extent, shape_text
from ...te.tensor import Tensor
from ..alternatives import offer
from ..checks import weights
from ..signatures import ElementType, Positive
from .convolutions import (
    At,
    check_channels,
    check_rank,
    convolve,
    convolve_transposed,
    layout_windows,
    misfit,
    sum_windows,
    tap_count,
)
from .window import BadConvolution, Padding, Sizes, pair

__all__ = [
    "conv2d",
    "conv2d_NCHWc",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv2d_prepack",
    "conv2d_prepacked",
    "conv2d_transpose",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
]

ALGORITHMS = ("direct", "winograd", "auto")
"""What conv2d can be asked for."""
PACK = 16
"""Output channels that lie side by side in packed weights: a vector of float32 on the widest machines, several on others."""


def conv2d(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    layout: str = "NCHW",
    out_dtype: ElementType | None = None,
    algorithm: str = "direct",
) -> Tensor:
    """Convolution in any layout.

    Winograd's results are within 16 * 2**-24 * S of the exact ones, S being the greatest sum of |data * kernel| of any
    element (winograd.py). For what is small beside its neighbours this is more than the direct ones' error above. By
    hand the other algorithm is chosen by `s.redeclare(y, "winograd")`.

    Parameters
    ----------
    data : Tensor
        In the given layout: (N, C, H, W), (N, H, W, C), or (N, C / 16, H, W, 16) for "NCHW16c".
    kernel : Tensor
        (O, C / groups, KH, KW), (KH, KW, C / groups, O), or (O / 16, C / 16, KH, KW, 16, 16), the input's block before
        the output's.
    stride : int or sequence of int, default 1
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str, default 0
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for height and one for width.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.
    layout : str, default "NCHW"
        Of data and result: "NCHW", "NHWC", or blocked, "NCHW16c".
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.
    algorithm : str, default "direct"
        "direct"; "winograd", for 3 by 3 windows in NCHW where all of stride, dilation and groups is 1; or "auto", the
        one that a schedule by rules estimates to take less time: Winograd's for float32 alone, and never with
        exact=True.

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
    if algorithm not in ALGORITHMS:
        raise _bad(
            f"there is no algorithm {algorithm!r}",
            "an algorithm says how a convolution is computed",
            'algorithm="auto"',
            ", ".join(f'"{name}"' for name in ALGORITHMS),
        )
    winograd = (
        None
        if algorithm == "direct"
        else winograd_way(data, kernel, stride, padding, dilation, groups, layout, out_dtype)
    )
    if algorithm == "winograd":
        if winograd is None:
            raise _bad(
                "Winograd's algorithm does not compute this convolution",
                f"layout {layout}, kernel {shape_text(kernel.shape)}, stride {pair(stride, 'stride')}, "
                f"dilation {pair(dilation, 'dilation')}, groups {groups}, {data.dtype} summed in {out_dtype or data.dtype}",
                'algorithm="auto", which takes it where it can',
                "floats in NCHW, kernels of 3 by 3, stride, dilation and groups of 1, sums in the data's dtype",
            )
        return winograd()
    result = _direct(data, kernel, stride, padding, dilation, groups, layout, out_dtype)
    # an alternative, which a schedule by rules takes where it estimates less time; other dtypes lose accuracy
    return result if str(data.dtype) != "float32" else offer(result, {"winograd": winograd})


def _direct(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, layout: str, out_dtype: Any
) -> Tensor:
    if layout == "NCHW":
        return convolve(data, kernel, stride, padding, dilation, groups, "NCHW", "OIHW", out_dtype)
    if layout == "NHWC":
        return convolve(data, kernel, stride, padding, dilation, groups, "NHWC", "HWIO", out_dtype)
    if re.fullmatch(r"NCHW([1-9]\d*)?c", layout):
        _blocks_match(data, layout)
        return conv2d_NCHWc(data, kernel, stride, padding, dilation, layout, "NCHWc", out_dtype, groups)
    raise _bad(
        f"there is no layout {layout!r}",
        "layouts name the order of batch, channels, height and width",
        'layout="NCHW"',
        '"NCHW", "NHWC", "NCHW8c", "NCHW16c" ...',
    )


def winograd_way(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    layout: str = "NCHW",
    out_dtype: Any = None,
) -> partial[Tensor] | None:
    """The same by Winograd's algorithm; None where that does not compute it."""
    # the transforms are of windows that lie side by side
    plain = pair(stride, "stride") == pair(dilation, "dilation") == (1, 1) and groups == 1
    # sums in another type would be rounded elsewhere
    taken = data.dtype.is_float and out_dtype in (None, data.dtype, str(data.dtype))
    numbers = [extent.value if isinstance(extent, IntImm) else 0 for extent in kernel.shape]
    if not plain or not taken or not isinstance(kernel.shape[0], IntImm) or numbers[2:4] != [3, 3]:
        return None
    from .winograd import conv2d_winograd, conv2d_winograd_blocks  # whose packed weights are blocks as they are here

    if layout == "NCHW" and data.ndim == kernel.ndim == 4:
        return partial(conv2d_winograd, data, kernel, padding)
    # blocks as conv2d_winograd packs them
    if layout.startswith("NCHW") and data.ndim == 5 and kernel.ndim == 6 and numbers[4] > 1 and numbers[5] == PACK:
        return partial(conv2d_winograd_blocks, data, kernel, padding)
    return None


def saves_by_winograd(data: Tensor, kernel: Tensor) -> bool:
    """Return whether Winograd's algorithm computes a convolution of float32 with fewer operations, its transforms among them; not where
    sizes but the batch are unknown."""
    if str(data.dtype) != "float32" or not all(map(integer_value, (*data.shape[1:], *kernel.shape))):
        return False
    outputs, inputs, _, _, *block = (integer_value(extent) or 0 for extent in kernel.shape)
    if block:  # (O / o, C / c, KH, KW, c, o)
        outputs, inputs = outputs * block[1], inputs * block[0]
    packed = -(-outputs // PACK) * PACK  # the last block of transformed weights is filled up
    # a tile of 2 x 2 results comes from a square of 4 x 4 places, of 32 additions, and with 24
    return 16 * inputs * packed + 32 * inputs + 24 * packed < 4 * 9 * inputs * outputs


def conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv2d in the layout NCHW.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W).
    kernel : Tensor
        (O, C, KH, KW).
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
        (N, O, OH, OW).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return convolve(data, kernel, stride, padding, dilation, 1, "NCHW", "OIHW", out_dtype)


def group_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv2d in groups, in the layout NCHW.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W).
    kernel : Tensor
        (O, C / groups, KH, KW).
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    dilation : int or sequence of int
        Steps between the taps of a window: a number, or one for height and one for width.
    groups : int
        Into how many parts the channels are cut, each of which is convolved by itself.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        (N, O, OH, OW).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return convolve(data, kernel, stride, padding, dilation, groups, "NCHW", "OIHW", out_dtype)


def group_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv2d in groups, in the layout NHWC.

    Parameters
    ----------
    data : Tensor
        (N, H, W, C).
    kernel : Tensor
        (KH, KW, C / groups, O).
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    dilation : int or sequence of int
        Steps between the taps of a window: a number, or one for height and one for width.
    groups : int
        Into how many parts the channels are cut, each of which is convolved by itself.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        (N, OH, OW, O).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return convolve(data, kernel, stride, padding, dilation, groups, "NHWC", "HWIO", out_dtype)


def conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv2d in the layout NHWC.

    Parameters
    ----------
    data : Tensor
        (N, H, W, C).
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
        (N, OH, OW, O).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    return convolve(data, kernel, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype)


def conv2d_transpose(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    out_dtype: ElementType | None = None,
    groups: int = 1,
) -> Tensor:
    """The transposed convolution: the gradient of a convolution towards its data.

    It is computed as a convolution of stride 1 over data with zeros between its elements.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W).
    kernel : Tensor
        (C, O / groups, KH, KW).
    stride : int or sequence of int, default 1
        Steps between the elements of the data in the result: a number, or one for height and one for width.
    padding : int, sequence of int or str, default 0
        Elements taken away around the result: a number, a pair, (top, left, bottom, right), "SAME" or "VALID".
    output_padding : int or sequence of int, default 0
        Rows and columns added below and to the right: a number, or one for height and one for width.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.

    Returns
    -------
    Tensor
        (N, O, (H - 1) * stride - top - bottom + KH + output_padding, ...).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    check_rank(data, 4, "(N, C, H, W)")
    return convolve_transposed(data, kernel, stride, padding, output_padding, out_dtype, groups)


def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes = 1,
    layout: str = "NCHWc",
    out_layout: str = "NCHWc",
    out_dtype: ElementType | None = None,
    groups: int = 1,
) -> Tensor:
    """conv2d in blocks of channels. The channels of a group are whole blocks.

    Parameters
    ----------
    data : Tensor
        (N, C / c, H, W, c).
    kernel : Tensor
        (O / o, C / groups / c, KH, KW, c, o).
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for height and one for width.
    layout : str, default "NCHWc"
        "NCHWc", or with the block's size; as TVM's callers pass it. The blocks are those of the tensors.
    out_layout : str, default "NCHWc"
        The same of the result.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.

    Returns
    -------
    Tensor
        (N, O / o, OH, OW, o).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    check_rank(data, 5, "(N, C/c, H, W, c)")
    check_rank(kernel, 6, "(O/o, C/c, KH, KW, c, o)")
    _blocks_match(data, layout)
    block, in_block, out_block = data.shape[4], *kernel.shape[4:]
    if not same_extent(block, in_block):  # the sum runs over a whole block
        raise misfit(data, kernel, f"data's blocks hold {block} channels, the kernel's {in_block}")
    if out_layout not in ("NCHWc", f"NCHW{out_block}c"):
        raise _bad(
            f"the result cannot be {out_layout}",
            f"the kernel's blocks of output channels hold {out_block}",
            f'out_layout="NCHW{out_block}c"',
        )
    return convolve(data, kernel, stride, padding, dilation, groups, "NCHWc", "OIHWio", out_dtype)


def conv2d_prepack(kernel: Tensor | NDArray[Any], groups: Positive = 1, block: Positive = PACK) -> Any:
    """Weights for conv2d_prepacked: `block` output channels side by side, those of a group filled up with zeros.

    Parameters
    ----------
    kernel : Tensor or numpy array
        (O, C / groups, KH, KW). A numpy array gives a new one of its dtype; a tensor is packed in the kernel that
        computes the result.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.
    block : int, default PACK
        Output channels that lie side by side.

    Returns
    -------
    Tensor or numpy array
        (groups * ceil(O / groups / block), C / groups, KH, KW, block).

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    """
    given = weights(kernel, "topi.nn.conv2d_prepack", 4)
    outputs = tap_count(kernel.shape[0]) if isinstance(kernel, Tensor) else kernel.shape[0]
    if outputs % groups:
        raise BadConvolution(
            f"{outputs} output channels are not {groups} groups of one size",
            called=user_source(),
            fix="groups=1, or a number that divides them",
        )
    if isinstance(kernel, Tensor):
        # each group is filled up to whole blocks of its own
        each, blocks = outputs // groups, -(-(outputs // groups) // block)

        def element(ob: Any, c: Any, p: Any, q: Any, v: Any) -> Expr:
            channel = te.indexmod(ob, blocks) * block + v
            value = kernel[te.indexdiv(ob, blocks) * each + channel, c, p, q]
            # no condition where groups are whole blocks
            return value if each % block == 0 else te.if_then_else(channel < each, value, te.const(0, kernel.dtype))

        return te.compute(
            (groups * blocks, *kernel.shape[1:], block), element, name=f"{kernel.name}_packed", tag="injective"
        )
    rest = given.shape[1:]
    each, blocks = outputs // groups, -(-(outputs // groups) // block)
    wide = np.zeros((groups, blocks * block, *rest), given.dtype)
    wide[:, :each] = given.reshape(groups, each, *rest)
    packed = wide.reshape(groups * blocks, block, *rest)
    return np.ascontiguousarray(np.moveaxis(packed, 1, -1))  # contiguous: the kernel reads blocks one after the other


def conv2d_prepacked(
    data: Tensor,
    packed: Tensor,
    channels: int,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes = 1,
    groups: int = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv2d in the layout NCHW with weights that conv2d_prepack gives.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W).
    packed : Tensor
        Of conv2d_prepack.
    channels : int
        O, the channels of the result.
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    dilation : int or sequence of int, default 1
        Steps between the taps of a window: a number, or one for height and one for width.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.
    out_dtype : dtype or None, default None
        What is summed in, and the dtype of the result; that of the data where it is None. float16 and bfloat16 are then
        summed in float32, and rounded once.

    Returns
    -------
    Tensor
        (N, O, OH, OW).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    check_rank(data, 4, "(N, C, H, W)")
    check_rank(packed, 5, "(blocks, C / groups, KH, KW, block)")
    blocks, inputs, *reach, block = packed.shape
    check_channels(data, data.shape[1], packed, inputs, channels, groups)
    wide, each = tap_count(block), channels // groups
    # a symbolic number of blocks is checked when the kernel is called
    if isinstance(blocks, IntImm) and blocks.value != groups * -(-each // wide):
        raise misfit(
            data, packed, f"{channels} output channels make {groups * -(-each // wide)} blocks of {wide}, not {blocks}"
        )

    def weight(at: At, k: At) -> Expr:
        o, taps = at["C"], (k["I"], k["H"], k["W"])
        if each % wide == 0 or groups == 1:  # without rests blocks are those of all channels
            return packed[(te.indexdiv(o, wide), *taps, te.indexmod(o, wide))]
        of_group = te.indexmod(o, each)
        band = te.indexdiv(o, each) * -(-each // wide) + te.indexdiv(of_group, wide)
        return packed[(band, *taps, te.indexmod(of_group, wide))]

    return sum_windows(
        data,
        "NCHW",
        layout_windows(data, "NCHW", reach, stride, padding, dilation),
        "IHW",
        {"O": channels, "I": inputs, "H": reach[0], "W": reach[1]},
        lambda at, k: {"C": k["I"] if groups == 1 else te.indexdiv(at["C"], each) * inputs + k["I"]},
        weight,
        "conv2d_nchw" if groups == 1 else "group_conv2d_nchw",
        groups,
        out_dtype,
    )


# What does not fit


def _blocks_match(data: Tensor, layout: str) -> None:
    if data.ndim != 5 or layout not in ("NCHWc", f"NCHW{data.shape[4]}c"):
        raise _bad(
            f"{data.name} is not {layout}",
            f"its shape is {shape_text(data.shape)}",
            "pass data as (N, C/c, H, W, c), and c in the layout",
        )


def _bad(headline: str, reason: str, fix: str, allowed: str = "") -> BadConvolution:
    return BadConvolution(headline, reason=reason, called=user_source(), fix=fix, allowed=allowed)
