"""Taps of interpolation along one dimension: which elements of the input make one of the result, and by which weights.

Where element i of the result lies in the input, by the coordinates that ONNX, TVM and torch name:

    "half_pixel"            (i + 0.5) * size / out - 0.5          torch's align_corners=False
    "align_corners"         i * (size - 1) / (out - 1)            torch's align_corners=True
    "asymmetric"            i * size / out                        what torch's nearest neighbours are of, rounded down
    "pytorch_half_pixel"    half_pixel, and -0.5 where out is 1
    "half_pixel_symmetric"  half_pixel, around the middle of what a scale that is no quotient of sizes leaves
    "tf_crop_and_resize"    from `low` to `high`, parts of the input

Linear taps are the two neighbours, cubic ones four by Keys' kernel (R. G. Keys, 1981); with antialias, as many as an element of the
result covers. Taps outside are the elements at the edge. Of sizes that are known, places and weights are tables, made when the
program is declared; of symbols they are computed where elements are, in whole numbers unless a scale is given.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.dataclass import dataclass
from ...ir import Expr, IntImm, ops
from ...te import polymorphic as te
from ..weighted_sums import keys_weights, weighted_sum

_ROUNDINGS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "round_prefer_floor": (
        lambda x: np.ceil(x - 0.5),
        lambda x: te.ceil(x - 0.5),
        lambda top, bottom: te.floordiv(2 * top + bottom - 1, 2 * bottom),
    ),
    "round_prefer_ceil": (
        lambda x: np.floor(x + 0.5),
        lambda x: te.floor(x + 0.5),
        lambda top, bottom: te.floordiv(2 * top + bottom, 2 * bottom),
    ),
    "floor": (np.floor, te.floor, te.floordiv),
    "ceil": (np.ceil, te.ceil, lambda top, bottom: te.floordiv(top + bottom - 1, bottom)),
}
"""Rounding of an array, of an expression, and of a quotient of integers."""


@dataclass(frozen=True)
class Interpolation:
    """The way elements between others are made. mode: "nearest", "linear" or "cubic". rounding: of nearest neighbours; cubic:
    Keys' a; exclude_outside: taps outside weigh nothing, and the others add up to 1."""

    mode: str
    coordinates: str
    rounding: str = "floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@dataclass(frozen=True, eq=False)
class KnownTaps:
    """Taps known before the kernel runs.

    places, weights: (out, taps); outside: the elements of the result that lie outside.
    """

    places: NDArray[Any]
    weights: NDArray[Any]
    outside: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Taps:
    """The taps from `size` elements to `out`. known: as tables, None of symbols."""

    size: Any
    out: Any
    how: Interpolation
    scale: float
    known: KnownTaps | None

    @property
    def is_nearest(self) -> bool:
        """Return whether there is one tap, and no weight."""
        return self.how.mode == "nearest"

    def reader(self, kind: Any, in_lanes: bool = False) -> Callable[[Any, Callable[[Any], Expr]], Expr]:
        """Return what makes element i of the result: (i, read), read(place) being an element of the input. kind: of the sums."""
        find = self.finder(kind, in_lanes)

        def made(i: Any, read: Callable[[Any], Expr]) -> Expr:
            places, weights = find(i)
            values = list(map(read, places))
            return values[0] if self.is_nearest else weighted_sum([value.astype(kind) for value in values], weights)

        return made

    def finder(self, kind: Any, in_lanes: bool = False) -> Callable[[Any], tuple[list[Any], list[Any]]]:
        """Return what gives places and weights of the taps of element i; no weights of nearest neighbours. in_lanes: i lies in lanes,
        which look up tables faster than they divide; one number for a row is computed, so that factors such as 2 leave nothing."""
        # scales and antialias need floats, which tables have at no cost
        by_table = self.known is not None and (in_lanes or self.scale or not _is_open(self.how))
        find = self._find_known(self.known, kind) if by_table and self.known else self._find_open(kind)

        def inside(i: Any) -> tuple[list[Any], list[Any]]:
            places, weights = find(i)
            # taps at the edge repeat the outermost element
            return [te.max(te.min(place, self.size - 1), 0) for place in places], weights

        return inside

    def _find_known(self, known: KnownTaps, kind: Any) -> Callable[[Any], tuple[list[Any], list[Any]]]:
        where, count = te.constant(known.places.astype(np.int32), "places"), range(known.places.shape[1])
        if self.is_nearest:
            return lambda i: ([where[i, 0]], [])
        weigh = te.constant(known.weights.astype(str(kind)), "weights")
        return lambda i: ([where[i, k] for k in count], [weigh[i, k] for k in count])

    def _find_open(self, kind: Any) -> Callable[[Any], tuple[list[Any], list[Any]]]:
        rounded = _ROUNDINGS[self.how.rounding]

        def find(i: Any) -> tuple[list[Any], list[Any]]:
            if self.scale:
                place = self._open_place(i)
                if self.is_nearest:
                    return [rounded[1](place).astype("int32")], []
                first = te.floor(place)
                cell, part = first.astype("int32"), (place - first).astype(kind)
            else:
                top, bottom = self._quotient(i)  # whole numbers, so that no size is off by rounding
                if self.is_nearest:
                    return [rounded[2](top, bottom)], []
                cell = te.floordiv(top, bottom)
                rest = te.floormod(top, bottom).astype(kind)
                known = isinstance(bottom, int)  # a product takes less than a quotient, and is as near
                part = rest * te.const(1 / bottom, kind) if known else rest / ops.convert(bottom).astype(kind)
            if self.how.mode == "linear":
                return [cell, cell + 1], [1 - part, part]
            return [cell + k for k in (-1, 0, 1, 2)], list(keys_weights(part, self.how.cubic))

        return find

    def _quotient(self, i: Any) -> tuple[Any, Any]:
        """The place of an element as a quotient: exact at every size."""
        size, out = self.size, self.out
        aligned = self.how.coordinates == "align_corners"
        if isinstance(size, int) and isinstance(out, int):
            size, out = (size - 1, max(out - 1, 1)) if aligned else (size, out)
            common = gcd(size, out) or 1  # 0 / 0 where both are empty
            size, out = size // common, out // common
            if aligned:
                return i * size, out
        elif aligned:
            return i * (size - 1), te.max(out - 1, 1)
        if self.how.coordinates == "asymmetric":
            return i * size, out
        top, bottom = (2 * i + 1) * size - out, 2 * out  # both sides of the half-pixel rule times 2
        if self.how.coordinates == "half_pixel":
            return top, bottom
        if isinstance(self.out, int):
            # torch's half_pixel of a single element is -1/2
            return (te.const(-1, "int32"), 2) if self.out == 1 else (top, bottom)
        one = ops.convert(out).equal(1)
        return te.select(one, te.const(-1, "int32"), top), te.select(one, te.const(2, "int32"), bottom)

    def _open_place(self, i: Any) -> Any:
        """The place of an element by a scale that is given, in float64."""
        index, by, real = i.astype("float64"), te.const(self.scale, "float64"), ops.cast(self.size, "float64")
        if self.how.coordinates == "asymmetric":
            return index / by
        if self.how.coordinates == "align_corners":
            return te.select((by * real).equal(1), te.const(0.0, "float64"), index * (real - 1) / (by * real - 1))
        middle = (index + 0.5) / by - 0.5
        if self.how.coordinates == "half_pixel":
            return middle  # middle holds for all but results of one element
        return te.select(by * real > 1, middle, te.const(-0.5, "float64"))


