"""Memory in large pages, for what every call reads whole.

A processor looks up where each page lies, and fetches ahead no further than its end: in pages of 4 KB a core reads weights at
two thirds of the rate that it has in pages of 2 MB, where the machine is a virtual one, which looks up twice.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir.constant import ALIGNMENT, aligned_zeros

__all__ = ["LargePages"]

PAGE = 2 << 20
"""Bytes of a large page, as most systems have them."""
LEAST = 1 << 18
"""Bytes below which an array is left among others."""
CHUNK = 32 * PAGE
"""Bytes that the system is asked for at least; what is not written to takes no memory."""


class LargePages:
    """Arrays side by side in chunks of large pages: a page that ends with an array would else be empty behind it. The chunks go
    with the last of their arrays."""

    def __init__(self) -> None:
        self._chunk: NDArray[np.uint8] = np.empty(0, np.uint8)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array of zeros, aligned as constants are; a small one, or where the system has no large pages, one like any other.
        Raises MemoryError."""
        size = prod(shape) * dtype.itemsize
        if size < LEAST or not hasattr(mmap, "MADV_HUGEPAGE"):
            return aligned_zeros(shape, dtype)
        if self._chunk.size < size:
            try:
                self._chunk = _chunk(size)
            except OSError:
                return aligned_zeros(shape, dtype)
        array = self._chunk[:size].view(dtype).reshape(shape)
        # what is left begins aligned for the next array
        self._chunk = self._chunk[min(-(-size // ALIGNMENT) * ALIGNMENT, self._chunk.size) :]
        return array


def _chunk(size: int) -> NDArray[np.uint8]:
    """Pages for at least so many bytes, nothing in them. Raises OSError."""
    whole = max(-(-size // PAGE) * PAGE, CHUNK)
    # a page more, since mmap aligns to small pages, and madvise turns whole large ones alone
    memory = mmap.mmap(-1, whole + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without such pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    chunk = np.frombuffer(memory, np.uint8)
    begin = -chunk.ctypes.data % PAGE
    return chunk[begin : begin + whole]
