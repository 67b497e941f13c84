"""Running operators: a composition of topi's is scheduled by topi.schedule, built, and called on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tilewright as tw
from ml_dtypes import bfloat16
from tilewright import te, topi

SIZES = [(7, 33), (1, 1), (0, 5), (5, 0), (13, 129), (64, 64), (3, 4, 5)]


def numpy_dtype(dtype: Any) -> Any:
    return bfloat16 if str(dtype) == "bfloat16" else np.dtype(str(dtype))


def placeholders(*arrays: Any) -> list[Any]:
    """A tensor for each array."""
    return [te.placeholder(array.shape, str(array.dtype), name="ABCDEFGH"[at]) for at, array in enumerate(arrays)]


def evaluate(inputs: Sequence[Any], outputs: Any, arrays: Sequence[Any], target: str = "llvm") -> Any:
    """What `outputs` hold: an array, or a list of them for a list."""
    several = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    s = topi.schedule(several, target)
    kernel = tw.build(s, [*inputs, *several], target=target)
    results = [np.full([int(extent) for extent in one.shape], 77).astype(numpy_dtype(one.dtype)) for one in several]
    kernel(*arrays, *results)
    return results if isinstance(outputs, (list, tuple)) else results[0]


def run(operator: Any, *arrays: Any, target: str = "llvm") -> Any:
    """operator(tensors of these arrays), evaluated on them."""
    tensors = placeholders(*arrays)
    return evaluate(tensors, operator(*tensors), arrays, target)


def floats(shape: Sequence[int], dtype: str = "float32", low: float = -2.0, high: float = 2.0, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(low, high, tuple(shape)).astype(numpy_dtype(dtype))


def whole(shape: Sequence[int], dtype: str = "int32", low: int = -9, high: int = 9, seed: int = 0) -> Any:
    return (
        np.random.default_rng(seed).integers(0 if dtype.startswith("uint") else low, high, tuple(shape)).astype(dtype)
    )
