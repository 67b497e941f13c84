"""Normalisations and softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import topi
from ...te.shape import same_extent
from ..references import channel_weights, standardize
from ..row import bools, floating, operator, positive, sample
from .softmax import numpy_softmax


def _numpy_batch_norm(x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float) -> Any:
    normal = (x.astype(np.float64) - channel_weights(x, mean, 1)) / np.sqrt(channel_weights(x, variance, 1) + epsilon)
    return normal * channel_weights(x, scale, 1) + channel_weights(x, shift, 1)


@operator(
    "batch_norm",
    reference=_numpy_batch_norm,
    fusion="elementwise",
    samples=[sample(floating(2, 3, 4, 5), floating(3), floating(3), floating(3), positive(3), epsilon=0.001)],
)
def _batch_norm(x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift for each channel, dimension 1."""
    return topi.cast(topi.nn.batch_norm_inference(x, scale, shift, mean, variance, 1, epsilon), x.dtype)


def _numpy_instance_norm(x: Any, scale: Any, shift: Any, *, epsilon: float) -> Any:
    return standardize(x, range(2, x.ndim), epsilon) * channel_weights(x, scale, 1) + channel_weights(x, shift, 1)


@operator(
    "instance_norm",
    reference=_numpy_instance_norm,
    samples=[sample(floating(2, 3, 4, 5), floating(3), floating(3))],
)
def _instance_norm(x: Any, scale: Any, shift: Any, *, epsilon: float = 1e-5) -> Any:
    return topi.nn.instance_norm(x, scale, shift, 1, list(range(2, x.ndim)), epsilon)


def _numpy_layer_norm(x: Any, scale: Any = None, shift: Any = None, *, axis: int, epsilon: float) -> Any:
    normal = standardize(x, range(axis % x.ndim, x.ndim), epsilon)
    return normal * (1 if scale is None else scale) + (0 if shift is None else shift)


@operator(
    "layer_norm",
    reference=_numpy_layer_norm,
    samples=[
        sample(floating(2, 3, 5), floating(5), floating(5), axis=-1),
        sample(floating(2, 3, 5), floating(3, 5), axis=1),
        sample(floating(2, 3, 5), floating(1), floating(1), axis=1),
    ],
)
def _layer_norm(x: Any, scale: Any = None, shift: Any = None, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
    """Mean 0 and variance 1 over the dimensions from `axis` on, then scale and shift, which broadcast."""
    axes = list(range(axis % x.ndim, x.ndim))
    if all(weights is None or _fits(weights, x, axes) for weights in (scale, shift)):
        return topi.nn.layer_norm(x, scale, shift, axes, epsilon)
    normal = topi.nn.layer_norm(x, None, None, axes, epsilon)
    normal = normal if scale is None else topi.multiply(normal, scale)
    return normal if shift is None else topi.add(normal, shift)


def _fits(weights: Any, x: Any, axes: list[int]) -> bool:
    return weights.ndim == len(axes) and all(
        same_extent(extent, x.shape[at]) for extent, at in zip(weights.shape, axes, strict=True)
    )


def _numpy_rms_norm(x: Any, scale: Any = None, *, axis: int, epsilon: float) -> Any:
    x = x.astype(np.float64)
    rooted = x / np.sqrt((x**2).mean(tuple(range(axis % x.ndim, x.ndim)), keepdims=True) + epsilon)
    return rooted * (1 if scale is None else scale)


@operator("rms_norm", reference=_numpy_rms_norm, samples=[sample(floating(2, 3, 5), floating(5), axis=-1)])
def _rms_norm(x: Any, scale: Any = None, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
    """x over the root of its mean square over the dimensions from `axis` on, then scale."""
    axes = list(range(axis % x.ndim, x.ndim))
    if scale is None or _fits(scale, x, axes):
        return topi.nn.rms_norm(x, scale, axes, epsilon)
    return topi.multiply(topi.nn.rms_norm(x, None, axes, epsilon), scale)


def _numpy_attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    scale: float | None,
    causal: bool,
    offset: Any,
    fill: float,
    unseen: str,
) -> Any:
    groups = q.shape[-3] // max(k.shape[-3], 1)
    q, k, v = (x.astype(np.float64) for x in (q, *(np.repeat(x, groups, -3) for x in (k, v))))
    scores = q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(max(q.shape[-1], 1)) if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, fill) if mask.dtype == bool else scores + mask.astype(np.float64)
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool), *offset), scores, -np.inf)
    chances = numpy_softmax(scores, axis=-1)
    if unseen == "zero":
        chances = np.where(np.isneginf(scores).all(-1, keepdims=True), 0, chances)
    return chances @ v


@operator(
    "attention",
    reference=_numpy_attention,
    samples=[
        sample(floating(2, 5, 4), floating(2, 7, 4), floating(2, 7, 3), scale=0.25),
        sample(floating(1, 2, 7, 4), floating(1, 2, 7, 4), floating(1, 2, 7, 4), causal=True),
        sample(
            floating(2, 6, 3, 4),
            floating(2, 2, 7, 4),
            floating(2, 2, 7, 3),
            floating(6, 1, 7),
            causal=True,
            offset=(4,),
        ),
        sample(floating(4, 5, 4), floating(4, 7, 4), floating(4, 7, 3), bools(5, 7), unseen="nan", fill=-4.0),
        sample(floating(2, 3, 5, 8), floating(2, 3, 7, 8), floating(2, 3, 7, 4)),
        sample(floating(3, 7, 8), floating(3, 7, 8), floating(3, 7, 8), causal=True, scale=0.25),
    ],
)
def _attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    scale: float | None = None,
    causal: bool = False,
    offset: tuple[Any, ...] = (0,),
    fill: float = -np.inf,
    unseen: str = "zero",
) -> Any:
    """softmax(q k^T * scale + mask) v for each head, of (heads, queries, depth) or (batch, heads, queries, depth); several heads of
    queries may share one of keys. causal: query i sees the keys 0 to i + offset. mask: bools, `fill` where they are false, or
    what is added. unseen: what a query gets that sees no key, "zero" or "nan"."""
    (first,) = offset
    return topi.nn.attention(q, k, v, scale, causal, mask=mask, offset=first, fill=fill, unseen=unseen)
