"""Operators on images that tools/fuzz/operators.py composes. Integers that are rounded from something that is not exact become
floats right away, which may be off by what the operator allows itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import topi
from ...topi.image.blur import gaussian_taps
from . import references
from .operator_rows import Operands, Rows, Value, known
from .terms import EPSILON, FLOATS, INTEGERS

__all__ = ["ROWS"]

_LAYOUTS: dict[int, tuple[str, ...]] = {2: ("HW",), 3: ("HWC", "CHW"), 4: ("NCHW", "NHWC")}


def _image(draw: Operands, x: Value) -> tuple[Value, str] | None:
    """x, or a new image where it is none, and its layout."""
    if x.array.ndim not in _LAYOUTS or x.dtype == "bool" or x.array.size > 9000 or not known(x):
        if draw.chance(0.5):
            return None
        shape = [draw.length(33), draw.length(65)]
        if draw.chance(0.5):
            shape += [draw.pick([3, 1, 4])]
        x = draw.fresh(shape, draw.pick(["uint8", "float32", "uint16", "int16", *FLOATS, *INTEGERS]))
    layout = draw.pick(_LAYOUTS[x.array.ndim])
    return x, layout


def _border(draw: Operands, x: Value, layout: str, size: int) -> str | None:
    """Draw the border of the image; None where the window does not fit."""
    high, wide = x.shape[layout.index("H")], x.shape[layout.index("W")]
    border = draw.pick(["edge", "reflect", "zero", "valid"])
    least = {"edge": 0, "reflect": size // 2 + 1, "zero": 0, "valid": size - 1}[border]
    return border if min(high, wide) >= least else None


def _approximate(draw: Operands, made: Any, found: Any, off: float) -> Value:
    """Tolerance of integers that may be rounded to either side, floats that may be off by so much."""
    return draw.rounded(topi.cast(made, "float32"), found, "float32", off)


def box_blur(draw: Operands, x: Value) -> Value | None:
    """Means of windows."""
    picked, size = _image(draw, x), draw.pick([3, 5, 1, 7])
    border = _border(draw, *picked, size) if picked is not None else None
    if picked is None or border is None:
        return None
    image, layout = picked
    kind = "float64" if image.is_float else "int64"
    around = references.windows(image.array.astype(kind), size, border, layout.index("H"))
    result = topi.image.box_blur(image.tensor, size, border, layout)
    if not image.is_float:
        return Value(result, (around.sum(-1) // size).sum(-1) // size, image.dtype)
    return draw.rounded(
        result, around.mean((-1, -2)), image.dtype, image.error + 2 * size * EPSILON[image.dtype] * image.scale
    )


def _draw_blur(draw: Operands, x: Value) -> tuple[Value, tuple[Any, ...], Any, Any] | None:
    """An image, how it is blurred, its blur, and the pixels whose windows it was of."""
    picked, size = _image(draw, x), draw.pick([3, 5, 1, 7])
    border = _border(draw, *picked, size) if picked is not None else None
    if picked is None or border is None or picked[0].dtype in ("uint64", "int64") or picked[0].scale > 2**16:
        return None
    image, layout = picked
    sigma = None if draw.chance(0.5) else draw.pick([1.3, 0.5, 4.0])
    w = np.array(gaussian_taps(size, sigma))
    around = references.windows(image.array.astype("float64"), size, border, layout.index("H"))
    return image, (size, sigma, border, layout), around @ w @ w, around[..., size // 2, size // 2]


def gaussian_blur(draw: Operands, x: Value) -> Value | None:
    """Windows weighted by a Gaussian."""
    drawn = _draw_blur(draw, x)
    if drawn is None:
        return None
    image, (size, *rest), expected, _ = drawn
    result = topi.image.gaussian_blur(image.tensor, size, *rest)
    if image.is_float:
        return draw.rounded(result, expected, image.dtype, image.error + 2 * size * EPSILON[image.dtype] * image.scale)
    off = 0.5 + size / 100 if image.dtype == "uint8" else 0.5 + (2 * size + 2) * EPSILON["float32"] * image.scale
    return _approximate(draw, result, expected, off)


def unsharp_mask(draw: Operands, x: Value) -> Value | None:
    """Images with more of what a blur takes from them."""
    drawn = _draw_blur(draw, x)
    if drawn is None:
        return None
    image, (size, sigma, border, layout), blur, pixels = drawn
    amount = draw.pick([1.5, 0.25, 0, 6])
    result = topi.image.unsharp_mask(image.tensor, size, sigma, amount, border, layout)
    expected = pixels + amount * (pixels - blur)
    unit = EPSILON[image.dtype if image.is_float else "float32"]
    bound = (amount * (2 * size + 4) + 4) * unit * image.scale
    if image.is_float:
        return draw.rounded(result, expected, image.dtype, bound + (1 + 2 * amount) * image.error, 2)
    ends = np.iinfo(image.dtype)
    off = 1 + amount * size / 50 if image.dtype == "uint8" else 0.5 + bound
    return _approximate(draw, result, np.clip(expected, ends.min, ends.max), off)


def resize(draw: Operands, x: Value) -> Value | None:
    """Images of another size, by each method and each idea of where pixels lie."""
    picked = _image(draw, x)
    if picked is None or 0 in picked[0].shape or picked[0].dtype in ("int64", "uint64", "int32", "uint32"):
        return None
    image, layout = picked
    method = draw.pick(["nearest", "bilinear", "bicubic"])
    coordinates = draw.pick(["half_pixel", "align_corners", "asymmetric"])
    rounding = draw.pick(["floor", "round", "ceil"])
    out = [draw.pick([7, 1, 16, 33, 20, 2]) for _ in range(2)]
    result = topi.image.resize(image.tensor, out, method, layout, coordinates=coordinates, rounding=rounding)
    expected = references.resize(image.array, out, method, coordinates, rounding, layout.index("H"))
    if method == "nearest":
        return draw.exact(result, expected, image)
    if image.is_float:
        return draw.rounded(result, expected, image.dtype, 2.5 * image.error + 1e-5 * image.scale)
    ends = np.iinfo(image.dtype)
    fixed_point = 0.05 if image.dtype == "uint8" and method == "bilinear" else 1e-5 * max(image.scale, 1.0)
    return _approximate(draw, result, np.clip(expected, ends.min, ends.max), 0.5 + fixed_point)


def bilateral_slice(draw: Operands, x: Value) -> Value | None:
    """The affine transforms of a bilateral grid, for the colours of an image."""
    image = x
    if (
        x.dtype not in ("float32", "float64")
        or x.array.ndim != 3
        or x.array.size > 9000
        or x.shape[0] > 5
        or not known(x)
    ):
        if draw.chance(0.4):
            return None
        image = draw.fresh(
            [draw.number(1, 4), draw.length(17), draw.length(33)], draw.pick(["float32", "float32", "float64"])
        )
    terms, *size = image.shape
    shape = [draw.number(1, 4), draw.number(1, 4), draw.pick([8, 1, 4, 3]), draw.number(1, 3), terms + 1]
    grid = draw.fresh(shape, image.dtype)
    guide = draw.holding(draw.choices.contents().integers(-8, 73, size) / 64, image.dtype)
    expected, magnitude = references.bilateral_slice(grid.array, guide.array, image.array)
    bound = 64 * EPSILON[image.dtype] * float(magnitude.max(initial=0.0))
    result = topi.image.bilateral_slice(grid.tensor, guide.tensor, image.tensor)
    return draw.rounded(result, expected, image.dtype, bound + image.error * terms * grid.scale)


ROWS: Rows = ((0.8, box_blur), (0.7, gaussian_blur), (0.7, unsharp_mask), (1, resize), (0.6, bilateral_slice))
"""By weight."""
