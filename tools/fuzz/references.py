"""References of operators' rows in float64, and by how much float32 may miss each element.

For tools/fuzz/operator_rows.py and its neighbours, and for the tests of each operator. A bound is what the operator's module
documents. What has no row is written out here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.arguments import to_list
from ...topi.references import standardize
from ...topi.row import find_reference

__all__ = [
    "UNIT",
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


def _sum_products(name: str, x: Any, w: Any, terms: int, **how: Any) -> tuple[Any, Any]:
    """A sum of so many products by the reference of its row, and the bound."""
    x, w, reference = x.astype(np.float64), w.astype(np.float64), find_reference(name)
    return reference(x, w, **how), reference(abs(x), abs(w), **how) * terms * UNIT


def convolution(
    x: Any, w: Any, stride: Any = (1, 1), pads: Any = (0, 0, 0, 0), dilation: Any = (1, 1), groups: int = 1
) -> tuple[Any, Any]:
    """x (N, C, H, W) with w (O, C / groups, KH, KW), and the bound."""
    terms = math.prod(w.shape[1:])
    return _sum_products("conv", x, w, terms, stride=stride, padding=pads, dilation=dilation, groups=groups)


def transposed_convolution(x: Any, w: Any, stride: Any, pads: Any, more: Any) -> tuple[Any, Any]:
    """x (N, C, H, W) spread by w (C, O, KH, KW), and the bound."""
    terms = w.size // max(w.shape[1], 1)
    return _sum_products("conv_transpose", x, w, terms, stride=stride, padding=pads, output_padding=more)


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
    how = {"kernel": kernel, "stride": stride, "padding": pads, "dilation": dilation, "ceil_mode": ceil}
    if kind == "max":
        return find_reference("max_pool")(x, **how)
    return find_reference("avg_pool")(x, count_padding=include, **how)


# Norms and attention


def layer_norm(x: Any, axis: Any, epsilon: float = 1e-5) -> tuple[Any, Any]:
    """The normalised values before gamma and beta, and the bound."""
    wide, axes = x.astype("float64"), tuple(to_list(axis))
    exact, deviation = standardize(wide, axes, epsilon), np.sqrt(wide.var(axes, keepdims=True) + epsilon)
    n = math.prod(x.shape[at] for at in axes)
    most = np.abs(wide).max(axes, keepdims=True) / deviation
    return exact, (n / 16 + 16) * UNIT * (1 + np.abs(exact) + most)


def local_response(x: Any, size: int, axis: int, alpha: float, beta: float, bias: float) -> tuple[Any, Any]:
    """Local response normalisation, and the bound."""
    at = axis % x.ndim + 1
    wide = np.moveaxis(x.astype("float64")[None], at, 1)
    exact = np.moveaxis(find_reference("lrn")(wide, size=size, alpha=alpha, beta=beta, bias=bias), 1, at)[0]
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
    how = {"scale": scale, "causal": causal, "offset": (offset,), "fill": fill}
    expected = find_reference("attention")(q, k, v, *([] if mask is None else [mask]), **how)
    keys = np.repeat(k, q.shape[-3] // k.shape[-3], -3).astype("float64")
    error = (q.shape[-1] + 4) * UNIT * abs(scale) * np.abs(q.astype("float64")) @ np.swapaxes(np.abs(keys), -1, -2)
    if mask is not None and mask.dtype == bool:
        error = np.where(mask, error, 0)
    elif mask is not None:
        scores = scale * q.astype("float64") @ np.swapaxes(keys, -1, -2) + mask
        error = np.where(np.isfinite(mask), error + 2 * UNIT * np.abs(scores), 0)
    if causal:
        error = error * np.tri(int(q.shape[-2]), int(k.shape[-2]), offset)
    largest = np.repeat(np.abs(v.astype("float64")).max(-2, keepdims=True), q.shape[-3] // k.shape[-3], -3)
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
    sizes = (*x.shape[:at], *out, *x.shape[at + 2 :])
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(method, method)
    how = {"mode": mode, "coordinates": coordinates, "cubic": alpha, "scales": (0.0,) * x.ndim}
    how["rounding"] = {"round": "round_prefer_floor"}.get(rounding, rounding)
    return find_reference("resize")(x.astype("float64"), sizes=sizes, **how)


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
