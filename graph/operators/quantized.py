"""Products with weights in 8 or 4 bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import topi
from ...topi.nn.weight_only import GROUP
from .row import operator

__all__: list[str] = []


def _numpy_weight_only(x: Any, packed: Any, scales: Any, *, outs: int, bits: int) -> Any:
    """x in groups of whole numbers, rounded in float32 as kernels do; then exact but for one rounding."""
    depth, groups = x.shape[-1], scales.shape[1]
    rows = np.zeros((math.prod(x.shape[:-1]), groups * GROUP), np.float32)
    rows[:, :depth] = x.reshape(-1, depth)
    blocks = rows.reshape(-1, groups, GROUP)
    peak = np.abs(blocks).max(-1, keepdims=True)
    with np.errstate(all="ignore"):
        factor = np.where(peak > np.float32(1e-30), np.float32(127) / peak, np.float32(0))
    unit = peak * np.float32(1 / 127)
    whole = (np.rint(blocks * factor) * unit.astype(np.float64)).reshape(len(rows), -1)
    weights = topi.nn.dequantize_groups(packed, scales, outs, groups * GROUP, bits)
    return (whole @ weights.T.astype(np.float64)).reshape(*x.shape[:-1], outs)


@operator("weight_only_matmul", _numpy_weight_only)
def _weight_only_matmul(x: Any, packed: Any, scales: Any, *, outs: int, bits: int) -> Any:
    """x (..., k) times a matrix (k, outs) that topi.nn.quantize_groups packed, x rounded to 8 bits in groups, as
    topi.nn.weight_only_dense does."""
    rows = x if x.ndim == 2 else topi.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    product = topi.nn.weight_only_dense(rows, packed, scales, outs, bits)
    return product if x.ndim == 2 else topi.reshape(product, (*x.shape[:-1], outs))
