"""Large arrays in temporary files that are mapped: they are there like any other array, and take no memory while nobody reads them.

A model's parameters are read when they are imported and when kernels pack them, and hardly ever afterwards: by the reference, and
by what saves and exports. The files have no names, so that nobody changes them, and they go with the arrays.
"""

from __future__ import annotations

import ctypes
import mmap
import tempfile
import weakref
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir.constant import aligned_copy

__all__ = ["is_paged", "paged_copy", "release"]

_LEAST = 1 << 18
"""Bytes below which an array stays in memory."""
_FAILED = ctypes.c_void_p(-1).value


class _Pages:
    """A file of these bytes, mapped for reading for as long as this lives. Raises OSError."""

    def __init__(self, content: memoryview) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        libc.madvise.argtypes = [*libc.munmap.argtypes, ctypes.c_int]
        with tempfile.TemporaryFile(buffering=0) as file:
            rest = content
            while rest:  # not through the mapping, where a full disk would be a signal
                rest = rest[file.write(rest) :]
            address = libc.mmap(None, len(content), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        if address == _FAILED:
            raise OSError(ctypes.get_errno(), "mmap")
        self._release = libc.madvise
        self.place: tuple[int, int] = address, len(content)
        # at exit arrays may still be read; the system unmaps them afterwards
        weakref.finalize(self, libc.munmap, *self.place).atexit = False

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "typestr": "|u1", "shape": (self.place[1],), "data": (self.place[0], True)}

    def release(self) -> None:
        """Give the memory back; what is read again comes from the file."""
        self._release(*self.place, mmap.MADV_DONTNEED)


def paged_copy(array: NDArray[Any]) -> NDArray[Any]:
    """A copy of a compact array that nobody changes, aligned as constants are: in a file if it is large and there is room for one,
    else in memory."""
    if array.nbytes >= _LEAST and hasattr(mmap, "MADV_DONTNEED"):
        with suppress(OSError):
            return np.asarray(_Pages(array.reshape(-1).view(np.uint8).data)).view(array.dtype).reshape(array.shape)
    return aligned_copy(array)


def is_paged(array: NDArray[Any]) -> bool:
    """Return whether an array lies in a file."""
    return _find_pages(array) is not None


def release(array: NDArray[Any]) -> None:
    """Give back the memory of what paged_copy made; other arrays stay as they are."""
    pages = _find_pages(array)
    if pages is not None:
        pages.release()


def _find_pages(array: NDArray[Any]) -> _Pages | None:
    # a view has the array that it is of as its base, which may be a view too
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return base if isinstance(base, _Pages) else None
