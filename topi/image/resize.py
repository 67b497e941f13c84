"""Resizing by nearest neighbours, linear and cubic interpolation: of height and width of images, and along any dimensions.

Rows are interpolated first, then columns; taps.py tells which elements make one of the result. In float32, with weights made in
float32 too, results are within 1e-5 * (the greatest magnitude) for images up to 4096 pixels wide; integers are rounded to the
nearest, halves to even, but of bytes the bilinear results of `resize` are made in fixed point, within 0.55 grey levels of the real
value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base import dataclass, user_source
from ...ir.expr import Expr
from ...ir.ops import integer_value
from ...te import polymorphic as te
from ...te.tag import AlgorithmTag
from ...te.tensor import Tensor
from ..nn.window import Sizes, pair
from ..transform import injective
from ..weighted_sums import weighted_sum
from .errors import BadImage
from .planes import Plane
from .taps import Interpolation, KnownTaps, Taps, find_taps

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
_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def resize(
    image: Tensor,
    size: Sizes,
    method: str = "bilinear",
    layout: str | None = None,
    align_corners: bool = False,
    coordinates: str | None = None,
    rounding: str | None = None,
    cubic_alpha: float = -0.75,
) -> Tensor:
    """The image with another number of pixels.

    Parameters
    ----------
    image : Tensor
        In the given layout, (N, C, H, W) for four dimensions.
    size : int or sequence of int
        Height and width of the result, in pixels.
    method : str, default "bilinear"
        "nearest", "bilinear" or "bicubic".
    layout : str or None, default None
        As of box_blur.
    align_corners : bool, default False
        Whether the corners' centres stay where they are.
    coordinates : str or None, default None
        Where pixels lie: "align_corners", "half_pixel" or "asymmetric"; None is "half_pixel", but "asymmetric" for
        nearest neighbours, as torch has it.
    rounding : str or None, default None
        Of nearest neighbours: "floor" (the default), "round" (halves down), "ceil".
    cubic_alpha : float, default -0.75
        The parameter of Keys' kernel.

    Returns
    -------
    Tensor
        The layout and the dtype of the image.

    Raises
    ------
    BadImage (TW0195)
        An image, or a size, that does not fit.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    # torch's align_corners comes before the default
    how = interpolation(method, coordinates or ("align_corners" if align_corners else ""), rounding, cubic_alpha)
    out = pair(size, "size")
    plane = Plane.of(image, layout)
    taps = {plane.lead + at: find_taps(image.shape[plane.lead + at], out[at], how) for at in (0, 1)}
    return interpolate(plane, taps, fixed_point=True)  # fixed point for bytes, as images mostly are


def interpolation(method: str, coordinates: str, rounding: str | None, cubic_alpha: float) -> Interpolation:
    """Return how images are interpolated, by the names of `resize`. Raises BadImage (TW0195)."""
    method, rounding = NAMES.get(method, method), rounding or "floor"
    # nearest neighbours of torch are asymmetric
    coordinates = coordinates or ("asymmetric" if method == "nearest" else "half_pixel")
    for what, value, allowed in (
        ("method", method, METHODS),
        ("coordinates", coordinates, COORDINATES),
        ("rounding", rounding, ROUNDINGS),
    ):
        if value not in allowed:
            raise BadImage(
                f"{what} is {value!r}",
                called=user_source(),
                reason="a resize needs an interpolation method and a coordinate rule",
                allowed=", ".join(map(repr, allowed)),
                fix=f"{what}={allowed[0]!r}",
            )
    rounding = "round_prefer_floor" if rounding == "round" else rounding  # ONNX's name of it
    return Interpolation(_MODES.get(method, method), coordinates, rounding, cubic_alpha)


