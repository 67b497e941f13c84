"""Resizing along any dimensions, as ONNX describes it: each dimension by a table of places and weights, which are known.

coordinates: where an element of the result lies in the input; rounding: of mode "nearest". Linear and cubic modes weigh neighbours,
with antialias as many as an element of the result covers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir import ops
from ...ir.expr import IntImm
from ...te import either as te
from ...te.shape import same_extent
from ..row import floating, integers, operator, sample
from ..transform import injective
from .resize import resize

_ROUNDINGS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _positions(size: int, out: int, scale: float, coordinates: str, low: float, high: float) -> NDArray[Any]:
    """Places of the elements of the result along one dimension."""
    x = np.arange(out, dtype=np.float64)
    if _is_quotient(size, out, scale):  # halves are exact where the numerator is
        if coordinates == "asymmetric":
            return x * size / out
        if coordinates == "half_pixel" or coordinates == "pytorch_half_pixel" and out > 1:
            return ((2 * x + 1) * size - out) / (2 * out)
    exact = scale * size
    if coordinates == "align_corners":
        return x * (size - 1) / (exact - 1) if exact != 1 else np.zeros(out)
    if coordinates == "asymmetric":
        return x / scale
    if coordinates == "half_pixel":
        return (x + 0.5) / scale - 0.5
    if coordinates == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if exact > 1 else np.full(out, -0.5)
    if coordinates == "half_pixel_symmetric":
        return size / 2 * (1 - out / exact) + (x + 0.5) / scale - 0.5
    if coordinates == "tf_crop_and_resize":
        if out == 1:
            return np.full(1, 0.5 * (low + high) * (size - 1))
        return low * (size - 1) + x * (high - low) * (size - 1) / (exact - 1 if exact != 1 else 1)
    raise ValueError(f"there are no coordinates {coordinates!r}")


def _kernel(mode: str, cubic: float) -> tuple[Callable[[NDArray[Any]], NDArray[Any]], int]:
    """The weight of a neighbour by its distance, and how far neighbours count."""
    if mode == "linear":
        return lambda d: np.maximum(1 - np.abs(d), 0), 1
    if mode != "cubic":
        raise ValueError(f"there is no mode {mode!r}")

    def weight(distance: NDArray[Any]) -> NDArray[Any]:
        d = np.abs(distance)
        near = ((cubic + 2) * d - (cubic + 3)) * d * d + 1
        far = ((cubic * d - 5 * cubic) * d + 8 * cubic) * d - 4 * cubic
        return np.where(d < 1, near, np.where(d < 2, far, 0))

    return weight, 2


def _table(
    size: int,
    out: int,
    scale: float,
    low: float,
    high: float,
    how: dict[str, Any],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The places (out, taps) and weights (out, taps) of one dimension, and which elements lie outside."""
    x = _positions(size, out, scale, how["coordinates"], low, high)
    outside = (x < 0) | (x > size - 1)
    if how["mode"] == "nearest":
        return (
            np.clip(_ROUNDINGS[how["rounding"]](x), 0, size - 1).astype(np.int64)[:, None],
            np.ones((out, 1)),
            outside,
        )
    kernel, reach = _kernel(how["mode"], how["cubic"])
    shrink = min(scale, 1.0) if how["antialias"] else 1.0
    far = reach / shrink
    first = np.floor(x - far).astype(np.int64) + 1
    taps = first[:, None] + np.arange(int(np.ceil(2 * far)))
    weights = kernel((taps - x[:, None]) * shrink)
    if how["exclude_outside"] or how["antialias"]:
        if how["exclude_outside"]:
            weights = np.where((taps < 0) | (taps >= size), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(taps, 0, size - 1), weights, outside


def _tables(shape: Any, sizes: Any, scales: Any, region: Any, how: dict[str, Any]) -> list[tuple[int, Any, Any, Any]]:
    rank = len(shape)
    ends = region or (*[0.0] * rank, *[1.0] * rank)
    return [
        (
            at,
            *_table(
                int(shape[at]), sizes[at], scales[at] or sizes[at] / int(shape[at]), ends[at], ends[at + rank], how
            ),
        )
        for at in range(rank)
        if sizes[at] != int(shape[at]) or scales[at] not in (0, 1) or region
    ]


def _numpy_resize(x: Any, *, sizes: Any, scales: Any, region: Any, outside: float, **how: Any) -> Any:
    result = x.astype(np.float64)
    blank = np.zeros(sizes, bool)
    for at, places, weights, beyond in _tables(x.shape, sizes, scales, region, how):
        parts = np.take(result, places, at)
        shape = [1] * parts.ndim
        shape[at : at + 2] = weights.shape
        result = (parts * weights.reshape(shape)).sum(at + 1)
        blank |= beyond.reshape([-1 if dim == at else 1 for dim in range(x.ndim)])
    result = np.where(blank, outside, result) if how["coordinates"] == "tf_crop_and_resize" else result
    return (
        result if x.dtype.kind not in "iu" else np.clip(np.rint(result), np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    )


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
    how = {
        "mode": mode,
        "coordinates": coordinates,
        "rounding": rounding,
        "cubic": cubic,
        "exclude_outside": exclude_outside,
        "antialias": antialias,
    }
    if not region and not antialias and not exclude_outside and _is_plane(x, sizes, scales, how):
        method, image = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode), (sizes[2], sizes[3])
        rounding = "round" if rounding == "round_prefer_floor" else rounding
        return resize(x, image, method, "NCHW", False, coordinates.removeprefix("pytorch_"), rounding, cubic)
    kind = x.dtype
    wide = "float64" if str(kind) == "float64" else "float32"
    open_axes = [at for at, one in enumerate(x.shape) if not isinstance(one, IntImm)]
    open_axes += [at for at, one in enumerate(sizes) if not isinstance(one, int) and at not in open_axes]
    resized = [at for at in open_axes if scales[at] != 1 or not same_extent(ops.convert(sizes[at]), x.shape[at])]
    if open_axes and region or resized and (mode == "cubic" or antialias):
        raise ValueError(
            f"a shape with symbols is not resized by mode {mode!r}, antialias {antialias}, {coordinates!r}"
        )
    result = x
    for at in resized:
        result = _resize_open_dimension(result, at, sizes[at], scales[at], how, wide)
    whole = [1 if at in open_axes else one for at, one in enumerate(x.shape)]
    tables = _tables(
        whole,
        [1 if at in open_axes else one for at, one in enumerate(sizes)],
        [1 if at in open_axes else one for at, one in enumerate(scales)],
        region,
        how,
    )
    for at, places, weights, _ in tables:
        result = _resize_dimension(result, at, places.astype(np.int32), weights.astype(wide), mode == "nearest", wide)
    if coordinates == "tf_crop_and_resize" and tables:
        result = _fill_blank(result, tables, outside)
    if str(result.dtype) == str(kind):
        return result if result is not x else te.compute(x.shape, lambda *i: x[i], name="resize", tag="injective")
    if not kind.is_float:
        least, greatest = te.const(kind.least, wide), te.const(kind.greatest, wide)
        return te.compute(
            result.shape,
            lambda *i: te.max(te.min(te.nearbyint(result[i]), greatest), least).astype(kind),
            name="resize",
            tag="elemwise",
        )
    return result.astype(kind)


def _is_plane(x: Any, sizes: Any, scales: Any, how: dict[str, Any]) -> bool:
    """Tell images (N, C, H, W) of known sizes that are resized in height and width by the quotients of their sizes, and in a way that
    topi.image.resize has, which rounds whole numbers at halves in another way."""
    known = [one.value for one in x.shape if isinstance(one, IntImm)]
    if len(known) != 4 or x.ndim != 4 or tuple(known[:2]) != tuple(sizes[:2]) or 0 in (*known, *sizes):
        return False
    coordinates = how["coordinates"].removeprefix("pytorch_")
    return (
        all(_is_quotient(*each) for each in zip(known, sizes, scales, strict=True))
        and coordinates in ("half_pixel", "align_corners", "asymmetric")
        and (not how["coordinates"].startswith("pytorch_") or min(sizes[2:]) > 1)
        and (x.dtype.is_float if how["mode"] != "nearest" else how["rounding"] != "round_prefer_ceil")
    )


def _is_quotient(size: int, out: int, scale: float) -> bool:
    """Tell a scale that is that of the sizes, as exact as a float is."""
    return not scale or abs(scale * size - out) < 1e-6 * out


def _resize_dimension(x: Any, at: int, places: NDArray[Any], weights: NDArray[Any], nearest: bool, wide: str) -> Any:
    where, weigh = te.constant(places, "places"), te.constant(weights, "weights")
    shape = (*x.shape[:at], places.shape[0], *x.shape[at + 1 :])

    def place(i: Any, tap: int) -> tuple[Any, ...]:
        return (*i[:at], te.max(te.min(where[i[at], tap], x.shape[at] - 1), 0), *i[at + 1 :])

    def element(*i: Any) -> Any:
        if nearest:
            return x[place(i, 0)]
        total = x[place(i, 0)].astype(wide) * weigh[i[at], 0]
        for tap in range(1, places.shape[1]):
            total = total + x[place(i, tap)].astype(wide) * weigh[i[at], tap]
        return total

    return injective(shape, element, "resize")


def _resize_open_dimension(x: Any, at: int, out: Any, scale: float, how: dict[str, Any], wide: str) -> Any:
    """Along a dimension of which an extent is a symbol: places are computed where elements are."""
    size = x.shape[at]
    last, real, many = size - 1, ops.cast(size, "float64"), ops.cast(ops.convert(out), "float64")
    by: Any = te.const(scale, "float64") if scale else many / real

    def place(i: Any) -> Any:
        index = i.astype("float64")
        if how["coordinates"] == "asymmetric":
            return index / by
        if how["coordinates"] == "align_corners":
            return te.select((by * real).equal(1), te.const(0.0, "float64"), index * (real - 1) / (by * real - 1))
        middle = (index + 0.5) / by - 0.5
        if how["coordinates"] == "half_pixel":
            return middle
        if how["coordinates"] == "pytorch_half_pixel":
            return te.select(by * real > 1, middle, te.const(-0.5, "float64"))
        raise ValueError(f"a shape with symbols has no coordinates {how['coordinates']!r}")

    def inside(i: Any, tap: Any) -> tuple[Any, ...]:
        return (*i[:at], te.max(te.min(tap.astype("int32"), last), 0), *i[at + 1 :])

    def element(*i: Any) -> Any:
        there = place(i[at])
        if how["mode"] == "nearest":
            return x[inside(i, _OPEN_ROUNDINGS[how["rounding"]](there))]
        low = te.floor(there)
        far = (there - low).astype(wide)
        first, second = (x[inside(i, tap)].astype(wide) for tap in (low, low + 1))
        return first * (1 - far) + second * far

    return injective((*x.shape[:at], out, *x.shape[at + 1 :]), element, "resize")


_OPEN_ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda x: te.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: te.floor(x + 0.5),
    "floor": te.floor,
    "ceil": te.ceil,
}


def _fill_blank(x: Any, tables: list[tuple[int, Any, Any, Any]], outside: float) -> Any:
    flags = [(at, te.constant(beyond.astype(np.int8), "outside")) for at, _, _, beyond in tables]
    return injective(
        x.shape,
        lambda *i: te.if_then_else(te.any(*(flag[i[at]] != 0 for at, flag in flags)), te.const(outside, x.dtype), x[i]),
        "resize_outside",
    )
