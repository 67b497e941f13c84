"""Batch norms, and factors and summands for each channel, folded into the weights before them.

    input x: float32[1, 1, 5]
    param w: float32[2, 1, 1] = (1.0, 2.0)
    param c: float32[2, 1] = (3.0, 0.5)
    param d: float32[2, 1] = (1.0, -1.0)
    a: float32[1, 2, 5] = conv(x, w, stride=(), padding=(), dilation=(), groups=1)
    b: float32[1, 2, 5] = multiply(a, c)
    y: float32[1, 2, 5] = add(b, d)
    output y

becomes

    input x: float32[1, 1, 5]
    param v5: float32[2, 1, 1] = (3.0, 1.0)
    param v7: float32[2] = (1.0, -1.0)
    y: float32[1, 2, 5] = conv(x, v5, v7, stride=(), padding=(), dilation=(), groups=1)
    output y

The weights are multiplied in float64 and rounded once, where the graph rounds every product: results differ in their last bits, as
weights do that were trained to so many. Nothing is folded where a weight would become infinite.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...base.dataclass import dataclass
from ..node import Node
from ..types import array_dtype
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["SCALES"]

_HEAVY = ("conv", "conv_transpose", "matmul")


@dataclass(frozen=True)
class _Affine:
    """x * scale + shift for each channel, each one number or one for each channel."""

    x: str
    scale: NDArray[Any]
    shift: NDArray[Any]


def _fold(r: Rewriter, node: Node) -> str | None:
    affine = _batch_norm(r, node) if node.operator == "batch_norm" else _arithmetic(r, node)
    if affine is None:
        return None
    heavy = r.sole(affine.x, *_HEAVY)
    # weights that are arguments cannot be multiplied beforehand
    if heavy is None or len(heavy.inputs) < 2 or not all(r.is_known(name) for name in heavy.inputs[1:]):
        return None
    if heavy.operator == "matmul":
        return _scale_matmul(r, node, heavy, affine)
    return _scale_conv(r, node, heavy, affine)


def _batch_norm(r: Rewriter, node: Node) -> _Affine | None:
    x, *weights = node.inputs
    # a batch norm of a product's last dimension counts channels otherwise
    if not all(map(r.is_known, weights)) or len(node.types[0].shape) > 2 and r.maker(x, "matmul"):
        return None  # the channels of a product are its last dimension
    scale, shift, mean, variance = (r.known(name).astype(np.float64) for name in weights)
    with np.errstate(all="ignore"):  # infinities are looked at afterwards, in _round_finite
        factor = scale / np.sqrt(variance + cast("float", node.attributes["epsilon"]))
        return _Affine(x, factor, shift - mean * factor)


def _arithmetic(r: Rewriter, node: Node) -> _Affine | None:
    if node.operator not in ("add", "subtract", "multiply", "divide") or "float" not in node.types[0].dtype:
        return None
    x, c = node.inputs
    if node.operator in ("add", "multiply") and r.is_known(x):  # either operand may be the constant
        x, c = c, x
    # a broadcast that changes the shape is no scaling
    if not r.is_known(c) or r.type(x) != node.types[0] or r.maker(x, *_HEAVY) is None:
        return None
    rank = len(node.types[0].shape)
    if rank < 2:  # the product of two vectors, or of one and a matrix
        return None
    channel = rank - 1 if r.maker(x, "matmul") else 1
    numbers = _channel_parameter(r.known(c), rank, channel)
    if numbers is None:
        return None
    one, zero = np.ones(()), np.zeros(())
    with np.errstate(all="ignore"):
        return {
            "add": _Affine(x, one, numbers),
            "subtract": _Affine(x, one, -numbers),
            "multiply": _Affine(x, numbers, zero),
            "divide": _Affine(x, 1 / numbers, zero),
        }[node.operator]


# numpy's broadcasting, from the last dimension on
def _channel_parameter(c: NDArray[Any], rank: int, channel: int) -> NDArray[Any] | None:
    """A parameter that broadcasts to a value of this rank as one number, or one for each channel; None where it is neither."""
    shape = (1,) * (rank - c.ndim) + c.shape
    if any(extent != 1 for at, extent in enumerate(shape) if at != channel):
        return None
    return c.astype(np.float64).reshape(-1 if shape[channel] != 1 else ())


def _scale_conv(r: Rewriter, node: Node, conv: Node, affine: _Affine) -> str | None:
    x, kernel = conv.inputs[:2]
    weights, groups = r.known(kernel), cast("int", conv.attributes["groups"])
    channels = int(conv.types[0].shape[1])
    bias = r.known(conv.inputs[2]).astype(np.float64) if len(conv.inputs) > 2 else np.zeros(channels)
    with np.errstate(all="ignore"):
        scale = np.broadcast_to(affine.scale, (channels,))  # one number serves for all channels
        if conv.operator == "conv":
            factors = scale.reshape(-1, *[1] * (weights.ndim - 1))
        else:  # (C, O / groups, ...), each group of channels makes its own part of the results
            of_group = np.repeat(scale.reshape(groups, -1), weights.shape[0] // groups, axis=0)
            factors = of_group.reshape(*of_group.shape, *[1] * (weights.ndim - 2))
        shifted = bias * scale + affine.shift
        # products and rounding are monotonic, so the largest of what shares a factor tell if any becomes infinite
        largest = _largest_magnitudes(weights, factors.shape) * factors
    summand = _round_finite(shifted, weights.dtype)
    if _round_finite(largest, weights.dtype) is None or summand is None:
        return None
    if (factors != 1).any():
        kernel = r.computed(r.type(kernel), _scale_weights, kernel, more=(factors,))
    inputs = [x, kernel]
    if len(conv.inputs) > 2 or summand.any():  # a bias of zeros is left out
        inputs.append(r.constant(summand))
    return r.like(conv, *inputs, outputs=node.outputs, source=conv.source)


def _largest_magnitudes(weights: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The largest magnitude of those weights that one factor of an array of this shape is for; NaN where one of them is."""
    axes = tuple(at for at, extent in enumerate(shape) if extent == 1)
    wide = weights if weights.dtype.kind == "f" else weights.astype(np.float64)
    above, below = wide.max(axes, keepdims=True, initial=0), wide.min(axes, keepdims=True, initial=0)
    return np.maximum(above.astype(np.float64), -below.astype(np.float64))


