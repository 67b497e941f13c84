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
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import user_source
from ...ir.expr import Expr, IntImm
from ...te import either as te
from ...te.shape import same_extent, shape_text
from ...te.tensor import Tensor
from ..alternatives import offer
from ..checks import weights
from ..half_precision import convert_elements, sum_dtype
from ..signatures import ElementType, Positive
from .convolutions import check_channels, check_rank, misfit, tap_count, transposed_operands
from .errors import BadConvolution
from .image_windows import Windows
from .window import pad_amounts, padded, pair

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
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: str = "NCHW",
    out_dtype: ElementType | None = None,
    algorithm: str = "direct",
) -> Tensor:
    """Convolution in any layout.

    layout: of data and result: "NCHW" (kernel OIHW), "NHWC" (kernel HWIO), or blocked, "NCHW16c" (data (N, C/16, H, W, 16),
    kernel (O/16, C/16, KH, KW, 16, 16), the input's block before the output's). stride, dilation: a number, or a pair for
    height and width. padding: a number, a pair, (top, left, bottom, right), "SAME" or "VALID". groups: data's and the
    result's channels are cut into so many, which do not see each other; kernel has C/groups input channels. out_dtype: what
    is summed in, and the result's type; if None the data's, and float16 and bfloat16 are summed in float32 and rounded once.
    algorithm: "direct"; "winograd", for NCHW 3 by 3 where all of stride, dilation and
    groups is 1; or "auto", the one of them that a schedule by rules estimates to take less time (by hand: `s.redeclare(y, "winograd")`),
    Winograd's for float32 alone and never with exact=True. Winograd's results are within 16 * 2**-24 * S of the exact ones, S being the
    greatest sum of |data * kernel| of any element (winograd.py), which for what is small beside its neighbours is more than
    the direct ones' error above. Raises BadConvolution (TW0191) and BadWindow (TW0190).
    """
    if algorithm not in ALGORITHMS:
        raise _bad(
            f"there is no algorithm {algorithm!r}",
            "an algorithm says how a convolution is computed",
            'algorithm="auto"',
            ", ".join(f'"{name}"' for name in ALGORITHMS),
        )
    winograd = (
        None if algorithm == "direct" else _winograd(data, kernel, stride, padding, dilation, groups, layout, out_dtype)
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
    return result if winograd is None or str(data.dtype) != "float32" else offer(result, winograd=winograd)


def _direct(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, layout: str, out_dtype: Any
) -> Tensor:
    if layout == "NCHW":
        return _nchw(data, kernel, stride, padding, dilation, groups, out_dtype)
    if layout == "NHWC":
        return _nhwc(data, kernel, stride, padding, dilation, groups, out_dtype)
    if re.fullmatch(r"NCHW([1-9]\d*)?c", layout):
        _blocks_match(data, layout)
        return conv2d_NCHWc(data, kernel, stride, padding, dilation, layout, "NCHWc", out_dtype, groups)
    raise _bad(
        f"there is no layout {layout!r}",
        "layouts name the order of batch, channels, height and width",
        'layout="NCHW"',
        '"NCHW", "NHWC", "NCHW8c", "NCHW16c" ...',
    )


def _winograd(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, layout: str, out_dtype: Any
) -> Callable[[], Tensor] | None:
    """The same by Winograd's algorithm; None where that does not compute it."""
    plain = pair(stride, "stride") == pair(dilation, "dilation") == (1, 1) and groups == 1
    taken = data.dtype.is_float and out_dtype in (None, data.dtype, str(data.dtype))
    numbers = [extent.value if isinstance(extent, IntImm) else 0 for extent in kernel.shape]
    if not plain or not taken or not isinstance(kernel.shape[0], IntImm) or numbers[2:4] != [3, 3]:
        return None
    from .winograd import conv2d_winograd, conv2d_winograd_blocks  # whose packed weights are blocks as they are here

    if layout == "NCHW" and data.ndim == kernel.ndim == 4:
        return lambda: conv2d_winograd(data, kernel, padding)
    if layout.startswith("NCHW") and data.ndim == 5 and kernel.ndim == 6 and numbers[4] > 1 and numbers[5] == PACK:
        return lambda: conv2d_winograd_blocks(data, kernel, padding)
    return None


def conv2d_nchw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: ElementType | None = None
) -> Tensor:
    """conv2d over data (N, C, H, W) and kernel (O, C, KH, KW); the result is (N, O, OH, OW). Raises BadConvolution (TW0191),
    BadWindow (TW0190)."""
    return _nchw(data, kernel, stride, padding, dilation, 1, out_dtype)


