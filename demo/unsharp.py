"""An unsharp mask of a photograph, in 16-bit fixed point: the second half of the demo.

The blur is the separable Gaussian 1 4 6 4 1 over 16, in both directions, with clamped borders. Sums of the two passes
reach 255 * 256 and so fit in uint16 exactly. The result is the pixel plus three halves of its difference from the blur.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import te
from ..schedule import Schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

TAPS = (1, 4, 6, 4, 1)
RADIUS = len(TAPS) // 2


def reference(image: NDArray[Any]) -> NDArray[Any]:
    """The same by numpy. image: uint8 (height, width, channels)."""
    height, width, _ = image.shape
    padded = np.pad(image.astype(np.uint16), ((RADIUS, RADIUS), (RADIUS, RADIUS), (0, 0)), mode="edge")
    rows: Any = sum(np.uint16(tap) * padded[:, k : k + width] for k, tap in enumerate(TAPS))
    blur: Any = sum(np.uint16(tap) * rows[k : k + height] for k, tap in enumerate(TAPS))
    blurred = ((blur + np.uint16(128)) >> np.uint16(8)).astype(np.int16)
    pixel = image.astype(np.int16)
    return np.clip(pixel + (((pixel - blurred) * np.int16(3)) >> np.int16(1)), 0, 255).astype(np.uint8)


class Pipeline(NamedTuple):
    """The stages, each reading those before it; uint8, uint16, uint16, uint16, uint8."""

    image: te.Tensor
    padded: te.Tensor
    rows: te.Tensor
    blur: te.Tensor
    sharp: te.Tensor


def declare(height: int, width: int, channels: int) -> Pipeline:
    """The photograph, its sharpened version and what lies between, as tensor expressions."""
    image = te.placeholder((height, width, channels), "uint8", name="image")

    def clamp(index: te.Expr, extent: int) -> te.Expr:
        inside = te.likely(te.all(index >= 0, index < extent))  # so the loop over the inside is made free of the test
        return te.if_then_else(inside, index, te.max(te.min(index, extent - 1), 0))

    padded = te.compute(
        (height + 2 * RADIUS, width + 2 * RADIUS, channels),
        lambda y, x, c: image[clamp(y - RADIUS, height), clamp(x - RADIUS, width), c].astype("uint16"),
        name="padded",
    )
    rows = te.compute(
        (height + 2 * RADIUS, width, channels),
        lambda y, x, c: weigh_row([padded[y, x + k, c] for k in range(len(TAPS))]),
        name="rows",
    )
    blur = te.compute(
        (height, width, channels),
        lambda y, x, c: weigh_row([rows[y + k, x, c] for k in range(len(TAPS))]),
        name="blur",
    )

    def sharpen(y: te.Expr, x: te.Expr, c: te.Expr) -> te.Expr:
        blurred = ((blur[y, x, c] + 128) >> 8).astype("int16")
        pixel = image[y, x, c].astype("int16")
        return te.max(te.min(pixel + (((pixel - blurred) * 3) >> 1), 255), 0).astype("uint8")

    return Pipeline(image, padded, rows, blur, te.compute((height, width, channels), sharpen, name="sharp"))


def weigh_row(values: list[te.Expr]) -> te.Expr:
    """The five values, weighted by TAPS."""
    total = values[0] * TAPS[0]
    for tap, value in zip(TAPS[1:], values[1:], strict=True):
        total = total + value * tap
    return total


def scheduled(height: int, width: int, channels: int, parallel: bool = True) -> tuple[Schedule, list[te.Tensor]]:
    """A band of rows at a time: the blurred rows that a band needs are computed just before it, in vectors."""
    image, padded, rows, blur, sharp = declare(height, width, channels)
    s = te.create_schedule(sharp)
    s[blur].compute_inline()
    y, x, c = sharp.op.axis
    band, _ = s[sharp].split(y, 32)
    s[sharp].vectorize(s[sharp].fuse(x, c))
    s[rows].compute_at(s[sharp], band)
    s[rows].vectorize(s[rows].fuse(*rows.op.axis[1:]))
    s[padded].compute_at(s[sharp], band)
    s[padded].vectorize(s[padded].fuse(*padded.op.axis[1:]))
    if parallel:
        s[sharp].parallel(band)
    return s, [image, sharp]
