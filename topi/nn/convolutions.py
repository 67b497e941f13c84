"""What every convolution asks of its operands."""

from __future__ import annotations

from typing import Any, cast

from ...errors import user_source
from ...ir.expr import IntImm
from ...te.shape import same_extent, shape_text
from ...te.tensor import Tensor
from ..checks import tensor as check_tensor
from .errors import BadConvolution


def tap_count(extent: Any) -> int:
    """An extent of a kernel, as a number. Raises BadConvolution (TW0191) for a symbol."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, IntImm):
        return extent.value
    raise BadConvolution(
        f"the kernel's extent {extent} is no constant",
        called=user_source(),
        reason="how far windows reach is part of the program",
        fix="declare the kernel's shape by numbers; data's batch, height and width may be symbols",
    )


def check_rank(tensor: Tensor, rank: int, layout: str) -> None:
    """Refuses a tensor of another rank than that of its layout (BadConvolution, TW0191), and what is none (BadOperand,
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
    """Refuses (BadConvolution, TW0191) a kernel that does not read the channels of the data, in so many groups."""
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
