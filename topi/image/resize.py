"""Resizing by nearest neighbours, bilinear and bicubic interpolation.

Where pixel i of the result lies in the image, by the coordinates that ONNX, TVM and torch name:

    "half_pixel"      (i + 0.5) * size / out - 0.5          torch's align_corners=False
    "align_corners"   i * (size - 1) / (out - 1)            torch's align_corners=True
    "asymmetric"      i * size / out                        what torch's nearest neighbours are of, rounded down

Rows are interpolated first, then columns. Taps outside of the image are the pixels at its edge. Bicubic takes four taps by
Keys' kernel (R. G. Keys, 1981) with a = -0.75, as torch, OpenCV and TVM have it. In float32, with places made in float32 too,
results are within 1e-5 * (the greatest magnitude) for images up to 4096 pixels wide; integers are rounded to the nearest.
"""

from __future__ import annotations

from typing import Any

from ... import te
from ...errors import user_source
from ...ir.expr import Expr, IntImm
from ...te.tensor import Tensor
from ..nn.window import pair
from .errors import BadImage
from .planes import Plane

__all__ = ["resize", "resize2d"]

METHODS = ("nearest", "bilinear", "bicubic")
COORDINATES = ("half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round", "floor", "ceil")
NAMES = {"nearest_neighbor": "nearest", "linear": "bilinear", "cubic": "bicubic"}
"""TVM's names."""


def resize(image: Tensor, size: Any, method: str = "bilinear", layout: str | None = None, align_corners: bool = False,
           coordinates: str | None = None, rounding: str | None = None, cubic_alpha: float = -0.75) -> Tensor:
    """The image with `size` = (height, width) pixels.

    method: "nearest", "bilinear" or "bicubic". layout: as of box_blur; (N, C, H, W) for four dimensions. coordinates: where
    pixels lie; "align_corners" if align_corners, else "half_pixel", but "asymmetric" for nearest neighbours, as torch has it.
    rounding: of nearest neighbours: "floor" (the default), "round" (halves down), "ceil". Raises BadImage, BadWindow.
    """
    method = NAMES.get(method, method)
    if coordinates is None:
        coordinates = "align_corners" if align_corners else "asymmetric" if method == "nearest" else "half_pixel"
    rounding = rounding or "floor"
    for what, value, allowed in (("method", method, METHODS), ("coordinates", coordinates, COORDINATES),
                                 ("rounding", rounding, ROUNDINGS)):
        if value not in allowed:
            raise BadImage(f"{what} is {value!r}", called=user_source(), reason="a resize is told how to interpolate, and where",
                           allowed=", ".join(map(repr, allowed)), fix=f"{what}={allowed[0]!r}")
    out = pair(size, "size")
    plane = Plane.of(image, layout)
    if method == "nearest":
        def nearest(lead: Any, y: Any, x: Any, rest: Any) -> Expr:
            return image[(*lead, _nearest(y, plane.high, out[0], coordinates, rounding),
                          _nearest(x, plane.wide, out[1], coordinates, rounding), *rest)]

        return _pixels(plane, image, out, nearest, "resize_nearest")
    kind = image.dtype if image.dtype.is_float and image.dtype.bits >= 32 else "float32"
    taps = 2 if method == "bilinear" else 4

    def down(lead: Any, y: Any, x: Any, rest: Any) -> Expr:
        return _interpolated(y, plane.high, out[0], coordinates, taps, cubic_alpha, kind,
                             lambda row: image[(*lead, row, x, *rest)].astype(kind))

    rows = _pixels(plane, image, (out[0], plane.wide), down, "resize_rows")

    def across(lead: Any, y: Any, x: Any, rest: Any) -> Expr:
        value = _interpolated(x, plane.wide, out[1], coordinates, taps, cubic_alpha, kind,
                              lambda column: rows[(*lead, y, column, *rest)])
        if image.dtype.is_float:
            return value.astype(image.dtype)
        least, greatest = te.const(image.dtype.least, kind), te.const(image.dtype.greatest, kind)
        return te.max(te.min(te.floor(value + 0.5), greatest), least).astype(image.dtype)

    return _pixels(plane, image, out, across, f"resize_{method}")


def resize2d(data: Tensor, roi: Any, size: Any, layout: str = "NCHW", method: str = "linear",
             coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "", bicubic_alpha: float = -0.75) -> Tensor:
    """resize with TVM's names and order of arguments. roi: None, or zeros: the whole image. Raises BadImage."""
    if roi is not None and any(roi):
        raise BadImage(f"roi is {roi!r}"[:100], called=user_source(), reason="whole images are resized",
                       fix="roi=None, of a strided slice of the image")
    return resize(data, size, method, layout, coordinates=coordinate_transformation_mode,
                  rounding=rounding_method or "round", cubic_alpha=bicubic_alpha)


def _pixels(plane: Plane, image: Tensor, out: tuple[Any, Any], element: Any, name: str) -> Tensor:
    """A tensor of the image's layout: element(lead, y, x, rest)."""
    lead = plane.lead
    shape = (*image.shape[:lead], *out, *image.shape[lead + 2:])
    return te.compute(shape, lambda *at: element(at[:lead], at[lead], at[lead + 1], at[lead + 2:]), name=name, tag="injective")


def _ratio(size: Any, out: int, coordinates: str) -> tuple[Any, Any]:
    """By how many pixels of the image the result's lie apart, as a quotient."""
    return (size - 1, max(out - 1, 1)) if coordinates == "align_corners" else (size, out)


def _nearest(index: Any, size: Any, out: int, coordinates: str, rounding: str) -> Any:
    """The place of a pixel, rounded, in whole numbers: exact at every size."""
    over, under = _ratio(size, out, coordinates)
    top, bottom = (index * over, under) if coordinates != "half_pixel" else ((2 * index + 1) * over - under, 2 * under)
    if rounding == "floor":
        found = te.floordiv(top, bottom)
    elif rounding == "ceil":
        found = te.floordiv(top + bottom - 1, bottom)
    else:
        found = te.floordiv(2 * top + bottom - 1, 2 * bottom)
    return te.max(te.min(found, size - 1), 0)


def _interpolated(index: Any, size: Any, out: int, coordinates: str, taps: int, alpha: float, kind: Any, read: Any) -> Expr:
    """The weighted sum of the taps around a place. Where a pixel lies is split in whole numbers: the weights are exact."""
    over, under = _ratio(size, out, coordinates)
    top, bottom = (index * over, under) if coordinates != "half_pixel" else ((2 * index + 1) * over - under, 2 * under)
    if taps == 2 and coordinates == "half_pixel":
        top = te.max(top, 0)
    cell = te.floordiv(top, bottom)
    part = te.floormod(top, bottom).astype(kind) * te.const(1 / bottom, kind)
    first = 0 if taps == 2 else -1
    weights = (1 - part, part) if taps == 2 else _cubic(part, alpha)
    last = size - 1 if not isinstance(size, IntImm) else size.value - 1
    total: Any = None
    for k, weight in enumerate(weights):
        value = read(te.max(te.min(cell + (k + first), last), 0)) * weight
        total = value if total is None else total + value
    return total


def _cubic(t: Expr, a: float) -> tuple[Expr, ...]:
    """Keys' weights of the four pixels around a place that is t past the second."""
    def near(x: Any) -> Expr:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Expr:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)