def resize2d(
    data: Tensor,
    roi: Sequence[float] | None,
    size: Sizes,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.75,
) -> Tensor:
    """resize with TVM's names and order of arguments.

    Parameters
    ----------
    data : Tensor
        In the given layout.
    roi : sequence of float or None
        None, or zeros: the whole image.
    size : int or sequence of int
        Height and width of the result, in pixels.
    layout : str, default "NCHW"
        The dimensions' names.
    method : str, default "linear"
        "nearest_neighbor", "linear" or "cubic".
    coordinate_transformation_mode : str, default "half_pixel"
        As the coordinates of resize.
    rounding_method : str, default ""
        As the rounding of resize; "round" where it is empty.
    bicubic_alpha : float, default -0.75
        The parameter of Keys' kernel.

    Returns
    -------
    Tensor
        The layout and the dtype of the data.

    Raises
    ------
    BadImage (TW0195)
        An image, or a size, that does not fit.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    if roi is not None and any(roi):  # a region is what crop_and_resize is for
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


def interpolate(plane: Plane, taps: Mapping[int, Taps], fixed_point: bool = False) -> Tensor:
    """A tensor with dimensions resized by their taps, one after the other, height and width of its planes last.

    fixed_point: of bytes, bilinear results are made of 16-bit weights.
    """
    data, result = plane.data, plane.data
    kind = "float64" if str(data.dtype) == "float64" else "float32"
    high, wide = taps.get(plane.lead), taps.get(plane.lead + 1)  # height and width are the last
    narrow = fixed_point and min(taps) >= plane.lead  # what leading dimensions leave is no byte
    columns = None if wide is None else Columns.of(plane, wide, narrow)
    others = [at for at in sorted(taps) if columns is None or at < plane.lead]
    for at in others:
        last = at == others[-1] and columns is None  # rounded once, by the last step
        result = _resize_dimension(result, at, taps[at], kind, data.dtype if last else None)
    if columns is None:
        return result
    return _resize_rows(Plane(result, plane.lead, plane.pitch, plane.border), high, columns, data.dtype)


def _resize_dimension(data: Tensor, at: int, taps: Taps, kind: str, dtype: Any) -> Tensor:
    """One dimension resized. dtype: what the results are rounded to, None to leave them as they are."""
    read = taps.reader(kind, in_lanes=at == data.ndim - 1)  # the last dimension lies in lanes

    def element(*i: Any) -> Expr:
        value = read(i[at], lambda place: data[(*i[:at], place, *i[at + 1 :])])
        return value if dtype is None or taps.is_nearest else _round(value, dtype)

    return injective((*data.shape[:at], taps.out, *data.shape[at + 1 :]), element, f"resize_{taps.how.mode}")


@dataclass(frozen=True)
class Columns:
    """Positions of the numbers of a row of the result in a row of the image, in tables that are the same for all rows.

    kind: of what rows are made of. group: so many numbers side by side are taken from near one place, starts[which of them],
    of which they are offsets[tap, number] on, `reach` at most; last: the last number of a row of the image. weights: of each
    tap and number; None for nearest neighbours.
    """

    kind: Any
    taps: Taps
    group: int
    reach: int
    last: int
    starts: Tensor
    offsets: Tensor
    weights: Tensor | None

    def places(self, f: Any) -> list[Expr]:
        """Return the positions of the taps for number f of a row."""
        start = te.max(te.min(self.starts[te.indexdiv(f, self.group)], self.last), 0)
        count = int(self.offsets.shape[0])
        return [start + te.max(te.min(self.offsets[k, f].astype("int32"), self.reach), 0) for k in range(count)]

    @staticmethod
    def of(plane: Plane, taps: Taps, fixed_point: bool) -> Columns | None:
        """None where widths are not known, or there is nothing, or numbers that belong together lie far apart."""
        known, dtype, pitch = taps.known, plane.data.dtype, integer_value(plane.pitch, plane.pitch)
        # tables need known sizes, and something to look up
        if known is None or not isinstance(pitch, int) or not taps.size * pitch * taps.out:
            return None
        narrow = str(dtype) == "uint8" and (taps.is_nearest or fixed_point and known.weights.shape[1] == 2)
        # tables are for numbers of 32 bits, or bytes
        if not narrow and (dtype.bits > 32 or taps.is_nearest and dtype.bits != 32):
            return None
        group = VECTOR_BITS // (16 if narrow else 32)  # numbers in one register
        f = np.arange(int(taps.out) * pitch)
        places = known.places[f // pitch] * pitch + (f % pitch)[:, None]
        # each group's first place, from which the others are near
        starts = np.minimum.reduceat(places.min(1), np.arange(0, len(f), group))
        offsets = (places - starts[f // group, None]).T
        if offsets.max() >= MOST_VECTORS * group:  # farther apart than what a few vectors hold
            return None
        return Columns(
            "uint16" if narrow else dtype if taps.is_nearest else "float32",
            taps,
            group,
            int(offsets.max()),
            taps.size * pitch - 1,
            te.constant(starts.astype(np.int32), "resize_starts"),
            te.constant(offsets.astype(np.int16), "resize_offsets"),  # 16 bits are enough within a group
            None if taps.is_nearest else te.constant(_table(known, narrow)[:, f // pitch], "resize_weights"),
        )


def _table(known: KnownTaps, narrow: bool) -> Any:
    """The weights (taps, out); narrow: of two, in 65536ths."""
    if not narrow:
        return known.weights.T.astype(np.float32)
    # 65536 does not fit 16 bits: 65535 is as near as a byte shows
    second = np.minimum(np.floor(known.weights[:, 1] * 65536 + 0.5), 65535)
    return np.stack([np.minimum(65536 - second, 65535), second]).astype(np.uint16)


def _resize_rows(plane: Plane, high: Taps | None, columns: Columns, dtype: Any) -> Tensor:
    """Row after row: the rows of the image that one of the result lies between become one, of which its numbers are taken at
    places that are the same for all rows. high: None where rows stay."""
    kind, nearest = columns.kind, columns.taps.is_nearest

    def down(lead: Any, y: Any, f: Any) -> Expr:
        if kind == "uint16" and not nearest:
            return _blend_bytes(high, y, lambda row: plane.at(lead, row, f))
        if high is None:  # rows that stay are only converted
            return plane.at(lead, y, f).astype(kind)
        return high.reader(kind)(y, lambda row: plane.at(lead, row, f)).astype(kind)

    out_high = plane.high if high is None else high.out
    rows = plane.rows(out_high, plane.wide, down, "resize_rows", AlgorithmTag("resize.rows"))

    def across(lead: Any, y: Any, f: Any) -> Expr:
        values = [rows[(*lead, y, place)] for place in columns.places(f)]
        if columns.weights is None:
            return values[0].astype(dtype)
        weights = [columns.weights[k, f] for k in range(len(values))]
        if kind == "uint16":
            first, *others = map(_upper, values, weights)
            # the eight bits after the point are rounded away
            return ((sum(others, first) + te.const(128, kind)) >> 8).astype(dtype)
        return _round(weighted_sum(values, weights), dtype)

    return plane.pixels(
        out_high,
        columns.taps.out,
        across,
        f"resize_{columns.taps.how.mode}",
        AlgorithmTag("resize"),
        # what the schedule may read without another stage
        {"group": columns.group, "as_it_stands": rows.dtype == dtype and (nearest or high is None)},
    )


def _round(value: Expr, dtype: Any) -> Expr:
    if dtype.is_float:
        return value.astype(dtype)
    # clipped in floats, since the conversion would wrap
    least, greatest = te.const(dtype.least, value.dtype), te.const(dtype.greatest, value.dtype)
    return te.max(te.min(te.nearbyint(value), greatest), least).astype(dtype)


def _upper(value: Expr, weight: Expr) -> Expr:
    """The upper half of a product of 16-bit numbers, one instruction on vectors."""
    return ((value.astype("uint32") * weight.astype("uint32")) >> 16).astype("uint16")


def _blend_bytes(high: Taps | None, y: Any, read: Callable[[Any], Expr]) -> Expr:
    """Two bytes' weighted sum, with eight bits after the point; one byte where rows stay."""
    if high is None:
        return read(y).astype("uint16") << 8
    places, weights = high.finder("float32")(y)  # float32 has bits enough for weights of 16
    first, second = (read(place).astype("uint16") << 8 for place in places)
    weight = te.min(te.floor(weights[1] * 65536.0 + 0.5), 65535.0).astype("uint16")
    # the two weights add up to 65536, or to 65535 where one of them is nothing
    rest = te.min(65536 - weight.astype("int32"), 65535).astype("uint16")
    return _upper(first, rest) + _upper(second, weight)
