"""Resizing by nearest neighbours, bilinear and bicubic interpolation.

Where pixel i of the result lies in the image, by the coordinates that ONNX, TVM and torch name:

    "half_pixel"      (i + 0.5) * size / out - 0.5          torch's align_corners=False
    "align_corners"   i * (size - 1) / (out - 1)            torch's align_corners=True
    "asymmetric"      i * size / out                        what torch's nearest neighbours are of, rounded down

Rows are interpolated first, then columns. Taps outside of the image are the pixels at its edge. Bicubic takes four taps by
Keys' kernel (R. G. Keys, 1981) with a = -0.75, as torch, OpenCV and TVM have it. In float32, with weights made in float32 too,
results are within 1e-5 * (the greatest magnitude) for images up to 4096 pixels wide; integers are rounded to the nearest, but
of bytes bilinear results are made in fixed point, within 0.55 grey levels of the real value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from ...errors import user_source
from ...ir.expr import Expr, IntImm
from ...ir.ops import integer_value
from ...te import either as te
from ...te.tag import AlgorithmTag
from ...te.tensor import Tensor
from ..nn.window import pair
from ..weighted import keys_weights, weighted_sum
from .errors import BadImage
from .planes import Plane

__all__ = ["resize", "resize2d"]

METHODS = ("nearest", "bilinear", "bicubic")
COORDINATES = ("half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round", "floor", "ceil")
VECTOR_BITS = 512
"""Numbers that fill so many bits are taken from near one place, so that machines with registers as wide can load what lies
there, and pick."""
MOST_VECTORS = 6
"""As many vectors may lie between the first and the last of them."""
NAMES = {"nearest_neighbor": "nearest", "linear": "bilinear", "cubic": "bicubic"}
"""TVM's names."""


def resize(
    image: Tensor,
    size: Any,
    method: str = "bilinear",
    layout: str | None = None,
    align_corners: bool = False,
    coordinates: str | None = None,
    rounding: str | None = None,
    cubic_alpha: float = -0.75,
) -> Tensor:
    """The image with `size` = (height, width) pixels.

    method: "nearest", "bilinear" or "bicubic". layout: as of box_blur; (N, C, H, W) for four dimensions. coordinates: where
    pixels lie; "align_corners" if align_corners, else "half_pixel", but "asymmetric" for nearest neighbours, as torch has it.
    rounding: of nearest neighbours: "floor" (the default), "round" (halves down), "ceil". Raises BadImage (TW0195), BadWindow
    (TW0190).
    """
    method = NAMES.get(method, method)
    if coordinates is None:
        coordinates = "align_corners" if align_corners else "asymmetric" if method == "nearest" else "half_pixel"
    rounding = rounding or "floor"
    for what, value, allowed in (
        ("method", method, METHODS),
        ("coordinates", coordinates, COORDINATES),
        ("rounding", rounding, ROUNDINGS),
    ):
        if value not in allowed:
            raise BadImage(
                f"{what} is {value!r}",
                called=user_source(),
                reason="a resize is told how to interpolate, and where",
                allowed=", ".join(map(repr, allowed)),
                fix=f"{what}={allowed[0]!r}",
            )
    out = pair(size, "size")
    plane = Plane.of(image, layout)
    columns = Columns.of(plane, out[1], method, coordinates, rounding, cubic_alpha)
    if columns is not None:
        return _in_rows(plane, columns, out, method, coordinates, rounding, cubic_alpha)
    if method == "nearest":

        def nearest(lead: Any, y: Any, x: Any, rest: Any) -> Expr:
            return image[
                (
                    *lead,
                    _nearest(y, plane.high, out[0], coordinates, rounding),
                    _nearest(x, plane.wide, out[1], coordinates, rounding),
                    *rest,
                )
            ]

        return _pixels(plane, image, out, nearest, "resize_nearest")
    kind = image.dtype if image.dtype.is_float and image.dtype.bits >= 32 else "float32"
    taps = 2 if method == "bilinear" else 4

    def down(lead: Any, y: Any, x: Any, rest: Any) -> Expr:
        return _interpolated(
            y,
            plane.high,
            out[0],
            coordinates,
            taps,
            cubic_alpha,
            kind,
            lambda row: image[(*lead, row, x, *rest)].astype(kind),
        )

    rows = _pixels(plane, image, (out[0], plane.wide), down, "resize_rows")

    def across(lead: Any, y: Any, x: Any, rest: Any) -> Expr:
        value = _interpolated(
            x, plane.wide, out[1], coordinates, taps, cubic_alpha, kind, lambda column: rows[(*lead, y, column, *rest)]
        )
        return _rounded(value, image.dtype)

    return _pixels(plane, image, out, across, f"resize_{method}")


def resize2d(
    data: Tensor,
    roi: Sequence[float] | None,
    size: Any,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.75,
) -> Tensor:
    """resize with TVM's names and order of arguments. roi: None, or zeros: the whole image. Raises BadImage (TW0195)."""
    if roi is not None and any(roi):
        raise BadImage(
            f"roi is {roi!r}"[:100],
            called=user_source(),
            reason="whole images are resized",
            fix="roi=None, of a strided slice of the image",
        )
    return resize(
        data,
        size,
        method,
        layout,
        coordinates=coordinate_transformation_mode,
        rounding=rounding_method or "round",
        cubic_alpha=bicubic_alpha,
    )


