"""Operators that look images up between their elements, at places that are data."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import topi
from ...te.shape import same_extent
from ..nn.spatial import spatial
from ..row import floating, operator, positive, sample
from .sampling import sample_grid

_METHODS = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}


def _cubic(part: NDArray[Any], a: float = -0.75) -> list[NDArray[Any]]:
    distance = np.abs(np.stack([part + 1, part, 1 - part, 2 - part]))
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return list(np.where(distance <= 1, near, far))  # Keys' kernel, within 1 and within 2 of the place


def _numpy_lookup(
    x: NDArray[Any], lead: tuple[Any, ...], places: list[Any], mode: str, padding: str, align: bool
) -> Any:
    """The elements of x behind `lead` at places, each dimension's an array of the result's shape."""
    found: list[list[tuple[Any, Any, Any]]] = []
    for place, size in zip(places, x.shape[len(lead) :], strict=True):
        first = np.rint(place) if mode == "nearest" else np.floor(place)
        part = place - first
        weights = [np.ones_like(part)] if mode == "nearest" else [1 - part, part] if mode == "linear" else _cubic(part)
        each: list[tuple[Any, Any, Any]] = []
        for at, weight in enumerate(weights):
            index = first.astype(np.int64) + at - (mode == "cubic")  # cubic neighbours begin one before
            inside = (index >= 0) & (index < size) if padding == "zeros" else True
            if padding == "reflection":
                period = max(2 * size - 2, 1) if align else 2 * size  # corners aligned mirror at centres, else at edges
                index = index % period
                # clipped places of padding by zeros weigh nothing
                index = np.minimum(index, period - index if align else period - 1 - index)
            each.append((np.clip(index, 0, size - 1), weight, inside))
        found.append(each)
    total: Any = 0
    for chosen in itertools.product(*found):
        value = x[(*lead, *(index for index, _, _ in chosen))]
        for _, weight, inside in chosen:
            value = np.where(inside, value, 0) * weight
        total = total + value
    return total


def _numpy_grid_sample(x: Any, grid: Any, *, mode: str, padding: str, align_corners: bool) -> Any:
    rank = x.ndim - 2
    whole = grid.astype(np.float64)[:, None]  # in float64 as reference
    sizes = x.shape[2:]
    # the grid's last coordinate is x, along the last dimension
    each = [whole[..., rank - 1 - at] + 1 for at in range(rank)]
    places = [
        one / 2 * (size - 1) if align_corners else (one * size - 1) / 2 for one, size in zip(each, sizes, strict=True)
    ]
    lead = [
        np.arange(int(extent)).reshape([-1 if dim == at else 1 for dim in range(rank + 2)])
        for at, extent in enumerate(x.shape[:2])
    ]
    return _numpy_lookup(x.astype(np.float64), tuple(lead), places, mode, padding, align_corners)


@operator(
    "grid_sample",
    reference=_numpy_grid_sample,
    samples=[
        sample(floating(2, 3, 5, 7), floating(2, 4, 3, 2), mode="nearest", padding="zeros", align_corners=True),
        sample(floating(2, 3, 5, 7), floating(2, 4, 3, 2), mode="linear", padding="reflection", align_corners=False),
        sample(floating(2, 3, 5, 7), floating(2, 4, 3, 2), mode="cubic", padding="border", align_corners=True),
        sample(floating(1, 2, 3, 1, 5), floating(1, 2, 3, 1, 3), align_corners=False),
    ],
)
def _grid_sample(
    x: Any, grid: Any, *, mode: str = "linear", padding: str = "zeros", align_corners: bool = False
) -> Any:
    """x (N, C, ...) at the places of a grid (N, ..., 2 or 3) of coordinates x, y (and z) from -1 to 1: (N, C, ...). mode:
    "nearest", "linear" or "cubic"; padding: "zeros", "border" or "reflection", as topi.image.grid_sample has them."""
    rank = x.ndim - 2

    def coordinate(n: Any, at: Any, *i: Any) -> Any:
        return grid[(n, *i, rank - 1 - at)]

    if grid.ndim != x.ndim or int(grid.shape[-1]) != rank:
        raise ValueError(f"a grid over {rank} dimensions has {rank} coordinates for each place")
    shape = (*x.shape[:2], *grid.shape[1:-1])
    return sample_grid(x, shape, coordinate, grid.dtype, _METHODS.get(mode, mode), padding, align_corners)


_REGIONS = np.asarray([[1, 2, 9, 12], [-3, 4.5, 2, 30], [5, 5, 4, 4]], "float32")


def _numpy_roi_align(
    x: Any,
    rois: Any,
    batches: Any,
    *,
    size: Any,
    scale: float,
    mode: str,
    samples: int,
    aligned: bool,
) -> Any:
    high, wide = x.shape[2:]
    result = np.zeros((len(rois), x.shape[1], *size), np.float64)
    for r, (box, batch) in enumerate(zip(rois.astype(np.float64), batches, strict=True)):
        x0, y0, x1, y1 = box * scale - 0.5 * aligned
        # without `aligned` a box has at least one pixel
        sides = [end - begin if aligned else max(end - begin, 1) for begin, end in ((y0, y1), (x0, x1))]
        each = [side / count for side, count in zip(sides, size, strict=True)]
        # as many samples as a bin has pixels
        counts = [samples if samples > 0 else int(np.ceil(max(one, 0))) for one in each]
        if not counts[0] * counts[1]:
            continue  # a box without area gives zeros
        ys, xs = (
            begin + (np.arange(int(count * number)) + 0.5) * one / number
            for begin, count, number, one in zip((y0, x0), size, counts, each, strict=True)
        )
        # a place up to one pixel outside is still the edge
        outside = ((ys < -1) | (ys > high))[:, None] | (xs < -1) | (xs > wide)
        y, x_ = (np.clip(place, 0, extent - 1) for place, extent in ((ys, high), (xs, wide)))
        image = x[int(np.clip(batch, 0, len(x) - 1))].astype(np.float64)
        y, x_ = np.broadcast_arrays(y[:, None], x_[None])
        terms: list[Any] = []
        for dy, dx in itertools.product((0, 1), (0, 1)):
            fy, fx = np.floor(y).astype(int), np.floor(x_).astype(int)
            weight = (y - fy if dy else 1 - (y - fy)) * (x_ - fx if dx else 1 - (x_ - fx))
            terms.append(image[:, np.minimum(fy + dy, high - 1), np.minimum(fx + dx, wide - 1)] * weight)
        values = np.max(terms, 0) if mode == "max_terms" else np.sum(terms, 0)
        parts = np.where(outside, 0, values).reshape(-1, size[0], counts[0], size[1], counts[1])
        result[r] = parts.mean((2, 4)) if mode == "avg" else parts.max((2, 4))  # over the samples of each bin
    return result


@operator(
    "roi_align",
    reference=_numpy_roi_align,
    samples=[
        sample(
            floating(2, 3, 9, 7),
            _REGIONS,
            np.asarray([0, 1, 1], "int64"),
            size=(3, 2),
            scale=0.6,
            mode="avg",
            samples=0,
            aligned=False,
        ),
        sample(
            floating(2, 3, 9, 7),
            _REGIONS,
            np.asarray([0, 1, 1], "int64"),
            size=(3, 2),
            scale=0.6,
            mode="max",
            samples=2,
            aligned=True,
        ),
        sample(
            floating(2, 3, 9, 7),
            _REGIONS,
            np.asarray([0, 1, 1], "int64"),
            size=(3, 2),
            scale=0.6,
            mode="max_terms",
            samples=0,
            aligned=True,
        ),
    ],
)
def _roi_align(
    x: Any,
    rois: Any,
    batches: Any,
    *,
    size: Any,
    scale: float = 1.0,
    mode: str = "avg",
    samples: int = 0,
    aligned: bool = False,
) -> Any:
    """Regions (R, 4) of the images (R,) of x (N, C, H, W), each as `size` bins: (R, C, *size). As topi.vision.roi_align has it."""
    if not same_extent(rois.shape[0], batches.shape[0]):
        raise ValueError("there is an image for each region")
    return topi.vision.roi_align(x, rois, size, scale, mode, samples, batches, aligned)


def _numpy_deform_conv(
    x: Any,
    offset: Any,
    w: Any,
    mask: Any = None,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    offset_groups: int,
) -> Any:
    (n, channels, *_), (kh, kw), (oh, ow) = x.shape, w.shape[2:], offset.shape[2:]
    stride, padding, dilation = spatial(2, stride, padding, dilation)
    # offsets are pairs of y and x for each tap
    moved = offset.astype(np.float64).reshape(n, offset_groups, kh, kw, 2, oh, ow)
    starts = [
        np.arange(int(count)) * step - low for count, step, low in zip((oh, ow), stride, padding[:2], strict=True)
    ]
    taps = [np.arange(int(count)) * far for count, far in zip((kh, kw), dilation, strict=True)]
    y = moved[..., 0, :, :] + taps[0][:, None, None, None] + starts[0][:, None]
    x_ = moved[..., 1, :, :] + taps[1][:, None, None] + starts[1]
    each = [np.repeat(place, channels // offset_groups, 1) for place in (y, x_)]
    lead = (np.arange(int(n)).reshape(-1, 1, 1, 1, 1, 1), np.arange(int(channels)).reshape(-1, 1, 1, 1, 1))
    columns = _numpy_lookup(x.astype(np.float64), lead, each, "linear", "zeros", False)
    if mask is not None:
        weighed = mask.astype(np.float64).reshape(n, offset_groups, kh, kw, oh, ow)
        columns = columns * np.repeat(weighed, channels // offset_groups, 1)
    parts = [  # groups are convolutions of their own
        np.einsum("nckltu,ockl->notu", part, weight.astype(np.float64), optimize=True)
        for part, weight in zip(np.split(columns, groups, 1), np.split(w, groups, 0), strict=True)
    ]
    return np.concatenate(parts, 1)


@operator(
    "deform_conv",
    reference=_numpy_deform_conv,
    samples=[
        sample(
            floating(1, 4, 5, 7),
            floating(1, 24, 3, 5),
            floating(6, 2, 3, 2),
            positive(1, 12, 3, 5),
            groups=2,
            offset_groups=2,
            stride=(2, 1),
            padding=(1, 0, 1, 1),
            dilation=(1, 3),
        )
    ],
)
def _deform_conv(
    x: Any,
    offset: Any,
    w: Any,
    mask: Any = None,
    *,
    stride: Any = (),
    padding: Any = (),
    dilation: Any = (),
    groups: int = 1,
    offset_groups: int = 1,
) -> Any:
    """The convolution of x (N, C, H, W) by w (O, C / groups, KH, KW) whose taps are moved by offset (N, offset_groups * KH * KW
    * 2, ...) and weighed by mask (N, offset_groups * KH * KW, ...), as topi.nn.deformable_conv2d_nchw has it."""
    stride, padding, dilation = spatial(2, stride, padding, dilation)
    return topi.nn.deformable_conv2d_nchw(x, offset, w, stride, padding, dilation, offset_groups, groups, None, mask)
