"""Unsharp masking: an image plus what a blur takes from it."""

from __future__ import annotations

from typing import Any

from ... import te
from ...base.errors import user_source
from ...ir.expr import Expr
from ...te.tensor import Tensor
from ..weighted_sums import scaled_and_moved
from .blur import blurred_rows, column_sum, gaussian_taps
from .errors import BadImage
from .planes import Plane

__all__ = ["unsharp_mask"]

DETAIL = 6
"""Bits after the point that bytes' differences from their blur keep: with a sign and eight bits before it, fifteen."""


def unsharp_mask(
    image: Tensor,
    size: int = 5,
    sigma: float | None = None,
    amount: float = 1.5,
    border: str = "reflect",
    layout: str | None = None,
) -> Tensor:
    """image + amount * (image - gaussian_blur(image, size, sigma, border)).

    Integers are rounded to the nearest and kept within their dtype; of bytes the result is made in fixed point, within
    1 + amount * size / 50 grey levels of the real value. Of floats nothing is cut off.

    Parameters
    ----------
    image : Tensor
        (H, W), (H, W, C), (N, C, H, W), or as `layout` names its dimensions.
    size : int, default 5
        Height and width of a window, odd.
    sigma : float or None, default None
        As of gaussian_blur.
    amount : float, default 1.5
        From 0 on, below 32.
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
    if not 0 <= amount < 32:  # 16-bit weights with DETAIL bits hold no more
        raise BadImage(
            f"amount is {amount!r}"[:100],
            called=user_source(),
            reason="amount scales the detail that is added",
            allowed="numbers from 0 on, below 32",
            fix="amount=1.5",
        )
    plane, taps = Plane.of(image, layout, border), gaussian_taps(size, sigma)
    rows = blurred_rows(plane, size, sigma)
    reach = size // 2
    high, wide = plane.result_size(reach, reach)
    shift = reach if border == "valid" else 0  # "valid": the pixel is the centre of its window

    def sharp(lead: Any, y: Any, f: Any) -> Expr:
        pixel, blurred = plane.at(lead, y + shift, f, shift), column_sum(rows, lead, y, f, taps)
        if image.dtype == "uint8":
            return _bytes(pixel, blurred, amount)
        kind = blurred.dtype
        value = scaled_and_moved(pixel.astype(kind) - blurred, te.const(amount, kind), pixel.astype(kind))
        if image.dtype.is_float:
            return value
        # clipped in floats before the conversion
        least, greatest = (te.const(bound, kind) for bound in (image.dtype.least, image.dtype.greatest))
        return te.max(te.min(te.floor(value + 0.5), greatest), least).astype(image.dtype)

    return plane.pixels(high, wide, sharp, "unsharp_mask")


def _bytes(pixel: Expr, blurred: Expr, amount: float) -> Expr:
    """Compute in 16 bits: what is added is the upper half of a product of 32 bits, one instruction on vectors."""
    wide = pixel.astype("int16")
    weight = round(amount * (1 << 16 - DETAIL))  # amount with as many bits as are left beside DETAIL
    half = min(round((1 << 15) / weight), 16000) if weight else 0  # so that the upper half is rounded to the nearest
    detail = (wide << DETAIL) - (blurred >> 8 - DETAIL).astype("int16") + te.const(half, "int16")
    added = ((detail.astype("int32") * weight) >> 16).astype("int16")
    return te.max(te.min(wide + added, 255), 0).astype("uint8")  # a byte plus what is added may leave its range
