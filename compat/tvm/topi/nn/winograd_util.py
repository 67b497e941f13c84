"""topi.nn.winograd_util: the matrices of Winograd's convolution as tensors of constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..... import te
from .....te import Tensor

__all__ = ["winograd_transform_matrices"]

_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 4.0, -4.0, 0.25, -0.25)


def winograd_transform_matrices(tile_size: int, kernel_size: int, out_dtype: Any) -> tuple[Tensor, Tensor, Tensor]:
    """A (a, m), B (a, a) and G (a, r) of F(m, r), a = m + r - 1 elements a side: y = A^T [(G w) * (B^T d)] for a row.

    Toom and Cook's, transposed (Lavin and Gray 2016): B's columns are products of all x - p but one, at points p that are ours, and
    infinity. Raises ValueError for more than 12 elements a side, which float32 cannot tell apart."""
    side = tile_size + kernel_size - 1
    if tile_size < 1 or kernel_size < 1 or side - 1 > len(_POINTS):
        raise ValueError(
            f"no tiles of {tile_size} for kernels of {kernel_size}: a side has 1 to {len(_POINTS) + 1} elements"
        )
    points = np.array(_POINTS[: side - 1])
    a, b, g = np.zeros((side, tile_size)), np.zeros((side, side)), np.zeros((side, kernel_size))
    for at, point in enumerate(points):
        others = np.delete(points, at)
        a[at] = point ** np.arange(tile_size)
        g[at] = point ** np.arange(kernel_size) / np.prod(point - others)
        b[: side - 1, at] = np.poly(others)[::-1]
    a[-1, -1] = g[-1, -1] = 1
    b[:, -1] = np.poly(points)[::-1]
    first, second, third = (matrix.astype(str(out_dtype)) for matrix in (a, b, g))
    return te.constant(first, name="A"), te.constant(second, name="B"), te.constant(third, name="G")
