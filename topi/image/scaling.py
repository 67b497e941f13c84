"""Resizing along any dimensions, as ONNX describes it: the row of all that is resized.

coordinates: where an element of the result lies in the input; rounding: of mode "nearest". Linear and cubic modes weigh neighbours,
with antialias as many as an element of the result covers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ...ir import ops
from ...te import polymorphic as te
from ...te.shape import same_extent
from ..row import floating, integers, operator, sample
from ..transform import injective
from .planes import Plane
from .resize import interpolate
from .taps import Interpolation, KnownTaps, find_taps, is_quotient


def _numpy_resize(x: Any, *, sizes: Any, scales: Any, region: Any, outside: float, coordinates: str, **how: Any) -> Any:
    """Element by element along a dimension, at exact places where scales are quotients."""
    result, blank = x.astype(np.float64), np.zeros(sizes, bool)
    for at, (size, out) in enumerate(zip(x.shape, sizes, strict=True)):
        if size == out and scales[at] in (0, 1) and not region:  # a dimension that stays is left as it is
            continue
        # exact fractions, to find what rounding of floats would get wrong
        by = Fraction(out, max(size, 1)) if is_quotient(size, out, scales[at]) else scales[at]
        ends = (region[at], region[at + x.ndim]) if region else (0.0, 1.0)
        places = [_numpy_place(i, size, out, by, coordinates, *ends) for i in range(out)]
        lines = [_numpy_taps(place, size, by, **how) for place in places]
        parts = [sum(np.take(result, tap, at) * weight for tap, weight in line) for line in lines]
        result = np.stack(parts, at) if parts else np.take(result, [], at)
        # places outside are blank with tf_crop_and_resize alone
        beyond = np.array([not 0 <= place <= size - 1 for place in places], bool)
        blank |= beyond.reshape([-1 if dim == at else 1 for dim in range(x.ndim)])
    if coordinates == "tf_crop_and_resize":
        result = np.where(blank, outside, result)
    if x.dtype.kind in "iu":
        # integers are clipped to their range
        result = np.clip(np.rint(result), np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    return result


def _numpy_place(i: int, size: int, out: int, by: Any, coordinates: str, low: float, high: float) -> Any:
    half = Fraction(1, 2)
    if coordinates == "asymmetric":
        return i / by
    if coordinates == "align_corners":
        return i * (size - 1) / (by * size - 1) if by * size != 1 else 0
    if coordinates == "tf_crop_and_resize":
        whole = by * size - 1
        step = i * (high - low) * (size - 1) / float(whole if whole else 1)
        return 0.5 * (low + high) * (size - 1) if out == 1 else low * (size - 1) + step
    if coordinates == "pytorch_half_pixel" and by * size <= 1:
        return -half
    middle = (i + half) / by - half
    return middle + half * size * (1 - out / (by * size)) if coordinates == "half_pixel_symmetric" else middle


def _numpy_taps(
    place: Any, size: int, by: Any, mode: str, rounding: str, cubic: float, exclude_outside: bool, antialias: bool
) -> list[tuple[int, float]]:
    """The elements that make one of the result, and their weights."""
    half = Fraction(1, 2)
    if mode == "nearest":
        rounded = {
            "floor": lambda: math.floor(place),
            "ceil": lambda: math.ceil(place),
            "round_prefer_floor": lambda: math.ceil(place - half),
            "round_prefer_ceil": lambda: math.floor(place + half),
        }[rounding]()
        return [(min(max(rounded, 0), size - 1), 1.0)]
    shrink = min(by, 1) if antialias else 1  # wider kernels when shrinking, as ONNX's antialias has it
    reach = {"linear": 1, "cubic": 2}[mode] / shrink
    weights = {
        tap: _numpy_weight(abs(float((tap - place) * shrink)), mode, cubic)
        for tap in range(math.ceil(place - reach), math.floor(place + reach) + 1)
    }
    if exclude_outside:
        weights = {tap: weight for tap, weight in weights.items() if 0 <= tap < size}
    # excluded or widened weights have to add up to 1 again
    total = sum(weights.values()) if exclude_outside or antialias else 1.0
    return [(min(max(tap, 0), size - 1), weight / total) for tap, weight in weights.items()]


def _numpy_weight(d: float, mode: str, a: float) -> float:
    if mode == "linear":
        return max(1 - d, 0.0)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0


_IMAGE = floating(1, 2, 5, 6)
_SAMPLES = [
    sample(
        _IMAGE,
        sizes=(1, 2, 9, 4),
        scales=(1.0, 1.0, 1.8, 4 / 6),
        mode=mode,
        coordinates=coordinates,
        antialias=mode == "linear" and coordinates == "align_corners",
    )
    for mode in ("nearest", "linear", "cubic")
    for coordinates in ("half_pixel", "align_corners", "asymmetric")
]


@operator(
    "resize",
    reference=_numpy_resize,
    samples=[
        *_SAMPLES,
        sample(floating(1, 2, 5, 6), sizes=(1, 2, 9, 4), scales=(0.0, 0.0, 0.0, 0.0), mode="linear", antialias=True),
        sample(integers(4, 5, below=99, dtype="uint8"), sizes=(3, 5), scales=(0.75, 1.0), mode="linear"),
        sample(
            floating(4, 5),
            sizes=(3, 5),
            scales=(0.75, 1.0),
            mode="linear",
            coordinates="tf_crop_and_resize",
            region=(0.25, 0.5, 1.5, 1.0),
            outside=7.0,
        ),
    ],
)
def _resize(
    x: Any,
    *,
    sizes: Any,
    scales: Any,
    mode: str = "nearest",
    coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor",
    cubic: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
    region: Any = (),
    outside: float = 0.0,
) -> Any:
    how = Interpolation(mode, coordinates, rounding, cubic, exclude_outside, antialias)
    rank = x.ndim
    ends = region or (*[0.0] * rank, *[1.0] * rank)
    taps = {
        at: find_taps(x.shape[at], sizes[at], how, scales[at], ends[at], ends[at + rank])
        for at in range(rank)
        if region or scales[at] not in (0, 1) or not same_extent(ops.convert(sizes[at]), x.shape[at])
    }
    if not taps:
        return te.compute(x.shape, lambda *i: x[i], name="resize", tag="injective")
    if region and any(one.known is None for one in taps.values()):  # only tables know the elements that lie outside
        raise ValueError(f"a shape with symbols is not resized by {how}")
    result = interpolate(Plane(x, max(rank - 2, 0), 1, "edge"), taps)
    if coordinates != "tf_crop_and_resize":
        return result
    return _fill_blank(result, {at: one.known for at, one in taps.items() if one.known is not None}, outside)


def _fill_blank(x: Any, tables: dict[int, KnownTaps], outside: float) -> Any:
    flags = [(at, te.constant(known.outside.astype(np.int8), "outside")) for at, known in tables.items()]
    # an integer result takes the nearest value that it has
    value = outside if x.dtype.is_float else min(max(round(outside), x.dtype.least), x.dtype.greatest)
    return injective(
        x.shape,
        lambda *i: te.if_then_else(te.any(*(flag[i[at]] != 0 for at, flag in flags)), te.const(value, x.dtype), x[i]),
        "resize_outside",
    )
