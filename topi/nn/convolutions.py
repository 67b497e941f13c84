"""Checks of operands that every convolution shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ...errors import user_source
from ...ir.expr import Expr, IntImm
from ...te import either as te
from ...te.shape import same_extent, shape_text
from ...te.tensor import Tensor
from ..checks import tensor as check_tensor
from .errors import BadConvolution


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