def group_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv2d in groups over data (N, C, H, W) and kernel (O, C / groups, KH, KW); the result is (N, O, OH, OW). Raises
    BadConvolution (TW0191), BadWindow (TW0190)."""
    return _nchw(data, kernel, stride, padding, dilation, groups, out_dtype)


def group_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv2d in groups over data (N, H, W, C) and kernel (KH, KW, C / groups, O); the result is (N, OH, OW, O). Raises
    BadConvolution (TW0191), BadWindow (TW0190)."""
    return _nhwc(data, kernel, stride, padding, dilation, groups, out_dtype)


def conv2d_nhwc(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: ElementType | None = None
) -> Tensor:
    """conv2d over data (N, H, W, C) and kernel (KH, KW, C, O); the result is (N, OH, OW, O). Raises BadConvolution (TW0191),
    BadWindow (TW0190)."""
    return _nhwc(data, kernel, stride, padding, dilation, 1, out_dtype)


def conv2d_transpose(
    data: Tensor,
    kernel: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    out_dtype: ElementType | None = None,
    groups: int = 1,
) -> Tensor:
    """The transposed convolution (the gradient of a convolution towards its data) of data (N, C, H, W) with kernel
    (C, O / groups, KH, KW): (N, O, (H - 1) * stride - top - bottom + KH + output_padding, ...), as a convolution of stride 1 over
    data with zeros between its elements. Raises BadConvolution (TW0191) and BadWindow (TW0190)."""
    check_rank(data, 4, "(N, C, H, W)")
    check_rank(kernel, 4, "(C, O, KH, KW)")
    channels, (inputs, outputs, *extents) = data.shape[1], kernel.shape
    check_channels(data, channels, kernel, inputs, outputs, 1)
    check_channels(data, channels, kernel, te.indexdiv(inputs, groups), outputs * groups, groups)
    reach = (tap_count(extents[0]), tap_count(extents[1]))
    steps, more, pads = pair(stride, "stride"), pair(output_padding, "output_padding", 0), pad_amounts(padding, reach)
    image, turned = transposed_operands(data, kernel, steps, pads, (1, 1), more, groups)
    return _nchw(image, turned, 1, 0, 1, groups, out_dtype)


def _nchw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, out_dtype: Any
) -> Tensor:
    check_rank(data, 4, "(N, C, H, W)")
    check_rank(kernel, 4, "(O, C / groups, KH, KW)")
    batch, channels, *size = data.shape
    outputs, inputs, *reach = kernel.shape
    check_channels(data, channels, kernel, inputs, outputs, groups)
    windows = Windows.of(size, reach, stride, padding, dilation)

    def weight(o: Any, c: Any, p: Any, q: Any) -> Expr:
        return kernel[o, c, p, q]

    return _channels_first(data, weight, (batch, outputs), (inputs, *reach), windows, groups, out_dtype)


