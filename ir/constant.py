"""Constants: memory whose contents are known when a kernel is built."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.dataclass import dataclass
from ..base.nibbles import pack_nibbles
from .lazy_values import cached_property

__all__ = ["ALIGNMENT", "Constant", "aligned_copy", "aligned_empty", "aligned_zeros"]

ALIGNMENT = 64
"""Where constants begin, in bytes: at a cache line, and as the widest vectors like it."""


@dataclass(frozen=True, eq=False, repr=False)
class Constant:
    """Contents that a function reads, which nobody passes. The object is its identity.

    data: the elements, aligned to ALIGNMENT, which no one changes once code is made that reads them where they lie.
    known_digest: a hash of the contents, in hexadecimal, where the caller has one already.
    is_open: whether the contents come after the code, which takes them as an argument: `data` tells their shape and dtype alone.
    """

    name: str
    data: NDArray[Any]
    known_digest: str = ""
    is_open: bool = False

    @staticmethod
    def open(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Constant:
        """A constant whose contents come later."""
        return Constant(name, np.broadcast_to(np.zeros((), dtype), shape), "open", True)

    @property
    def memory(self) -> NDArray[np.uint8]:
        """The bytes, as they lie."""
        return self.data.reshape(-1).view(np.uint8) if self.data.size else np.empty(0, np.uint8)

    @cached_property
    def packed(self) -> Constant:
        """These integers of 4 bits, two a byte."""
        return Constant(self.name, aligned_copy(pack_nibbles(self.data)))

    @property
    def address(self) -> int:
        """Address of the first byte."""
        return self.data.ctypes.data

    @cached_property
    def digest(self) -> str:
        """A hash of the contents."""
        return self.known_digest or hashlib.sha256(self.memory.data).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.is_open:
            return Constant.open, (self.name, self.data.shape, self.data.dtype)
        return _restore, (self.name, np.array(self.data))

    def __repr__(self) -> str:
        extents = ", ".join(map(str, self.data.shape))
        return f"constant {self.name}: {self.data.dtype}[{extents}]"


def _restore(name: str, data: NDArray[Any]) -> Constant:
    """Restore a constant in another process, aligned as here."""
    return Constant(name, aligned_copy(data))


def aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that nobody changes, as constants lie."""
    data = aligned_empty(array.shape, array.dtype)
    data[...] = array
    data.flags.writeable = False
    return data


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An uninitialised array that begins at a multiple of ALIGNMENT; its memory is there even where it has no elements."""
    return _align(np.empty, shape, dtype)


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of zeros that begins at a multiple of ALIGNMENT. Of large ones, no page has been touched yet."""
    return _align(np.zeros, shape, dtype)


def _align(
    make: Callable[[int, type[np.uint8]], NDArray[np.uint8]],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    size = prod(shape) * dtype.itemsize
    memory = make(size + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)