@dataclass(frozen=True)
class Columns:
    """Positions of the numbers of a row of the result in a row of the image, in tables, which are made once for all rows.

    kind: of what rows are made of. group: so many numbers side by side are taken from near one place, starts[which of them],
    of which they are offsets[tap, number] on, `reach` at most; last: the last number of a row of the image. weights: of each
    tap and number; None for nearest neighbours.
    """

    kind: Any
    taps: int
    group: int
    reach: int
    last: int
    starts: Tensor
    offsets: Tensor
    weights: Tensor | None

    def places(self, f: Any) -> list[Expr]:
        """Return the positions of the taps for number f of a row."""
        start = te.max(te.min(self.starts[te.indexdiv(f, self.group)], self.last), 0)
        return [start + te.max(te.min(self.offsets[k, f].astype("int32"), self.reach), 0) for k in range(self.taps)]

    @staticmethod
    def of(plane: Plane, out: int, method: str, coordinates: str, rounding: str, alpha: float) -> Columns | None:
        """None where widths are not known, or there is nothing, or numbers that belong together lie far apart."""
        size, pitch = (integer_value(number, number) for number in (plane.wide, plane.pitch))
        if not (isinstance(size, int) and isinstance(pitch, int)) or not size * pitch * out:
            return None
        dtype, taps = plane.data.dtype, {"nearest": 1, "bilinear": 2, "bicubic": 4}[method]
        narrow = dtype.bits == 8 and dtype.kind == "uint" and method != "bicubic"
        if not narrow and (dtype.bits > 32 or method == "nearest" and dtype.bits != 32):
            return None
        kind: Any = "uint16" if narrow else dtype if method == "nearest" else "float32"
        group = VECTOR_BITS // (16 if narrow else 32)
        first = -1 if taps == 4 else 0

        def cell(x: Any) -> Any:
            if taps == 1:
                return _nearest(x, size, out, coordinates, rounding)
            return _place(x, size, out, coordinates, taps)[0] + first

        def within(place: Any) -> Any:
            return te.max(te.min(place, size - 1), 0)

        starts = te.compute(
            (-(-out * pitch // group),),
            lambda g: within(cell(te.indexdiv(g * group, pitch))) * pitch,
            "resize_starts",
            AlgorithmTag("resize.starts"),
        )

        def offset(k: Any, f: Any) -> Expr:
            place = within(cell(te.indexdiv(f, pitch)) + k) * pitch + te.indexmod(f, pitch)
            return (place - starts[te.indexdiv(f, group)]).astype("int16")

        offsets = te.compute((taps, out * pitch), offset, "resize_offsets", AlgorithmTag("resize.offsets"))
        over, under = _ratio(size, out, coordinates)
        reach = ((-(-(group - 1) // pitch) * over) // under + 1 + taps) * pitch - 1  # at most
        if reach >= MOST_VECTORS * group:
            return None
        return Columns(
            kind,
            taps,
            group,
            reach,
            size * pitch - 1,
            starts,
            offsets,
            None
            if taps == 1
            else _weights(
                (taps, out * pitch),
                lambda f: _place(te.indexdiv(f, pitch), size, out, coordinates, taps)[1],
                narrow,
                alpha,
            ),
        )


def _weights(shape: tuple[int, int], part: Callable[[Any], Any], narrow: bool, alpha: float) -> Tensor:
    """The weights of all taps; narrow: of two, in 65536ths."""

    def weight(k: Any, f: Any) -> Expr:
        if narrow:
            second = _weight_16(part(f))
            return te.select(k == 0, _rest_16(second), second)
        values = (1 - part(f), part(f)) if shape[0] == 2 else keys_weights(part(f), alpha)
        chosen = values[-1]
        for at in range(shape[0] - 2, -1, -1):
            chosen = te.select(k == at, values[at], chosen)
        return chosen

    return te.compute(shape, weight, "resize_weights", AlgorithmTag("resize.weights"))


def _in_rows(
    plane: Plane, columns: Columns, out: Any, method: str, coordinates: str, rounding: str, alpha: float
) -> Tensor:
    """Row after row: the rows of the image that one of the result lies between become one, of which its numbers are taken at
    places that are the same for all rows."""
    image, kind = plane.data, columns.kind

    def down(lead: Any, y: Any, f: Any) -> Expr:
        if method == "nearest":
            return plane.at(lead, _nearest(y, plane.high, out[0], coordinates, rounding), f).astype(kind)
        if kind == "uint16":
            return _blended(y, plane.high, out[0], coordinates, lambda row: plane.at(lead, row, f))
        return _interpolated(
            y,
            plane.high,
            out[0],
            coordinates,
            columns.taps,
            alpha,
            kind,
            lambda row: plane.at(lead, row, f).astype(kind),
        )

    rows = plane.rows(out[0], plane.wide, down, "resize_rows", AlgorithmTag("resize.rows"))

    def across(lead: Any, y: Any, f: Any) -> Expr:
        values = [rows[(*lead, y, place)] for place in columns.places(f)]
        if columns.weights is None:
            return values[0].astype(image.dtype)
        weights = [columns.weights[k, f] for k in range(len(values))]
        if kind == "uint16":
            first, *others = map(_upper, values, weights)
            return ((sum(others, first) + te.const(128, kind)) >> 8).astype(image.dtype)
        return _rounded(weighted_sum(values, weights), image.dtype)

    return plane.pixels(
        out[0],
        out[1],
        across,
        f"resize_{method}",
        AlgorithmTag("resize"),
        {"group": columns.group, "as_it_stands": rows.dtype == image.dtype and method == "nearest"},
    )


def _rounded(value: Expr, dtype: Any) -> Expr:
    if dtype.is_float:
        return value.astype(dtype)
    least, greatest = te.const(dtype.least, value.dtype), te.const(dtype.greatest, value.dtype)
    return te.max(te.min(te.floor(value + 0.5), greatest), least).astype(dtype)


def _upper(value: Expr, weight: Expr) -> Expr:
    """The upper half of a product of 16-bit numbers, one instruction on vectors."""
    return ((value.astype("uint32") * weight.astype("uint32")) >> 16).astype("uint16")


def _blended(index: Any, size: Any, out: int, coordinates: str, read: Callable[[Any], Expr]) -> Expr:
    """Two bytes' weighted sum, with eight bits after the point."""
    cell, part = _place(index, size, out, coordinates, 2)
    weight = _weight_16(part)
    first, second = (read(te.max(te.min(cell + k, size - 1), 0)).astype("uint16") << 8 for k in range(2))
    return _upper(first, _rest_16(weight)) + _upper(second, weight)


def _weight_16(part: Expr) -> Expr:
    """A weight below 1 in 65536ths."""
    return te.min(te.floor(part * 65536.0 + 0.5), 65535.0).astype("uint16")


def _rest_16(weight: Expr) -> Expr:
    """1 - weight, which in 16 bits is 65535 / 65536 at most."""
    return te.min(65536 - weight.astype("int32"), 65535).astype("uint16")


def _pixels(plane: Plane, image: Tensor, out: tuple[Any, Any], element: Any, name: str) -> Tensor:
    """A tensor of the image's layout: element(lead, y, x, rest)."""
    lead = plane.lead
    shape = (*image.shape[:lead], *out, *image.shape[lead + 2 :])
    return te.compute(
        shape, lambda *at: element(at[:lead], at[lead], at[lead + 1], at[lead + 2 :]), name=name, tag="injective"
    )


def _ratio(size: Any, out: int, coordinates: str) -> tuple[Any, Any]:
    """By how many pixels of the image the result's lie apart, as a quotient."""
    over, under = (size - 1, max(out - 1, 1)) if coordinates == "align_corners" else (size, out)
    over = integer_value(over, over)
    if not isinstance(over, int):
        return over, under
    common = gcd(over, under) or 1
    return over // common, under // common


def _nearest(index: Any, size: Any, out: int, coordinates: str, rounding: str) -> Any:
    """The place of a pixel, rounded, in whole numbers: exact at every size."""
    over, under = _ratio(size, out, coordinates)
    top, bottom = (index * over, under) if coordinates != "half_pixel" else ((2 * index + 1) * over - under, 2 * under)
    if rounding == "floor":
        nearest = te.floordiv(top, bottom)
    elif rounding == "ceil":
        nearest = te.floordiv(top + bottom - 1, bottom)
    else:
        nearest = te.floordiv(2 * top + bottom - 1, 2 * bottom)
    return te.max(te.min(nearest, size - 1), 0)


def _place(index: Any, size: Any, out: int, coordinates: str, taps: int, kind: Any = "float32") -> tuple[Any, Expr]:
    """The pixel before a place, and how far it is on to the next. That is split in whole numbers: the weights are exact."""
    over, under = _ratio(size, out, coordinates)
    top, bottom = (index * over, under) if coordinates != "half_pixel" else ((2 * index + 1) * over - under, 2 * under)
    if taps == 2 and coordinates == "half_pixel":
        top = te.max(top, 0)
    return te.floordiv(top, bottom), te.floormod(top, bottom).astype(kind) * te.const(1 / bottom, kind)


def _interpolated(
    index: Any,
    size: Any,
    out: int,
    coordinates: str,
    taps: int,
    alpha: float,
    kind: Any,
    read: Callable[[Any], Expr],
) -> Expr:
    """The weighted sum of the taps around a place."""
    cell, part = _place(index, size, out, coordinates, taps, kind)
    first = 0 if taps == 2 else -1
    weights = (1 - part, part) if taps == 2 else keys_weights(part, alpha)
    last = size - 1 if not isinstance(size, IntImm) else size.value - 1
    values = [read(te.max(te.min(cell + (k + first), last), 0)) for k in range(len(weights))]
    return weighted_sum(values, weights)