def _channels_first(
    data: Tensor,
    weight: Any,
    outer: tuple[Any, Any],
    taps: tuple[Any, ...],
    windows: Windows,
    groups: int,
    out_dtype: Any,
) -> Tensor:
    """The sum over data (N, C, H, W). outer: batch and output channels; taps: (C / groups, KH, KW)."""
    image = padded(data, windows.pads, (2, 3))
    c, p, q = (te.reduce_axis((0, extent), name) for extent, name in zip(taps, ("rc", "ry", "rx"), strict=True))
    dtype = sum_dtype(data.dtype, out_dtype)
    each = 0 if groups == 1 else tap_count(outer[1]) // groups

    def element(n: Any, o: Any, i: Any, j: Any) -> Expr:
        channel = c if groups == 1 else te.indexdiv(o, each) * taps[0] + c
        value = image[(n, channel, *windows.at(i, j, p, q))]
        return te.sum(value.astype(dtype) * weight(o, c, p, q).astype(dtype), axis=[c, p, q])

    name = "conv2d_nchw" if groups == 1 else "group_conv2d_nchw"
    sums = te.compute((*outer, *windows.out), element, name=name, tag=name, attrs=windows.attrs(groups))
    return convert_elements(sums, out_dtype or data.dtype)


def _nhwc(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, out_dtype: Any
) -> Tensor:
    check_rank(data, 4, "(N, H, W, C)")
    check_rank(kernel, 4, "(KH, KW, C / groups, O)")
    batch, *size, channels = data.shape
    *reach, inputs, outputs = kernel.shape
    check_channels(data, channels, kernel, inputs, outputs, groups)
    windows = Windows.of(size, reach, stride, padding, dilation)
    image = padded(data, windows.pads, (1, 2))
    p, q, c = (
        te.reduce_axis((0, extent), name) for extent, name in zip((*reach, inputs), ("ry", "rx", "rc"), strict=True)
    )
    dtype = sum_dtype(data.dtype, out_dtype)
    each = 0 if groups == 1 else tap_count(outputs) // groups

    def element(n: Any, i: Any, j: Any, o: Any) -> Expr:
        channel = c if groups == 1 else te.indexdiv(o, each) * inputs + c
        value = image[(n, *windows.at(i, j, p, q), channel)]
        return te.sum(value.astype(dtype) * kernel[p, q, c, o].astype(dtype), axis=[p, q, c])

    name = "conv2d_nhwc" if groups == 1 else "group_conv2d_nhwc"
    sums = te.compute((batch, *windows.out, outputs), element, name=name, tag=name, attrs=windows.attrs(groups))
    return convert_elements(sums, out_dtype or data.dtype)


def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    layout: str = "NCHWc",
    out_layout: str = "NCHWc",
    out_dtype: ElementType | None = None,
    groups: int = 1,
) -> Tensor:
    """conv2d over data (N, C/c, H, W, c) and kernel (O/o, C/groups/c, KH, KW, c, o); the result is (N, O/o, OH, OW, o).

    layout, out_layout: as TVM's callers pass them; the blocks are those of the tensors. Channels of a group are whole blocks.
    Raises BadConvolution (TW0191), BadWindow (TW0190).
    """
    check_rank(data, 5, "(N, C/c, H, W, c)")
    check_rank(kernel, 6, "(O/o, C/c, KH, KW, c, o)")
    _blocks_match(data, layout)
    batch, chunks, *size, block = data.shape
    out_chunks, in_chunks, *reach, in_block, out_block = kernel.shape
    if not same_extent(block, in_block):
        raise misfit(data, kernel, f"data's blocks hold {block} channels, the kernel's {in_block}")
    if out_layout not in ("NCHWc", f"NCHW{out_block}c"):
        raise _bad(
            f"the result cannot be {out_layout}",
            f"the kernel's blocks of output channels hold {out_block}",
            f'out_layout="NCHW{out_block}c"',
        )
    check_channels(data, chunks, kernel, in_chunks, out_chunks, groups)
    windows = Windows.of(size, reach, stride, padding, dilation)
    image = padded(data, windows.pads, (2, 3))
    c, p, q, b = (
        te.reduce_axis((0, extent), name)
        for extent, name in zip((in_chunks, *reach, in_block), ("rc", "ry", "rx", "rb"), strict=True)
    )
    dtype = sum_dtype(data.dtype, out_dtype)
    each = 0 if groups == 1 else tap_count(out_chunks) // groups

    def element(n: Any, o: Any, i: Any, j: Any, v: Any) -> Expr:
        chunk = c if groups == 1 else te.indexdiv(o, each) * in_chunks + c
        value = image[(n, chunk, *windows.at(i, j, p, q), b)]
        return te.sum(value.astype(dtype) * kernel[o, c, p, q, b, v].astype(dtype), axis=[c, p, q, b])

    sums = te.compute(
        (batch, out_chunks, *windows.out, out_block),
        element,
        name="conv2d_NCHWc",
        tag="conv2d_NCHWc",
        attrs=windows.attrs(groups),
    )
    return convert_elements(sums, out_dtype or data.dtype)


