"""Integers of 4 bits between numpy's arrays, which hold one a byte, and memory, which holds two.

Element e in row-major order is in byte e // 2, in the lower four bits where e is even. Of an odd number, the last byte's upper half is 0.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PACKED_TYPES", "holds_integers", "pack_nibbles", "unpack_nibbles"]

PACKED_TYPES = ("int4", "uint4")
"""The dtypes of which two elements lie in a byte of kernels' memory, and one in a byte of numpy's."""


def holds_integers(dtype: np.dtype[Any]) -> bool:
    """Return whether the elements of numpy's arrays of a dtype are integers or bools."""
    return dtype.kind in "biu" or dtype.name in PACKED_TYPES


def pack_nibbles(values: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an array of integers of 4 bits, whatever its strides."""
    halves = np.ascontiguousarray(values).reshape(-1).view(np.uint8) & np.uint8(15)
    packed = halves[::2].copy()
    packed[: halves.size // 2] |= halves[1::2] << np.uint8(4)
    return packed


def unpack_nibbles(packed: NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A new array of these elements. dtype: int4 or uint4 of ml_dtypes."""
    size = prod(shape)
    halves = np.empty(2 * packed.size, np.uint8)
    halves[::2], halves[1::2] = packed & 15, packed >> 4
    return halves[:size].view(dtype).reshape(shape)
