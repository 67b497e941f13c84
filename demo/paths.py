"""Longest paths from each city by way of another: a product of matrices with max for the sum and + for the product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import te

if TYPE_CHECKING:
    from numpy.typing import NDArray


def declare(cities: int) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """C[i, j] = max over k of A[i, k] + B[k, j], for square float32 matrices."""
    a, b = te.placeholder((cities, cities), name="A"), te.placeholder((cities, cities), name="B")
    k = te.reduce_axis((0, cities), name="k")
    return a, b, te.compute((cities, cities), lambda i, j: te.max(a[i, k] + b[k, j], axis=k), name="C")


def reference(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The same in numpy, a row at a time."""
    return np.stack([(row[:, None] + b).max(axis=0) for row in a])
