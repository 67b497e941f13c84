"""Arrays of more elements than memory holds: all are 0 but for a few, and what nobody touches takes no memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..runtime.hosts import host

__all__ = ["SparseArray", "sparse"]


class SparseArray(np.ndarray[Any, Any]):
    """An array on memory that is reserved and not touched, but at `held`."""

    held: dict[int, Any]
    """By places in row-major order: what is not 0 there."""

    def copy(self, order: Any = "C") -> SparseArray:
        # there is one order; a copy would touch all pages
        del order
        return sparse(self.shape, self.dtype, self.held)


def sparse(shape: tuple[int, ...], dtype: Any, held: Mapping[int, Any] | None = None) -> SparseArray:
    """Zeros of a shape and dtype, but for what is `held` by places in row-major order."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    # pages that nobody touches take no memory: a tensor of 2**40 elements fits
    flat = np.frombuffer(host().reserved_memory(max(count * dtype.itemsize, 1)), dtype, count)
    for place, value in (held or {}).items():
        flat[place] = value
    array = flat.reshape(shape).view(SparseArray)
    array.held = dict(held or {})
    return array
