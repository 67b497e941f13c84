"""Slicing a learned bilateral grid: an affine transform of colours for each pixel, read from a coarse grid over height,
width and the brightness that a guide gives.

    out[o, y, x] = sum over i of  A[o, i] * image[i, y, x] + A[o, last],
    A = grid at (y, x, guide[y, x]), linear between the centres of cells, constant beyond the outermost

After Gharbi et al., "Deep bilateral learning for real-time image enhancement" (SIGGRAPH 2017), where the guide runs from 0
to 1 over the depth of the grid. Where a pixel lies in height and width is known, so only depth depends on data; there every
cell is weighted by its distance, nearly all by zero: a sum over the depth, which has few cells, in place of a gather, and as
easy to differentiate (te.gradient) as any. In float32 the result is within 64 * 2**-24 * (sum of the magnitudes of what is
added) of the exact one.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import user_source
from ...ir.expr import Expr, IntImm
from ...te import polymorphic as te
from ...te.shape import shape_text
from ...te.tensor import Tensor
from ..checks import tensor
from ..weighted_sums import weighted_sum
from .errors import BadImage

__all__ = ["bilateral_slice"]


def bilateral_slice(grid: Tensor, guide: Tensor, image: Tensor) -> Tensor:
    """A learned bilateral grid sliced by a guide: an affine transform of colours for each pixel.

    Parameters
    ----------
    grid : Tensor
        (GH, GW, D, O, I + 1), all of them constants; the last of the coefficients is added.
    guide : Tensor
        (H, W), from 0 to 1 over the depth of the grid.
    image : Tensor
        (I, H, W), all of one float dtype.

    Returns
    -------
    Tensor
        (O, H, W).

    Raises
    ------
    BadImage (TW0195)
        An image, or a size, that does not fit.
    """
    _check(grid, guide, image)
    high, wide, depth, outs, terms = (extent.value for extent in grid.shape if isinstance(extent, IntImm))
    h, w = guide.shape
    z, d, k = te.reduce_axis((0, depth), "z"), te.reduce_axis((0, 2), "d"), te.reduce_axis((0, terms), "k")
    around = te.compute(  # the grid with its edge repeated, so that cells beside the edge need no condition
        (high + 2, wide + 2, depth, outs, terms),
        lambda i, j, z, o, c: grid[te.max(te.min(i - 1, high - 1), 0), te.max(te.min(j - 1, wide - 1), 0), z, o, c],
        "around",
        "bilateral_slice.around",
    )

    def between(y: Any, j: Any, z: Any, o: Any, c: Any) -> Expr:
        cell, part = _cell(y, h, high, grid.dtype)
        # rows are interpolated first: they are few, as the grid is coarse
        return weighted_sum([around[cell, j, z, o, c], around[cell + 1, j, z, o, c]], [1 - part, part])

    def coefficient(o: Any, c: Any, y: Any, x: Any) -> Expr:
        cell, part = _cell(x, w, wide, grid.dtype)
        return te.sum(rows[y, cell + d, z, o, c] * (near[z, y, x] * te.select(d == 0, 1 - part, part)), axis=[z, d])

    rows = te.compute((h, wide + 2, depth, outs, terms), between, "rows", "bilateral_slice.rows")
    near = te.compute(  # the weight of each cell in depth: 0 for all but two
        (depth, h, w),
        lambda z, y, x: te.max(1 - te.abs(z + 0.5 - te.max(te.min(guide[y, x] * depth, depth - 0.5), 0.5)), 0),
        "near",
        "bilateral_slice.near",
    )
    affine = te.compute((outs, terms, h, w), coefficient, "affine", "bilateral_slice.affine")
    ones = te.compute(
        # the last coefficient is added: it meets a 1
        (terms, h, w),
        lambda c, y, x: te.if_then_else(c < terms - 1, image[c, y, x], 1),
        "ones",
        "bilateral_slice.ones",
    )
    return te.compute(
        (outs, h, w),
        lambda o, y, x: te.sum(affine[o, k, y, x] * ones[k, y, x], axis=k),
        "bilateral_slice",
        "bilateral_slice",
    )


def _cell(place: Any, size: Any, cells: int, dtype: Any) -> tuple[Any, Expr]:
    """The cell, in a grid with one added on either side, whose centre comes before a pixel's, and how far it is on to the
    next, from 0 to 1."""
    # where pixels divide evenly among cells, the fraction is one of few constants
    if isinstance(size, IntImm) and cells and size.value % cells == 0:
        pixels = max(size.value // cells, 1)  # of an image without pixels there is nothing to divide
        moved, half = place + (pixels + 1) // 2, 0.5 if pixels % 2 == 0 else 0.0
        return te.indexdiv(moved, pixels), (te.indexmod(moved, pixels).astype(dtype) + half) * (1 / pixels)
    moved = (2 * place + 1) * cells + size  # in whole numbers, exact for any size
    return te.indexdiv(moved, 2 * size), te.indexmod(moved, 2 * size).astype(dtype) / (2 * size)


def _check(grid: Tensor, guide: Tensor, image: Tensor) -> None:
    for operand in (grid, guide, image):
        tensor(operand, "topi.image.bilateral_slice")
    shapes = f"grid {shape_text(grid.shape)}, guide {shape_text(guide.shape)}, image {shape_text(image.shape)}"
    ranks = (grid.ndim, guide.ndim, image.ndim) == (5, 2, 3)
    same = len({tensor.dtype for tensor in (grid, guide, image)}) == 1 and grid.dtype.is_float
    constant = ranks and same and all(isinstance(extent, IntImm) for extent in (*grid.shape, image.shape[0]))
    # one more coefficient than channels, the constant
    if not constant or int(grid.shape[4]) != int(image.shape[0]) + 1:
        raise BadImage(
            "this grid does not transform this image",
            reason=shapes,
            declared=grid.source,
            called=user_source(),
            allowed="grid (GH, GW, D, O, I + 1), guide (H, W), image (I, H, W), of one float dtype",
            fix="te.placeholder((16, 16, 8, 3, 4)), te.placeholder((H, W)), te.placeholder((3, H, W))",
        )