def _scale_weights(weights: NDArray[Any], factors: NDArray[np.float64]) -> NDArray[Any]:
    """Weights times factors, rounded once, from float64."""
    return np.multiply(weights, factors, out=np.empty_like(weights), dtype=np.float64, casting="unsafe")


def _scale_matmul(r: Rewriter, node: Node, matmul: Node, affine: _Affine) -> str | None:
    """The factors go into the matrix; a product has no summand of its own."""
    weights = r.known(matmul.inputs[1])
    # a product has no bias: without a factor there is nothing to fold
    if weights.ndim < 2 or (affine.scale == 1).all() or len(node.types[0].shape) < 2:
        return None
    with np.errstate(all="ignore"):
        # (n, k) weights have their channels first
        scale = affine.scale.reshape(-1, 1) if matmul.attributes["transpose_b"] and affine.scale.ndim else affine.scale
        scaled = _round_finite(weights * scale, weights.dtype)
        channels = int(node.types[0].shape[-1])
        shift = _round_finite(np.broadcast_to(affine.shift, (channels,)), array_dtype(node.types[0].dtype))
    if scaled is None or shift is None:
        return None
    if not shift.any():
        return r.like(matmul, matmul.inputs[0], r.constant(scaled), outputs=node.outputs, source=matmul.source)
    product = r.like(matmul, matmul.inputs[0], r.constant(scaled), source=matmul.source)
    return r.node("add", product, r.constant(shift), outputs=node.outputs)


def _round_finite(array: NDArray[Any], dtype: Any) -> NDArray[Any] | None:
    """The array in a dtype; None where that makes it infinite, or it is."""
    with np.errstate(all="ignore"):
        made = array.astype(dtype)  # an overflow shows as infinity here
    return made if np.isfinite(made if made.dtype.kind == "f" else made.astype(np.float64)).all() else None


SCALES = GraphPass(
    "scales",
    "batch norms, and factors and summands for each channel, are folded into weights",
    "rounds",
    lambda g: rewrite(g, _fold),
    __doc__,
)
