"""Arrays against pages that nobody may touch: an access past the end, or before the beginning, ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

__all__ = ["Guarded"]

_CANARY = 0xA5
_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """A copy of `value` against the page behind it (at_end), or against the one before it. What is left of its own pages
    must stay as it is.

    written: the copy is filled with rubbish, for the kernel to write; otherwise it must not change.
    """

    def __init__(self, value: np.ndarray[Any, Any], at_end: bool, written: bool) -> None:
        self.value, self.written = value, written
        inside = -(-max(value.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, inside + 2 * mmap.PAGESIZE)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        _protect(first)
        _protect(first + mmap.PAGESIZE + inside)
        own = np.frombuffer(self._map, "uint8", inside, mmap.PAGESIZE)
        own.fill(_CANARY)
        # Element sizes divide the page's, so that both ends are aligned to elements.
        start = inside - value.nbytes if at_end else 0
        self._before, self._after = own[:start], own[start + value.nbytes:]
        self.view = own[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
        if not written:
            self.view[...] = value

    def complaint(self) -> str:
        """What happened to memory that the kernel had no business with; empty: nothing."""
        if not ((self._before == _CANARY).all() and (self._after == _CANARY).all()):
            return "wrote outside"
        if not self.written and self.view.tobytes() != self.value.tobytes():
            return "changed its input"
        return ""


def _protect(address: int) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), 0):
        raise OSError(ctypes.get_errno(), "mprotect")
