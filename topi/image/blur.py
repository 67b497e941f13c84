"""Blurs by separable windows: along rows, then along columns.

Means and weighted sums of float images are made in their own dtype: within 2 * SIZE * 2**-24 * (the greatest magnitude in the
window) of the exact ones in float32. Of integer images:

* box_blur divides by the size after each of the two passes, rounding down: exactly
  `(sum over rows of ((sum over columns) // size)) // size`;
* gaussian_blur of uint8 is fixed-point arithmetic, within 0.5 + size / 100 grey levels of the real value; wider integers go
  through float32, and are rounded to the nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, floor
from typing import Any

from ... import te
from ...base.errors import user_source
from ...ir.expr import Expr
from ...te.tensor import Tensor
from ..signatures import ElementType
from ..weighted_sums import weighted_sum
from .errors import BadImage
from .planes import Plane

__all__ = ["box_blur", "gaussian_blur"]

FRACTION = 8
"""Bits after the point in fixed-point sums of bytes."""


def box_blur(
    image: Tensor, size: int = 3, border: str = "edge", layout: str | None = None, sum_dtype: ElementType | None = None
) -> Tensor:
    """The mean of the size x size pixels around each.

    Parameters
    ----------
    image : Tensor
        (H, W), (H, W, C), (N, C, H, W), or as `layout` names its dimensions.
    size : int, default 3
        Height and width of a window, odd.
    border : str, default "edge"
        What lies outside: "edge", "reflect" or "zero"; "valid" gives only pixels whose window is inside, so that H and
        W are smaller by size - 1.
    layout : str or None, default None
        The dimensions' names; None for the usual one of the rank.
    sum_dtype : dtype or None, default None
        What integers are summed in: as wide as it takes if None; a narrower one is faster, and wraps.

    Returns
    -------
    Tensor
        The layout and the dtype of the image.

    Raises
    ------
    BadImage (TW0195)
        An image, or a size, that does not fit.
    """
    reach = _reach(size)
    plane = Plane.of(image, layout, border)
    kind = sum_dtype or _sum_dtype(image, size)
    shift, outer = reach if border == "valid" else 0, plane.margin(reach)  # "valid": the window begins at the pixel
    high, wide = plane.result_size(reach, reach)

    def across(lead: Any, y: Any, f: Any) -> Expr:
        # in the wider dtype before they are added up
        values = [plane.at(lead, y - outer, f, dx + shift, outer > 0).astype(kind) for dx in range(-reach, reach + 1)]
        return _divide(_total(values), size)

    rows = plane.rows(plane.high + 2 * outer, wide, across, "box_blur_rows")

    def down(lead: Any, y: Any, f: Any) -> Expr:
        return _divide(_total([rows[(*lead, y + k, f)] for k in range(size)]), size).astype(image.dtype)

    return plane.pixels(high, wide, down, "box_blur")


def gaussian_blur(
    image: Tensor, size: int = 5, sigma: float | None = None, border: str = "reflect", layout: str | None = None
) -> Tensor:
    """The sum of the size x size pixels around each, weighted by a Gaussian.

    Parameters
    ----------
    image : Tensor
        (H, W), (H, W, C), (N, C, H, W), or as `layout` names its dimensions.
    size : int, default 5
        Height and width of a window, odd.
    sigma : float or None, default None
        In pixels; 0.3 * ((size - 1) / 2 - 1) + 0.8 if None, as torchvision has it.
    border : str, default "reflect"
        As of box_blur.
    layout : str or None, default None
        The dimensions' names; None for the usual one of the rank.

    Returns
    -------
    Tensor
        The layout and the dtype of the image.

    Raises
    ------
    BadImage (TW0195)
        An image, or a size, that does not fit.
    """
    plane = Plane.of(image, layout, border)
    reach = _reach(size)
    rows = blurred_rows(plane, size, sigma)
    high, wide = plane.result_size(reach, reach)

    def down(lead: Any, y: Any, f: Any) -> Expr:
        total = column_sum(rows, lead, y, f, gaussian_taps(size, sigma))
        if image.dtype == "uint8":
            return ((total + (1 << FRACTION - 1)) >> FRACTION).astype("uint8")  # halves are rounded up
        if image.dtype.is_float:
            return total  # floats are not cut off
        return te.floor(total + 0.5).astype(image.dtype)  # integers are rounded to the nearest

    return plane.pixels(high, wide, down, "gaussian_blur")


def blurred_rows(plane: Plane, size: int, sigma: float | None) -> Tensor:
    """Rows blurred along themselves, also those around the image that its columns reach: of bytes uint16 with eight bits
    after the point, of other integers float32."""
    reach, taps = _reach(size), gaussian_taps(size, sigma)
    shift, outer = reach if plane.border == "valid" else 0, plane.margin(reach)
    _, wide = plane.result_size(reach, reach)
    image = plane.data

    def across(lead: Any, y: Any, f: Any) -> Expr:
        values = [plane.at(lead, y - outer, f, dx + shift, outer > 0) for dx in range(-reach, reach + 1)]
        if image.dtype == "uint8":  # eight bits after the point fit 16 bits beside a byte
            return _weigh([value.astype("uint16") << FRACTION for value in values], taps)
        kind = image.dtype if image.dtype.is_float else "float32"
        return weighted_sum([value.astype(kind) for value in values], [te.const(weight, kind) for weight in taps])

    return plane.rows(plane.high + 2 * outer, wide, across, "gaussian_blur_rows")


def column_sum(rows: Tensor, lead: Any, y: Any, f: Any, taps: Sequence[float]) -> Expr:
    """The weighted sum of the blurred rows from y on, in their dtype."""
    values = [rows[(*lead, y + k, f)] for k in range(len(taps))]
    if rows.dtype != "uint16":
        return weighted_sum(values, [te.const(weight, rows.dtype) for weight in taps])
    return _weigh(values, taps)


def gaussian_taps(size: int, sigma: float | None = None) -> list[float]:
    """`size` samples of a Gaussian around its middle, which sum to 1. Raises BadImage (TW0195) for a sigma that is not positive."""
    spread = 0.3 * ((size - 1) * 0.5 - 1) + 0.8 if sigma is None else sigma  # OpenCV's and torchvision's default
    if not spread > 0:
        raise BadImage(
            f"sigma is {sigma!r}"[:100],
            called=user_source(),
            reason="sigma is the standard deviation of the blur, in pixels",
            allowed="numbers above 0",
            fix="sigma=1.0",
        )
    samples = [exp(-((k - size // 2) ** 2) / (2 * spread * spread)) for k in range(size)]
    return [sample / sum(samples) for sample in samples]  # normalised, so that a constant image stays


def _weigh(values: Sequence[Expr], taps: Sequence[float]) -> Expr:
    """The weighted sum of uint16: of each product of 16-bit numbers the upper half, one instruction on vectors."""
    if len(taps) == 1:
        return values[0]  # one tap is the pixel itself: 2**16 has no 16 bits
    weights = [floor(tap * (1 << 16) + 0.5) for tap in taps]
    weights[len(taps) // 2] += (1 << 16) - sum(weights)  # all of them together are 1
    return _total(
        [
            ((value.astype("uint32") * weight) >> 16).astype("uint16")  # the upper half of a product, one instruction
            for value, weight in zip(values, weights, strict=True)
        ]
    )


def _total(values: Sequence[Expr]) -> Expr:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _divide(total: Expr, size: int) -> Expr:
    if total.dtype.is_float:
        return total * te.const(1.0 / size, total.dtype)  # a product takes less than a quotient
    return te.truncdiv(total, te.const(size, total.dtype)) if total.dtype.kind == "uint" else te.floordiv(total, size)


def _sum_dtype(image: Tensor, size: int) -> Any:
    dtype = image.dtype
    if dtype.is_float:
        return dtype
    bits = dtype.bits + ceil(size).bit_length()  # the sum of `size` numbers has so many bits more
    return f"{dtype.kind}{next((width for width in (16, 32) if width >= bits), 64)}"


def _reach(size: Any) -> int:
    if not isinstance(size, int) or size < 1 or size % 2 == 0:
        raise BadImage(
            f"size is {size!r}"[:100],
            called=user_source(),
            reason="a window has a centre pixel",
            allowed="odd numbers from 1 on",
            fix="size=3",
        )
    return size // 2
