"""Convolutions along any dimensions, in any layout: the sum, its transposed form, and the checks of their operands.

    y[n, o, i, ...] = sum over c, p, ... of  data[n, c, i * stride + p * dilation, ...] * kernel[o, c, p, ...]

Layouts name a dimension by a letter: N, C, and D, H, W in the data, O, I, and D, H, W in the kernel; c, i and o for what lies within
a block of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ...base.errors import user_source
from ...ir.expr import Expr, IntImm
from ...te import polymorphic as te
from ...te.shape import same_extent, shape_text
from ...te.tensor import Tensor
from ..checks import tensor as check_tensor
from ..matmul import convert_elements, sum_dtype
from ..signatures import ElementType
from .window import BadConvolution, BadWindow, Padding, Sizes, Slides, each_side, expand_numbers, padded, slide_windows

At = Mapping[str, Any]
"""Indices by the letters of a layout."""
_NAMES = {"I": "rc", "D": "rz", "H": "ry", "W": "rx", "i": "rb"}


def convolve(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    layout: str,
    kernel_layout: str,
    out_dtype: ElementType | None,
) -> Tensor:
    """The convolution in these layouts. Raises BadConvolution (TW0191), BadWindow (TW0190)."""
    space = [letter for letter in layout if letter in "DHW"]
    check_rank(data, len(layout), f"({', '.join(layout)})")
    check_rank(kernel, len(kernel_layout), f"({', '.join(_KERNEL.get(one, f'K{one}') for one in kernel_layout)})")
    size, taps = dict(zip(layout, data.shape, strict=True)), dict(zip(kernel_layout, kernel.shape, strict=True))
    check_channels(data, size["C"], kernel, taps["I"], taps["O"], groups)
    each = 0 if groups == 1 else tap_count(taps["O"]) // groups  # output channels of a group, or blocks of them
    name = f"conv{len(space)}d_{layout if 'c' in layout else layout.lower()}"
    return sum_windows(
        data,
        layout,
        layout_windows(data, layout, [taps[one] for one in space], stride, padding, dilation),
        [letter for letter in kernel_layout if letter not in "Oo"],
        taps,
        lambda at, k: {"C": k["I"] if groups == 1 else te.indexdiv(at["C"], each) * taps["I"] + k["I"]},
        lambda at, k: kernel[tuple(at["Cc"["Oo".index(one)]] if one in "Oo" else k[one] for one in kernel_layout)],
        name if groups == 1 or "c" in layout else f"group_{name}",
        groups,
        out_dtype,
    )


_KERNEL = {"O": "O", "I": "C / groups", "i": "c", "o": "o"}


def layout_windows(
    data: Tensor, layout: str, taps: Sequence[Expr], stride: Sizes, padding: Padding, dilation: Sizes
) -> Slides:
    """Return the windows over the dimensions D, H and W of data. Raises BadConvolution (TW0191), BadWindow (TW0190)."""
    size = [extent for letter, extent in zip(layout, data.shape, strict=True) if letter in "DHW"]
    return slide_windows(size, list(map(tap_count, taps)), stride, padding, dilation)


def sum_windows(
    data: Tensor,
    layout: str,
    windows: Slides,
    reduced: Sequence[str],
    extents: Mapping[str, Any],
    channel: Callable[[At, At], At],
    weight: Callable[[At, At], Expr],
    name: str,
    groups: int = 1,
    out_dtype: ElementType | None = None,
    peeled: bool = False,
) -> Tensor:
    """The sum over windows of data times weights.

    reduced: the letters of the reduce axes, in order; extents: of these, of O, and of o, a block of the result. channel, weight: by
    the indices of the result and of the reduce axes where the data's channel is, and the weight. peeled: as padded has it.
    """
    space = [letter for letter in layout if letter in "DHW"]
    image = padded(data, (*windows.low, *windows.high), [layout.index(letter) for letter in space], peeled=peeled)
    axes = {letter: te.reduce_axis((0, extents[letter]), _NAMES[letter]) for letter in reduced}
    dtype = sum_dtype(data.dtype, out_dtype)  # 16-bit floats are summed in float32

    def element(*i: Any) -> Expr:
        at: dict[str, Any] = dict(zip(layout, i, strict=True))
        taps = windows.places([at[one] for one in space], [axes[one] for one in space])
        there = {
            **at,
            **dict(zip(space, taps, strict=True)),
            **({"c": axes["i"]} if "i" in axes else {}),
            **channel(at, axes),
        }
        value = image[tuple(there[letter] for letter in layout)]
        return te.sum(value.astype(dtype) * weight(at, axes).astype(dtype), axis=list(axes.values()))

    out: dict[str, Any] = {"C": extents["O"], "c": extents.get("o"), **dict(zip(space, windows.out, strict=True))}
    shape = tuple(out.get(letter, extent) for letter, extent in zip(layout, data.shape, strict=True))
    sums: Tensor = te.compute(shape, element, name=name, tag=name, attrs=windows.attributes(groups))
    return convert_elements(sums, out_dtype or data.dtype)


def convolve_transposed(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    output_padding: Sizes,
    out_dtype: ElementType | None,
    groups: int = 1,
) -> Tensor:
    """The transposed convolution of data (N, C, ...) with a kernel (C, O / groups, ...): the gradient of a convolution towards its
    data, as a convolution of stride 1 over data with zeros between its elements. Raises BadConvolution (TW0191), BadWindow
    (TW0190)."""
    rank = data.ndim - 2
    space = "DHW"[3 - rank :]
    check_rank(kernel, rank + 2, f"(C, O / groups, {', '.join(f'K{one}' for one in space)})")
    inputs, outputs, *extents = kernel.shape
    check_channels(data, data.shape[1], kernel, inputs, outputs, 1)  # once for the input channels, and once in groups
    check_channels(data, data.shape[1], kernel, te.indexdiv(inputs, groups), outputs * groups, groups)
    steps, more = expand_numbers(stride, rank, "stride"), expand_numbers(output_padding, rank, "output_padding", 0)
    reach = list(map(tap_count, extents))
    low, high = each_side(padding, reach)
    for extent, step, taps, *pads, extra in zip(data.shape[2:], steps, reach, low, high, more, strict=True):
        if isinstance(extent, IntImm) and (extent.value - 1) * step + taps + extra <= sum(pads):
            raise BadWindow(
                f"padding is {padding!r}",
                reason=f"it takes away more than a kernel of {' x '.join(map(str, reach))} makes of {extent} elements",
                called=user_source(),
                fix="padding below the kernel's extent",
            )
    image, turned = transposed_operands(data, kernel, steps, (*low, *high), [1] * rank, more, groups)
    # the spread data has the padding already
    return convolve(image, turned, 1, 0, 1, groups, f"NC{space}", f"OI{space}", out_dtype)


def tap_count(extent: Any) -> int:
    """An extent of a kernel, as a number. Raises BadConvolution (TW0191) for a symbol."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, IntImm):
        return extent.value  # constants are expressions too
    raise BadConvolution(
        f"the kernel's extent {extent} is not a constant",
        called=user_source(),
        reason="the size of windows is part of the program",
        fix="declare the kernel's shape by numbers; data's batch, height and width may be symbols",
    )


