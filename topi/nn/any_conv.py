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
from .window import each_side, expand_numbers, window_count

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
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: ElementType | None = None,
) -> Tensor:
    """Convolution over one dimension: data (N, C, W) and kernel (O, C / groups, KW), or "NWC" with (KW, C / groups, O).

    padding: a number, (left, right), "SAME" or "VALID". Raises BadConvolution (TW0191), BadWindow (TW0190).
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
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv1d over data (N, C, W) and kernel (O, C, KW); the result is (N, O, OW). Raises BadConvolution (TW0191), BadWindow
    (TW0190)."""
    return _convolution(data, kernel, strides, padding, dilation, 1, "NCW", "OIW", out_dtype)


def conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv1d over data (N, W, C) and kernel (KW, C, O); the result is (N, OW, O). Raises BadConvolution (TW0191), BadWindow
    (TW0190)."""
    return _convolution(data, kernel, strides, padding, dilation, 1, "NWC", "WIO", out_dtype)


def group_conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv1d in groups over data (N, C, W) and kernel (O, C / groups, KW); the result is (N, O, OW). Raises BadConvolution
    (TW0191), BadWindow (TW0190)."""
    return _convolution(data, kernel, strides, padding, dilation, groups, "NCW", "OIW", out_dtype)


def group_conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv1d in groups over data (N, W, C) and kernel (KW, C / groups, O); the result is (N, OW, O). Raises BadConvolution
    (TW0191), BadWindow (TW0190)."""
    return _convolution(data, kernel, strides, padding, dilation, groups, "NWC", "WIO", out_dtype)


def conv2d_hwcn(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: ElementType | None = None
) -> Tensor:
    """conv2d over data (H, W, C, N) and kernel (KH, KW, C, O); the result is (OH, OW, O, N). Raises BadConvolution (TW0191),
    BadWindow (TW0190)."""
    return _convolution(data, kernel, stride, padding, dilation, 1, "HWCN", "HWIO", out_dtype)


def conv3d_ncdhw(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """Convolution over three dimensions: data (N, C, D, H, W), kernel (O, C / groups, KD, KH, KW).

    stride, dilation: a number, or three. padding: a number, three, (front, top, left, back, bottom, right), "SAME" or "VALID".
    Raises BadConvolution (TW0191), BadWindow (TW0190).
    """
    return _convolution(data, kernel, stride, padding, dilation, groups, "NCDHW", "OIDHW", out_dtype)


def conv3d_ndhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: ElementType | None = None,
) -> Tensor:
    """conv3d_ncdhw over data (N, D, H, W, C) and kernel (KD, KH, KW, C / groups, O); the result is (N, OD, OH, OW, O). Raises
    BadConvolution (TW0191), BadWindow (TW0190)."""
    return _convolution(data, kernel, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype)


def conv1d_transpose_ncw(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    out_dtype: ElementType | None = None,
    output_padding: Any = 0,
) -> Tensor:
    """The transposed convolution over one dimension: data (N, C, W), kernel (C, O, KW), result
    (N, O, (W - 1) * stride - left - right + KW + output_padding). Raises BadConvolution (TW0191), BadWindow (TW0190)."""
    return _conv_transpose(data, kernel, stride, padding, out_dtype, output_padding, "NCW", "IOW")


def conv3d_transpose_ncdhw(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    out_dtype: ElementType | None = None,
    output_padding: Any = 0,
) -> Tensor:
    """The transposed convolution over three dimensions: data (N, C, D, H, W), kernel (C, O, KD, KH, KW), the result (N, O, ...)
    with the extents of conv1d_transpose_ncw in each dimension. Raises BadConvolution (TW0191), BadWindow (TW0190)."""
    return _conv_transpose(data, kernel, strides, padding, out_dtype, output_padding, "NCDHW", "IODHW")


def _conv_transpose(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    out_dtype: Any,
    output_padding: Any,
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
    stride: Any,
    padding: Any,
    dilation: Any,
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
