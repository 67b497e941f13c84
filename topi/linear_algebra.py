"""Operators on matrices that are not products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import te
from ..base.errors import user_source
from ..te import const
from ..te.hybrid.runtime import allocate, output_tensor
from ..te.shape import same_extent
from ..te.tensor import Tensor, tensor_text
from .checks import BadOperand, tensor
from .row import floating, operator, sample
from .transform import reshape

__all__ = ["det"]


@operator("det", reference=np.linalg.det, samples=[sample(floating(3, 5, 5)), sample(floating(1, 1))])
def det(data: Tensor) -> Tensor:
    """The determinants of matrices (..., n, n), of float32 or float64, (...): by elimination with pivots. Raises BadOperand
    (TW0181)."""
    source = tensor(data, "det")
    if (
        source.ndim < 2
        or not same_extent(source.shape[-1], source.shape[-2])
        or str(source.dtype) not in ("float32", "float64")
    ):
        raise BadOperand(
            f"{tensor_text(source)} has no determinants",
            declared=source.source,
            called=user_source(),
            fix="matrices of float32 or float64 with as many rows as columns",
        )
    rows: Any = math.prod(source.shape[:-2])
    found: Any = _determinants(reshape(source, (rows, *source.shape[-2:])))
    return reshape(found, source.shape[:-2])


@te.hybrid.script
def _determinants(a: Any) -> Any:
    result = output_tensor((a.shape[0],), a.dtype)
    for r in range(a.shape[0]):
        m = allocate((a.shape[1], a.shape[1]), a.dtype)
        for i in range(a.shape[1]):
            for j in range(a.shape[1]):
                m[i, j] = a[r, i, j]
        product = const(1, a.dtype)
        for k in range(a.shape[1]):
            best = k
            for i in range(k + 1, a.shape[1]):
                if abs(m[i, k]) > abs(m[best, k]):
                    best = i
            if best > k:
                product = -product
                for j in range(a.shape[1]):
                    m[k, j], m[best, j] = m[best, j], m[k, j]
            product = product * m[k, k]
            for i in range(k + 1, a.shape[1]):
                if m[k, k] != 0:
                    factor = m[i, k] / m[k, k]
                    for j in range(k + 1, a.shape[1]):
                        m[i, j] = m[i, j] - factor * m[k, j]
        result[r] = product
    return result
