"""Arrays against pages that nobody may touch: an access past the end, or before the beginning, ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from ...runtime.hosts import host
from ...views.sparse import SparseArray

__all__ = ["Guarded"]

_CANARY = 0xA5
_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """A copy of `value` against the page behind it (at_end), or against the one before it. What is left of its own pages
    must stay as it is.

    written: the copy is filled with rubbish, for the kernel to write; otherwise it must not change. A sparse array is only read,
    on pages that nobody may write.
    """

    def __init__(self, value: np.ndarray[Any, Any], at_end: bool, written: bool) -> None:
        self.value, self.written = value, written
        inside = -(-max(value.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = host().reserved_memory(inside + 2 * mmap.PAGESIZE)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        _protect(first)
        _protect(first + mmap.PAGESIZE + inside)
        own = np.frombuffer(self._map, "uint8", inside, mmap.PAGESIZE)
        # Element sizes divide the page's, so that both ends are aligned to elements.
        start = inside - value.nbytes if at_end else 0
        mine = own[start : start + value.nbytes]
        self._before, self._after = own[:start], own[start + value.nbytes :]
        self._before[:] = self._after[:] = _CANARY
        self.view = mine.view(value.dtype).reshape(value.shape)
        if written:
            mine[:] = _CANARY
        elif isinstance(value, SparseArray):
            for place, held in value.held.items():
                self.view.reshape(-1)[place] = held
            _protect(first + mmap.PAGESIZE, inside, mmap.PROT_READ)
        else:
            self.view[...] = value

    def complaint(self) -> str:
        """Describe the kernel's accesses to memory that is not its own; empty: none."""
        if not ((self._before == _CANARY).all() and (self._after == _CANARY).all()):
            return "wrote outside"
        if not (self.written or isinstance(self.value, SparseArray)) and self.view.tobytes() != self.value.tobytes():
            return "changed its input"
        return ""


def _protect(address: int, size: int = mmap.PAGESIZE, allowed: int = 0) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), allowed):
        raise OSError(ctypes.get_errno(), "mprotect")