def check_rank(tensor: Tensor, rank: int, layout: str) -> None:
    """Refuse a tensor of another rank than that of its layout (BadConvolution, TW0191), and what is none (BadOperand,
    TW0181)."""
    check_tensor(tensor, "a convolution")
    if tensor.ndim != rank:
        raise BadConvolution(
            f"{tensor.name} has {tensor.ndim} dimensions",
            declared=tensor.source,
            called=user_source(),
            reason=f"its shape is {shape_text(tensor.shape)}; here it is read as {layout}",
            fix="pass the layout that the data has, or transpose it",
        )


def check_channels(data: Tensor, channels: Any, kernel: Tensor, inputs: Any, outputs: Any, groups: int) -> None:
    """Refuse (BadConvolution, TW0191) a kernel that does not read the channels of the data, in so many groups."""
    if not isinstance(cast("Any", groups), int) or groups < 1:
        raise BadConvolution(
            f"groups is {groups!r}"[:200],
            reason="channels are cut into a number of groups",
            called=user_source(),
            fix="groups=1",
        )
    if groups > 1 and tap_count(outputs) % groups:
        raise misfit(data, kernel, f"{outputs} output channels are not cut into {groups} equal groups")
    if not same_extent(channels, inputs * groups):
        each = " in each group" if groups > 1 else ""
        raise misfit(data, kernel, f"data has {channels} channels, the kernel reads {inputs}{each}")


def misfit(data: Tensor, kernel: Tensor, reason: str) -> BadConvolution:
    """The error for data and a kernel that do not fit."""
    shapes = [f"{tensor.name} of shape {shape_text(tensor.shape)}" for tensor in (data, kernel)]
    return BadConvolution(
        f"{shapes[0]} and {shapes[1]} do not fit",
        reason=reason,
        declared=kernel.source,
        called=user_source(),
        fix="a kernel has C / groups input channels, and groups divides both its output channels and C",
    )


def transposed_operands(
    data: Tensor,
    kernel: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    more: Sequence[int],
    groups: int,
) -> tuple[Tensor, Tensor]:
    """The data and the kernel of the convolution that a transposed convolution of data (N, C, ...) with a kernel (C, O / groups, ...)
    is, at stride 1 and this dilation: data with zeros between and around its elements, and the kernel (O, C / groups, ...) turned
    round. padding: before each dimension, then after each, taken away from the result; more: added to its ends."""
    batch, channels, *size = data.shape
    inputs, outputs, *extents = kernel.shape
    reach, dims, own = [tap_count(extent) for extent in extents], len(size), te.indexdiv(inputs, groups)
    # how far the first window begins before the data
    before = [(taps - 1) * far - low for taps, far, low in zip(reach, dilation, padding, strict=False)]
    wide = [
        size[d] * stride[d]
        # the size of the result, and what its windows reach beyond
        + (1 - stride[d] + more[d] - padding[d] - padding[dims + d] + 2 * (reach[d] - 1) * dilation[d])
        for d in range(dims)
    ]

    def spread(n: Any, c: Any, *i: Any) -> Expr:
        there = [index - low for index, low in zip(i, before, strict=True)]
        inside = [
            condition
            for at, extent, step in zip(there, size, stride, strict=True)
            # only every stride-th place holds an element
            for condition in (at >= 0, at < extent * step, *([te.indexmod(at, step).equal(0)] if step > 1 else []))
        ]
        source = [te.indexdiv(at, step) for at, step in zip(there, stride, strict=True)]
        return te.if_then_else(te.all(*inside), data[(n, c, *source)], te.const(0, data.dtype))

    def turn(o: Any, c: Any, *taps: Any) -> Expr:
        place = (te.indexdiv(o, outputs) * own + c, te.indexmod(o, outputs)) if groups > 1 else (c, o)
        # taps are read backwards
        return kernel[(*place, *(extent - 1 - at for extent, at in zip(reach, taps, strict=True)))]

    # tagged as padding, so that schedules keep it near its reader
    image = te.compute((batch, channels, *wide), spread, name="spread", tag="injective,pad")
    turned = te.compute((outputs * groups, own, *reach), turn, name=f"{kernel.name}_turned", tag="injective")
    return image, turned