def conv2d_prepack(kernel: Tensor | NDArray[Any], groups: Positive = 1, block: Positive = PACK) -> Any:
    """Weights (O, I, KH, KW) as (groups * ceil(O / groups / block), I, KH, KW, block): `block` output channels side by side, those
    of a group filled up with zeros. For conv2d_prepacked.

    kernel: a numpy array, of which a new one of its dtype is made, or a tensor, which is packed in the kernel that computes the
    result. Raises BadOperand (TW0181) for anything but four dimensions.
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
        each, blocks = outputs // groups, -(-(outputs // groups) // block)

        def element(ob: Any, c: Any, p: Any, q: Any, v: Any) -> Expr:
            channel = te.indexmod(ob, blocks) * block + v
            value = kernel[te.indexdiv(ob, blocks) * each + channel, c, p, q]
            return value if each % block == 0 else te.if_then_else(channel < each, value, te.const(0, kernel.dtype))

        return te.compute(
            (groups * blocks, *kernel.shape[1:], block), element, name=f"{kernel.name}_packed", tag="injective"
        )
    rest = given.shape[1:]
    each, blocks = outputs // groups, -(-(outputs // groups) // block)
    wide = np.zeros((groups, blocks * block, *rest), given.dtype)
    wide[:, :each] = given.reshape(groups, each, *rest)
    packed = wide.reshape(groups * blocks, block, *rest)
    return np.ascontiguousarray(np.moveaxis(packed, 1, -1))


def conv2d_prepacked(
    data: Tensor,
    packed: Tensor,
    channels: int,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv2d over data (N, C, H, W) with the weights that conv2d_prepack gives; channels: O. The result is (N, O, OH, OW). Raises
    BadConvolution (TW0191), BadWindow (TW0190)."""
    check_rank(data, 4, "(N, C, H, W)")
    check_rank(packed, 5, "(blocks, C / groups, KH, KW, block)")
    batch, inputs_all, *size = data.shape
    blocks, inputs, *reach, block = packed.shape
    check_channels(data, inputs_all, packed, inputs, channels, groups)
    wide, each = tap_count(block), channels // groups
    if isinstance(blocks, IntImm) and blocks.value != groups * -(-each // wide):
        raise misfit(
            data, packed, f"{channels} output channels make {groups * -(-each // wide)} blocks of {wide}, not {blocks}"
        )
    windows = Windows.of(size, reach, stride, padding, dilation)

    def weight(o: Any, c: Any, p: Any, q: Any) -> Expr:
        if each % wide == 0 or groups == 1:
            return packed[te.indexdiv(o, wide), c, p, q, te.indexmod(o, wide)]
        of_group = te.indexmod(o, each)
        return packed[
            te.indexdiv(o, each) * -(-each // wide) + te.indexdiv(of_group, wide), c, p, q, te.indexmod(of_group, wide)
        ]

    return _channels_first(data, weight, (batch, channels), (inputs, *reach), windows, groups, out_dtype)


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
