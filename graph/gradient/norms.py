"""Rules of normalisations and of softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..types import Extent
from .rule import Pullback, differentiate_declaration, rule

__all__: list[str] = []


@rule("softmax")
def _differentiate_softmax(p: Pullback) -> list[str | None]:
    # the Jacobian is diag(y) - y y^T: one product with the head, and no matrix
    total = p.sum(p.times(p.head, p.result), [_axis(p)])
    return [p.times(p.result, p.emit("subtract", p.head, total))]


@rule("log_softmax")
def _log_softmax(p: Pullback) -> list[str | None]:
    # exp of the result is the softmax, which need not be computed again
    return [p.emit("subtract", p.head, p.times(p.emit("exp", p.result), p.sum(p.head, [_axis(p)])))]


def _axis(p: Pullback) -> int:
    return int(p["axis"]) % len(p.shape(p.result))


def _element_count(p: Pullback, axes: Sequence[int]) -> int | None:
    """Return the number of elements along dimensions; None where nobody knows yet."""
    extents = [p.shape(p.inputs[0])[axis] for axis in axes]
    return math.prod(map(int, extents)) if all(isinstance(extent, int) for extent in extents) else None


def _mean(p: Pullback, value: str, axes: Sequence[int]) -> str:
    return p.emit("mean", value, axes=tuple(axes), keepdims=True)


def _standard(p: Pullback, x: str, axes: Sequence[int], centred: bool) -> tuple[str, str]:
    """x with mean 0, where it is centred, and mean square 1, and what it was multiplied by."""
    far = p.emit("subtract", x, _mean(p, x, axes)) if centred else x
    spread = p.emit("rsqrt", p.emit("add", _mean(p, p.emit("square", far), axes), p.number(p["epsilon"], x)))
    return p.times(far, spread), spread


def _differentiate_data(p: Pullback, head: str, normal: str, spread: str, axes: Sequence[int], centred: bool) -> str:
    """The gradient by x of its standard form: head without its parts along 1 and along the normal."""
    # the standard form is blind to shifts and scales of x: neither part of the head gets through
    along = p.times(normal, _mean(p, p.times(head, normal), axes))
    # rms_norm takes no mean away, so the part along 1 stays there
    rest = p.emit("subtract", p.emit("subtract", head, _mean(p, head, axes)) if centred else head, along)
    return p.times(rest, spread)


@rule("layer_norm", "rms_norm")
def _differentiate_last_dimensions(p: Pullback) -> list[str | None]:
    x, *weights = p.inputs
    rank = len(p.shape(x))
    axes = range(int(p["axis"]) % rank, rank)
    scale = weights[0] if weights else ""
    centred = p.node.operator == "layer_norm"
    normal, spread = _standard(p, x, axes, centred)
    head = p.times(p.head, scale) if scale else p.head
    gradients = [_differentiate_data(p, head, normal, spread, axes, centred), p.times(p.head, normal), p.head]
    return [gradient if name else None for gradient, name in zip(gradients, p.inputs, strict=False)]


def _reshape_channels(p: Pullback, value: str, rank: int) -> str:
    """Numbers for each channel, dimension 1, so that they broadcast."""
    return p.reshape(value, (*p.shape(value), *[1] * (rank - 2)))


def _sum_channels(p: Pullback, value: str) -> str:
    return p.sum(value, [at for at in range(len(p.shape(value))) if at != 1], keepdims=False)


@rule("instance_norm", "group_norm")
def _differentiate_groups(p: Pullback) -> list[str | None]:
    """Differentiate as over the last dimension, of x with each group, or each channel, as one row."""
    x, *weights = p.inputs
    rank, shape = len(p.shape(x)), p.shape(x)
    groups: Extent = p["groups"] if p.node.operator == "group_norm" else shape[1]
    count = _element_count(p, range(1, rank))
    # the reshape into groups needs numbers
    if count is None or not isinstance(shape[0], int) or not isinstance(groups, int):
        return differentiate_declaration(p)
    apart = (shape[0], groups, count // max(groups, 1))
    scale = weights[0] if weights else ""
    normal, spread = _standard(p, p.reshape(x, apart), [2], True)
    head = p.times(p.head, _reshape_channels(p, scale, rank)) if scale else p.head
    by_x = p.reshape(_differentiate_data(p, p.reshape(head, apart), normal, spread, [2], True), shape)
    gradients = [by_x, _sum_channels(p, p.times(p.head, p.reshape(normal, shape))), _sum_channels(p, p.head)]
    return [gradient if name else None for gradient, name in zip(gradients, p.inputs, strict=False)]


@rule("batch_norm")
def _batch_norm(p: Pullback) -> list[str | None]:
    """Derivative of (x - mean) / sqrt(variance + epsilon) * scale + shift."""
    x, scale, _, mean, variance = p.inputs
    rank = len(p.shape(x))
    spread = p.emit("rsqrt", p.emit("add", variance, p.number(p["epsilon"], variance)))
    factor = p.times(spread, scale)
    normal = p.times(p.emit("subtract", x, _reshape_channels(p, mean, rank)), _reshape_channels(p, spread, rank))
    by_shift, by_scale = _sum_channels(p, p.head), _sum_channels(p, p.times(p.head, normal))
    # d/dv (v + e)^(-1/2) = -1/2 (v + e)^(-3/2), of which one factor is in the normal form already
    by_variance = p.scale(p.times(by_scale, scale, spread, spread), -0.5)
    return [
        p.times(p.head, _reshape_channels(p, factor, rank)),
        by_scale,
        by_shift,
        p.emit("negative", p.times(by_shift, factor)),
        by_variance,
    ]
