"""Normalisations and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import topi
from ...te.shape import same_extent
from ..types import extents
from .row import operator

__all__: list[str] = []


def _along(x: Any, weights: Any, axis: int) -> Any:
    return weights.astype(np.float64).reshape([-1 if at == axis else 1 for at in range(x.ndim)])


def _standard(x: Any, axes: Sequence[int], epsilon: float) -> Any:
    x = x.astype(np.float64)
    mean = x.mean(tuple(axes), keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(tuple(axes), keepdims=True) + epsilon)


def _numpy_batch_norm(x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float) -> Any:
    normal = (x.astype(np.float64) - _along(x, mean, 1)) / np.sqrt(_along(x, variance, 1) + epsilon)
    return normal * _along(x, scale, 1) + _along(x, shift, 1)


@operator("batch_norm", _numpy_batch_norm, "elementwise")
def _batch_norm(x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift for each channel, dimension 1."""
    return topi.cast(topi.nn.batch_norm_inference(x, scale, shift, mean, variance, 1, epsilon), x.dtype)


def _numpy_instance_norm(x: Any, scale: Any, shift: Any, *, epsilon: float) -> Any:
    return _standard(x, range(2, x.ndim), epsilon) * _along(x, scale, 1) + _along(x, shift, 1)


@operator("instance_norm", _numpy_instance_norm)
def _instance_norm(x: Any, scale: Any, shift: Any, *, epsilon: float = 1e-5) -> Any:
    return topi.nn.instance_norm(x, scale, shift, 1, list(range(2, x.ndim)), epsilon)


def _numpy_layer_norm(x: Any, scale: Any = None, shift: Any = None, *, axis: int, epsilon: float) -> Any:
    normal = _standard(x, range(axis % x.ndim, x.ndim), epsilon)
    return normal * (1 if scale is None else scale) + (0 if shift is None else shift)


@operator("layer_norm", _numpy_layer_norm)
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


@operator("rms_norm", _numpy_rms_norm)
def _rms_norm(x: Any, scale: Any = None, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
    """x over the root of its mean square over the dimensions from `axis` on, then scale."""
    axes = list(range(axis % x.ndim, x.ndim))
    if scale is None or _fits(scale, x, axes):
        return topi.nn.rms_norm(x, scale, axes, epsilon)
    return topi.multiply(topi.nn.rms_norm(x, None, axes, epsilon), scale)


def _grouped(x: Any, scale: Any = None, shift: Any = None, *, groups: int, epsilon: float) -> Any:
    apart = x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    normal = _standard(apart, [2], epsilon).reshape(x.shape)
    normal = normal if scale is None else normal * _along(x, scale, 1)
    return normal if shift is None else normal + _along(x, shift, 1)


@operator("group_norm", _grouped)
def _group_norm(x: Any, scale: Any = None, shift: Any = None, *, groups: int, epsilon: float = 1e-5) -> Any:
    """Mean 0 and variance 1 over all but the batch and the groups of channels, then scale and shift, one for each channel."""
    return topi.nn.group_norm(x, scale, shift, groups, 1, None, epsilon)


def _neighbours(x: Any, *, size: int, alpha: float, beta: float, bias: float) -> Any:
    squares = np.pad(x.astype(np.float64) ** 2, [(0, 0), ((size - 1) // 2, size // 2)] + [(0, 0)] * (x.ndim - 2))
    total = sum(squares[:, at : at + x.shape[1]] for at in range(size))
    return x / (bias + alpha / size * total) ** beta


@operator("lrn", _neighbours)
def _lrn(x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    return topi.nn.lrn(x, size, 1, alpha, beta, bias)


def _numpy_softmax(x: Any, *, axis: int) -> Any:
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


@operator("softmax", _numpy_softmax)
def _softmax(x: Any, *, axis: int = -1) -> Any:
    return topi.nn.softmax(x, axis)


def _numpy_log_softmax(x: Any, *, axis: int) -> Any:
    wide = x.astype(np.float64)
    far = wide - wide.max(axis, keepdims=True, initial=-np.inf)
    return far - np.log(np.exp(far).sum(axis, keepdims=True))


@operator("log_softmax", _numpy_log_softmax)
def _log_softmax(x: Any, *, axis: int = -1) -> Any:
    return topi.nn.log_softmax(x, axis)


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
    chances = _numpy_softmax(scores, axis=-1)
    if unseen == "zero":
        chances = np.where(np.isneginf(scores).all(-1, keepdims=True), 0, chances)
    return chances @ v


@operator("attention", _numpy_attention)
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
    (first,) = extents(offset)
    return topi.nn.attention(q, k, v, scale, causal, mask=mask, offset=first, fill=fill, unseen=unseen)