def find_taps(size: Any, out: Any, how: Interpolation, scale: float = 0.0, low: float = 0.0, high: float = 1.0) -> Taps:
    """Return the taps from `size` elements to `out`, numbers or expressions. scale: out / size where it is 0. Raises ValueError for
    what there is not, of symbols or at all."""
    size, out = (extent.value if isinstance(extent, IntImm) else extent for extent in (size, out))
    if isinstance(size, int) and isinstance(out, int):
        # a scale that is the sizes' quotient is computed from the sizes, exactly
        by = 0.0 if is_quotient(size, out, scale) else scale
        return Taps(size, out, how, by, _tables(size, out, how, scale or out / max(size, 1), low, high))
    if not _is_open(how):
        raise ValueError(f"a shape with symbols is not resized by {how}")
    return Taps(size, out, how, scale, None)


def _is_open(how: Interpolation) -> bool:
    """Return whether places are computed where elements are, without tables."""
    simple = how.coordinates in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    return simple and not how.antialias and not how.exclude_outside and how.mode in ("nearest", "linear", "cubic")


def is_quotient(size: int, out: int, scale: float) -> bool:
    """Return whether a scale is that of the sizes, as exact as a float is."""
    return not scale or abs(scale * size - out) < 1e-6 * out  # six digits: scales are float32 in ONNX models


def _tables(size: int, out: int, how: Interpolation, scale: float, low: float, high: float) -> KnownTaps:
    x = _positions(size, out, scale, how.coordinates, low, high)
    outside, last = (x < 0) | (x > size - 1), max(size - 1, 0)  # elements whose place lies outside of the input
    if how.mode == "nearest":
        places = np.clip(_ROUNDINGS[how.rounding][0](x), 0, last).astype(np.int64)
        return KnownTaps(places[:, None], np.ones((out, 1)), outside)
    kernel, reach = _kernel(how.mode, how.cubic)
    shrink = min(scale, 1.0) if how.antialias else 1.0  # shrinking widens the kernel
    far = reach / shrink
    first = np.floor(x - far).astype(np.int64) + 1  # the first tap within reach
    taps = first[:, None] + np.arange(int(np.ceil(2 * far)))
    weights = kernel((taps - x[:, None]) * shrink)
    if how.exclude_outside:
        weights = np.where((taps < 0) | (taps >= size), 0, weights)  # taps outside weigh nothing
    if how.exclude_outside or how.antialias:
        weights = weights / weights.sum(1, keepdims=True)  # and what is left adds up to 1
    return KnownTaps(np.clip(taps, 0, last), weights, outside)


def _positions(size: int, out: int, scale: float, coordinates: str, low: float, high: float) -> NDArray[Any]:
    """Places of the elements of the result."""
    x, exact = np.arange(out, dtype=np.float64), scale * size
    if is_quotient(size, out, scale):  # halves are exact where the numerator is
        exact = out  # the numerator's half is exact in integers, a rounded scale's is not
        if coordinates == "asymmetric":
            return x * size / max(out, 1)
        if coordinates == "half_pixel" or coordinates == "pytorch_half_pixel" and out > 1:
            return ((2 * x + 1) * size - out) / max(2 * out, 1)
    if coordinates == "align_corners":
        # one element has no distance between corners
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
        if out == 1:  # the middle of the region
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
