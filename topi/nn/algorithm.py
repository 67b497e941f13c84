"""By which algorithm a convolution is computed, where its caller leaves that open."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...ir.expr import IntImm
from ...ir.ops import integer_value
from ...te.tensor import Tensor

ALGORITHMS = ("direct", "winograd", "auto")
"""What conv2d can be asked for."""

_FEW_CHANNELS = 1 / 8
"""The sum of the two numbers of channels, inverted, from which on the transforms cost what is saved: each number of the image
and of the result is transformed once for all channels of the other side."""
_PLACES, _MANY_PLACES = 1024, 3072
"""Results of a channel that pay for the transform of the weights; and for one that the second cache does not hold."""
_CACHED = 1 << 20
"""Bytes of transformed weights that it holds."""


def takes_winograd(layout: str, reach: Sequence[Any], steps: Sequence[int], spread: Sequence[int], groups: int) -> bool:
    """Return whether conv2d_winograd can do it: 3 by 3, channels first, everything at 1. reach: of the kernel; steps: strides."""
    square = len(reach) == 2 and all(isinstance(extent, IntImm) and extent.value == 3 for extent in reach)
    return layout == "NCHW" and square and tuple(steps) == tuple(spread) == (1, 1) and groups == 1


def winograd_wins(data: Tensor, kernel: Tensor, out: Sequence[Any]) -> bool:
    """Return whether conv2d_winograd with tiles of 2 is the faster one for data (N, C, H, W) and kernel (O, C, 3, 3) of float32 that is
    transformed in each call. out: height and width of the result. A batch that is not known counts as one image.

    Measured against the direct convolution on one core of a Zen 4 (AVX-512), C and O from 3 to 512, images from 7 to 224
    squared: where this says yes it took 0.57 to 0.9 of the time.
    """
    outputs, inputs = (_number(extent) for extent in kernel.shape[:2])
    places = prod(_number(extent) for extent in out) * max(_number(data.shape[0]), 1)
    if data.dtype != "float32" or kernel.dtype != "float32" or not (outputs and inputs and places):
        return False
    bytes_ = 16 * outputs * inputs * 4
    return 1 / inputs + 1 / outputs <= _FEW_CHANNELS and places >= (_PLACES if bytes_ <= _CACHED else _MANY_PLACES)


def _number(extent: Any) -> int:
    """0 for what is not known before the call."""
    return integer_value(extent, extent if isinstance(extent, int) else 0)
