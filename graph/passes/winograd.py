"""Convolutions of 3 by 3 at stride 1 by Winograd's algorithm, with 2.25 times fewer multiplications.

    input x: float32[1, 32, 12, 12]
    param w: float32[32, 32, 3, 3] = sha256:3091803eb33f69da32bed962bc0330ff
    y: float32[1, 32, 12, 12] = conv(x, w, stride=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1), groups=1)
    output y

becomes

    input x: float32[1, 32, 12, 12]
    param v2: float32[4, 4, 2, 32, 16] = sha256:10298fc2457a40b27a11c891fc62266f
    v3: float32[1, 32, 12, 12] = winograd(x, v2, channels=32, padding=(1, 1, 1, 1))
    output y = v3

Tiles of 2 by 2 results are computed together, from 4 by 4 products (Lavin and Gray 2016, Fast Algorithms for Convolutional Neural
Networks). Each result is computed from the elements of its own window alone, and errs by no more than 16 * 2**-24 of the sum of
the magnitudes of its terms; a NaN reaches what it reached before, and where an element is infinite, what was infinite may be NaN.
It is done where the transforms cost less than what is saved: images and results have some channels, and each weight is used some
times.
"""

from __future__ import annotations

from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ... import topi
from ..node import Node
from ..types import TensorType
from .rewriter import Rewriter, rewritten
from .row import GraphPass

__all__ = ["WINOGRAD"]

TILE = 2
CHANNELS = 12
"""Half the harmonic mean of the numbers of channels, from which on it is worth the transforms: each element of the image is
transformed once for all channels of the result, and each result once for all channels of the image."""
PLACES = 32
"""Tiles that each weight is used for, from which on it is worth that there are 16 for 9."""


def _visit(r: Rewriter, node: Node) -> str | None:
    if (
        node.operator not in ("conv", "conv_in_blocks")
        or not r.is_known(node.inputs[1])
        or node.types[0].dtype != "float32"
    ):
        return None
    weights = r.known(node.inputs[1])
    blocks = node.operator == "conv_in_blocks"
    if weights.ndim != (6 if blocks else 4) or not _is_plain(node) or not node.types[0].is_static:
        return None
    if (
        blocks and not 1 < weights.shape[4] == r.type(node.inputs[0]).shape[4]
    ):  # of an image in no blocks, or none that are full
        return None
    if blocks:
        weights = _unblocked(weights)
    if not _wins(weights.shape, node.types[0]):
        return None
    packed = r.constant(_transformed(weights))
    padding = node.attributes["padding"]
    if blocks:
        return r.node("winograd_in_blocks", node.inputs[0], packed, outputs=node.outputs, padding=padding)
    value = r.node("winograd", node.inputs[0], packed, channels=len(weights), padding=padding)
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    return r.node("add", value, _column(r, bias), outputs=node.outputs) if bias else value


def _unblocked(weights: NDArray[Any]) -> NDArray[Any]:
    """Weights (O / o, C / c, KH, KW, c, o) as (O, C, KH, KW)."""
    blocks, _, high, wide, _, block = weights.shape
    return weights.transpose(0, 5, 1, 4, 2, 3).reshape(blocks * block, -1, high, wide)


def _column(r: Rewriter, bias: str) -> str:
    """A number for each channel, behind which height and width follow."""
    extent = r.type(bias).shape[0]
    return (
        r.constant(r.known(bias).reshape(-1, 1, 1))
        if r.is_known(bias)
        else r.node("reshape", bias, shape=(extent, 1, 1))
    )


def _is_plain(node: Node) -> bool:
    """Return whether a convolution's stride, dilation and groups are all 1."""
    steps = (*cast("tuple[int, ...]", node.attributes["stride"]), *cast("tuple[int, ...]", node.attributes["dilation"]))
    return set(steps) <= {1} and node.attributes.get("groups", 1) == 1


def _wins(weights: tuple[int, ...], result: TensorType) -> bool:
    outputs, inputs, *reach = weights
    high, across = result.shape[2:4]
    tiles = int(result.shape[0]) * prod(-(-int(extent) // TILE) for extent in (high, across))
    return (
        reach == [3, 3] and min(inputs, outputs) > 0 and (1 / outputs + 1 / inputs) * CHANNELS <= 1 and tiles >= PLACES
    )


def _transformed(weights: NDArray[Any]) -> NDArray[Any]:
    """The weights (O, C, 3, 3) as they are multiplied, some channels at a time: what lies between is in float64."""
    parts = [topi.nn.conv2d_winograd_prepack(weights[at : at + 16], TILE) for at in range(0, len(weights), 16)]
    return np.concatenate(parts, axis=2)


WINOGRAD = GraphPass(
    "winograd",
    "convolutions of 3 by 3 with fewer multiplications, by Winograd's algorithm",
    "rounds",
    lambda g: rewritten(g, _visit),
    __doc__,
    late=True,
)
