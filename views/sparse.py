"""Arrays of more elements than memory holds: all are 0 but for a few, and what nobody touches takes no memory."""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["SparseArray", "reserved", "sparse"]

_NO_RESERVE = 0x4000
"""Linux's MAP_NORESERVE, which Python's mmap does not name everywhere."""


class SparseArray(np.ndarray[Any, Any]):
    """An array on memory that is reserved and not touched, but at `held`."""

    held: dict[int, Any]
    """By places in row-major order: what is not 0 there."""

    def copy(self, order: Any = "C") -> SparseArray:
        del order
        return sparse(self.shape, self.dtype, self.held)


def reserved(size: int) -> mmap.mmap:
    """Zeroed memory of `size` bytes that is there once it is touched."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)


def sparse(shape: tuple[int, ...], dtype: Any, held: Mapping[int, Any] | None = None) -> SparseArray:
    """Zeros of a shape and dtype, but for what is `held` by places in row-major order."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    flat = np.frombuffer(reserved(max(count * dtype.itemsize, 1)), dtype, count)
    for place, value in (held or {}).items():
        flat[place] = value
    array = flat.reshape(shape).view(SparseArray)
    array.held = dict(held or {})
    return array
