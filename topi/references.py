"""Parts of references: in which numbers numpy computes what operators compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir.dtype import DType
from ..ir.interpret.scalars import numpy_dtype
from ..ir.ops import common_dtype

erf = np.vectorize(math.erf, otypes=[np.float64])


def array_dtype(name: str) -> np.dtype[Any]:
    """numpy's dtype of this name."""
    return numpy_dtype(DType(name))


def wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that computes in float64 what is given in floats, integers as they are, and bools as what they count."""

    def widened(x: NDArray[Any]) -> NDArray[Any]:
        return x if x.dtype.kind in "iu" else x.astype(np.int32 if x.dtype.kind == "b" else np.float64)

    return lambda *arrays, **attributes: function(*map(widened, arrays), **attributes)


def floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that computes in float64, whatever it is given."""
    return lambda *arrays, **attributes: function(*(x.astype(np.float64) for x in arrays), **attributes)


def numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of bools as numbers: 0 and 1 as int32."""
    return lambda *arrays: function(*(x.astype(np.int32) if x.dtype.kind == "b" else x for x in arrays))


def alike(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two operands in the dtype in which they meet, which is often another one than numpy's."""
    if x.dtype == y.dtype:
        return x, y
    kind = array_dtype(str(common_dtype(DType(str(x.dtype)), DType(str(y.dtype)))))
    return x.astype(kind), y.astype(kind)


def channel_weights(x: NDArray[Any], weights: NDArray[Any], axis: int) -> NDArray[Any]:
    """Weights in float64, one for each index along an axis of x."""
    return weights.astype(np.float64).reshape([-1 if at == axis else 1 for at in range(x.ndim)])


def standardize(x: NDArray[Any], axes: Sequence[int], epsilon: float) -> NDArray[Any]:
    """Return x in float64, less its mean along axes and over its deviation there."""
    wide, axes = x.astype(np.float64), tuple(axes)
    distance = wide - wide.mean(axes, keepdims=True)
    return distance / np.sqrt((distance**2).mean(axes, keepdims=True) + epsilon)


def dtype_bound(dtype: np.dtype[Any], upper: bool) -> Any:
    """The bound that no element of a dtype is below, or above."""
    if dtype.kind == "b":
        return upper
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if upper else np.iinfo(dtype).min
    return np.inf if upper else -np.inf
