"""Operators as numpy computes them in float64, written out plainly, and by how much float32 may miss each element.

For tools/fuzz/operator_rows.py and its neighbours, and for the tests of each operator. A bound is what the operator's module
documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "UNIT",
    "adaptive_pool",
    "attention",
    "bilateral_slice",
    "convolution",
    "depthwise",
    "layer_norm",
    "local_response",
    "pool",
    "resize",
    "transposed_convolution",
    "weight_only",
    "windows",
]

UNIT = 2.0**-24
"""Half the distance of float32 numbers around 1."""
_BORDERS: dict[str, Any] = {"edge": "edge", "reflect": "reflect", "zero": "constant"}


# Convolutions


def _taps(size: int, taps: int, stride: int, dilation: int) -> tuple[int, list[slice]]:
    """Return the number of windows along a padded dimension, and for each of their taps where it reads."""
    count = max((size - (taps - 1) * dilation - 1) // stride + 1, 0)
    return count, [
        slice(at, at + (count - 1) * stride + 1 if count else at, stride) for at in range(0, taps * dilation, dilation)
    ]


def convolution(
    x: Any, w: Any, stride: Any = (1, 1), pads: Any = (0, 0, 0, 0), dilation: Any = (1, 1), groups: int = 1
) -> tuple[Any, Any]:
    """x (N, C, H, W) with w (O, C / groups, KH, KW), and the bound."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    outputs, each, *reach = w.shape
    (rows, tops), (columns, lefts) = (_taps(x.shape[2 + d], reach[d], stride[d], dilation[d]) for d in (0, 1))
    y, size = (np.zeros((x.shape[0], outputs, rows, columns)) for _ in range(2))
    for g in range(groups):
        mine = slice(g * (outputs // groups), (g + 1) * (outputs // groups))
        for p, q in np.ndindex(*reach):
            part = x[:, g * each : (g + 1) * each, tops[p], lefts[q]]
            y[:, mine] += np.einsum("nchw,oc->nohw", part, w[mine, :, p, q])
            size[:, mine] += np.einsum("nchw,oc->nohw", abs(part), abs(w[mine, :, p, q]))
    return y, size * each * reach[0] * reach[1] * UNIT


def transposed_convolution(x: Any, w: Any, stride: Any, pads: Any, more: Any) -> tuple[Any, Any]:
    """x (N, C, H, W) spread by w (C, O, KH, KW), and the bound."""

    def spread(x: Any, w: Any) -> Any:
        high, wide = ((x.shape[d] - 1) * stride[d - 2] + w.shape[d] + more[d - 2] for d in (2, 3))
        full = np.zeros((x.shape[0], w.shape[1], high, wide))
        for p, q in np.ndindex(*w.shape[2:]):
            rows = slice(p, p + (x.shape[2] - 1) * stride[0] + 1, stride[0])
            columns = slice(q, q + (x.shape[3] - 1) * stride[1] + 1, stride[1])
            full[:, :, rows, columns] += np.einsum("nchw,co->nohw", x, w[:, :, p, q])
        return full[:, :, pads[0] : full.shape[2] - pads[2], pads[1] : full.shape[3] - pads[3]]

    x, w = x.astype(np.float64), w.astype(np.float64)
    return spread(x, w), spread(abs(x), abs(w)) * (w.size // max(w.shape[1], 1)) * UNIT


def depthwise(x: Any, w: Any, stride: Any, pads: Any, dilation: Any) -> tuple[Any, Any]:
    """x (N, C, H, W) with w (C, M, KH, KW), and the bound."""
    c, m = w.shape[:2]
    return convolution(x, w.reshape(c * m, 1, *w.shape[2:]), stride, pads, dilation, c)


# Pooling


def pool(
    x: Any,
    kind: str,
    kernel: Any,
    stride: Any,
    pads: Any,
    dilation: Any = (1, 1),
    ceil: bool = False,
    include: bool = True,
) -> Any:
    """The maximum or the mean of each window by itself, over (N, C, H, W)."""
    size, out = x.shape[2:], list[int]()
    for d in (0, 1):
        room = size[d] + pads[d] + pads[d + 2] - (kernel[d] - 1) * dilation[d] - 1
        count = (-(-room // stride[d]) if ceil else room // stride[d]) + 1
        if ceil and (count - 1) * stride[d] >= size[d] + pads[d]:
            count -= 1
        out.append(count)
    y = np.zeros((*x.shape[:2], *out))
    for i, j in np.ndindex(*out):
        taps = [[at * stride[d] - pads[d] + t * dilation[d] for t in range(kernel[d])] for d, at in ((0, i), (1, j))]
        places = [[k for k in taps[d] if -pads[d] <= k < size[d] + pads[d + 2]] for d in (0, 1)]
        inside = [[k for k in places[d] if 0 <= k < size[d]] for d in (0, 1)]
        counted = places if include else inside
        y[:, :, i, j] = _pooled(x[:, :, inside[0]][:, :, :, inside[1]], kind, len(counted[0]) * len(counted[1]))
    return y


def adaptive_pool(x: Any, kind: str, out: Sequence[int]) -> Any:
    """Windows that cover the images of (N, C, H, W)."""
    y = np.zeros((*x.shape[:2], *out))
    for i, j in np.ndindex(*out):
        rows, columns = (
            slice(at * size // n, -(-(at + 1) * size // n))
            for at, n, size in zip((i, j), out, x.shape[2:], strict=True)
        )
        part = x[:, :, rows, columns]
        y[:, :, i, j] = _pooled(part, kind, part.shape[2] * part.shape[3])
    return y


def _pooled(values: Any, kind: str, count: int) -> Any:
    wide = values.astype(np.float64)
    if kind == "max":
        return wide.max((2, 3)) if values.shape[2] * values.shape[3] else -np.inf
    return wide.sum((2, 3)) / max(count, 1)


# Norms and attention


def layer_norm(x: Any, axis: Any, epsilon: float = 1e-5) -> tuple[Any, Any]:
    """The normalised values before gamma and beta, and the bound."""
    wide = x.astype("float64")
    deviation = np.sqrt(wide.var(axis, keepdims=True) + epsilon)
    exact = (wide - wide.mean(axis, keepdims=True)) / deviation
    n = np.prod([x.shape[at] for at in np.atleast_1d(axis)])
    return exact, (n / 16 + 16) * UNIT * (1 + np.abs(exact) + np.abs(wide).max(axis, keepdims=True) / deviation)


def local_response(x: Any, size: int, axis: int, alpha: float, beta: float, bias: float) -> tuple[Any, Any]:
    """Local response normalisation, and the bound."""
    wide = x.astype("float64")
    squares = np.moveaxis(wide**2, axis, -1)
    padded = np.pad(squares, [(0, 0)] * (x.ndim - 1) + [(size // 2, size // 2)])
    sums = np.lib.stride_tricks.sliding_window_view(padded, size, -1).sum(-1) if squares.size else squares
    total = np.moveaxis(sums, -1, axis)
    exact = wide / (bias + alpha / size * total) ** beta
    return exact, (size + 8) * max(1, beta) * 2 * UNIT * np.abs(exact)


def attention(
    q: Any,
    k: Any,
    v: Any,
    scale: float,
    causal: bool,
    mask: Any = None,
    offset: int = 0,
    fill: float = -np.inf,
) -> tuple[Any, Any]:
    """The result, and the bound of each element; a query that sees no key gives 0."""
    shared = q.shape[-3] // k.shape[-3]
    queries, keys, values = (x.astype("float64") for x in (q, np.repeat(k, shared, -3), np.repeat(v, shared, -3)))
    scores = scale * queries @ np.swapaxes(keys, -1, -2)
    error = (q.shape[-1] + 4) * UNIT * abs(scale) * np.abs(queries) @ np.swapaxes(np.abs(keys), -1, -2)
    if mask is not None and mask.dtype == bool:
        scores, error = np.where(mask, scores, fill), np.where(mask, error, 0)
    elif mask is not None:
        scores, error = scores + mask, np.where(np.isfinite(mask), error + 2 * UNIT * np.abs(scores + mask), 0)
    if causal:
        seen = np.arange(int(k.shape[-2])) <= np.arange(int(q.shape[-2]))[:, None] + offset
        scores, error = np.where(seen, scores, -np.inf), np.where(seen, error, 0)
    weights = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), np.finfo("float64").min))
    total = weights.sum(-1, keepdims=True)
    expected = weights @ values / np.where(total == 0, 1, total)
    largest = np.abs(values).max(-2, keepdims=True)
    return expected, (2 * error.max(-1, keepdims=True) + (k.shape[-2] + 12) * UNIT) * largest


# Weights of few bits


def weight_only(x: Any, whole: Any) -> tuple[Any, Any]:
    """x times the transpose of what packed weights stand for, and the bound."""
    depth = x.shape[1]
    padded = np.pad(x.astype("f8"), ((0, 0), (0, -depth % 32))).reshape(len(x), -(-depth // 32), 32)
    weights = np.pad(whole.astype("f8"), ((0, 0), (0, -depth % 32))).reshape(len(whole), -(-depth // 32), 32)
    rounding = np.einsum("bg,ng->bn", np.abs(padded).max(-1, initial=0) / 253, np.abs(weights).sum(-1))
    exact = np.einsum("bgr,ngr->bn", padded, weights)
    return exact, rounding + (depth / 32 + 6) * UNIT * np.einsum("bgr,ngr->bn", np.abs(padded), np.abs(weights)) * 2


# Images


def windows(x: Any, size: int, border: str, at: int) -> Any:
    """x with each pixel's window, (..., size, size), height and width being dimensions `at` and the next."""
    reach = 0 if border == "valid" else size // 2
    kept = [x.shape[at + d] + 2 * reach - size + 1 for d in (0, 1)]
    if 0 in kept or 0 in x.shape:
        return np.zeros((*x.shape[:at], *kept, *x.shape[at + 2 :], size, size), x.dtype)
    if reach:
        pads = [(0, 0)] * x.ndim
        pads[at] = pads[at + 1] = (reach, reach)
        x = np.pad(x, pads, _BORDERS[border])
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), (at, at + 1))


def resize(
    x: Any, out: Sequence[int], method: str, coordinates: str, rounding: str, at: int, alpha: float = -0.75
) -> Any:
    """x with out[0] rows and out[1] columns, height and width being dimensions `at` and the next."""
    for dim, count in enumerate(out):
        x = np.moveaxis(
            _resized(np.moveaxis(x, at + dim, -1), count, method, coordinates, rounding, alpha), -1, at + dim
        )
    return x


def _resized(x: Any, count: int, method: str, coordinates: str, rounding: str, alpha: float) -> Any:
    size, i = x.shape[-1], np.arange(count)
    # Places as quotients: half a pixel more or less is no matter of rounding.
    top, bottom = {
        "half_pixel": ((2 * i + 1) * size - count, 2 * count),
        "asymmetric": (i * size, count),
        "align_corners": (i * (size - 1), max(count - 1, 1)),
    }[coordinates]
    if method == "nearest":
        places = {"floor": top // bottom, "ceil": -(-top // bottom), "round": -((bottom - 2 * top) // (2 * bottom))}[
            rounding
        ]
        return x[..., np.clip(places, 0, size - 1)]
    if method == "bilinear" and coordinates == "half_pixel":
        top = np.maximum(top, 0)
    first, t = top // bottom, (top % bottom) / bottom

    def keys(d: Any) -> Any:
        d = abs(d)
        inner = (alpha + 2) * d**3 - (alpha + 3) * d**2 + 1
        return np.where(d <= 1, inner, np.where(d < 2, alpha * (d**3 - 5 * d**2 + 8 * d - 4), 0))

    taps = {0: 1 - t, 1: t} if method == "bilinear" else {k: keys(t - k) for k in (-1, 0, 1, 2)}
    return sum(x.astype("float64")[..., np.clip(first + k, 0, size - 1)] * weight for k, weight in taps.items())


def bilateral_slice(grid: Any, guide: Any, image: Any) -> tuple[Any, Any]:
    """The slice, and the sum of the magnitudes of what is added."""
    cells: list[Any] = [np.arange(int(size)) for size in guide.shape]
    places: list[Any] = (
        [
            (cells[0] + 0.5)[:, None] * grid.shape[0] / guide.shape[0] - 0.5 + 0 * guide,
            (cells[1] + 0.5) * grid.shape[1] / guide.shape[1] - 0.5 + 0 * guide,
            np.clip(guide.astype("float64") * grid.shape[2] - 0.5, 0, grid.shape[2] - 1),
        ]
        if guide.size
        else [guide] * 3
    )
    pixels = np.concatenate([image.astype("float64"), np.ones((1, *guide.shape))])
    y, size = (np.zeros((grid.shape[3], *guide.shape)) for _ in range(2))
    for corner in np.ndindex(2, 2, 2):
        low = [np.floor(place) for place in places]
        weight = np.prod(
            [1 - abs(place - first - bit) for place, first, bit in zip(places, low, corner, strict=True)], axis=0
        )
        cell = tuple(
            np.clip(first + bit, 0, extent - 1).astype(int)
            for first, bit, extent in zip(low, corner, grid.shape, strict=False)
        )
        affine = grid.astype("float64")[cell] * weight[..., None, None]
        y += np.einsum("hwoc,chw->ohw", affine, pixels)
        size += np.einsum("hwoc,chw->ohw", abs(affine), abs(pixels))
    return y, size
