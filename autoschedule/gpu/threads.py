"""What rules for GPUs have in common: threads, vectors, launches."""

from __future__ import annotations

from ...ir.dtype import DType

__all__ = ["LAUNCH", "THREADS", "VECTOR", "WARP", "lanes_of"]

WARP = 32
THREADS = 256
"""Of a block that needs no particular number."""
VECTOR = 16
"""Bytes that a thread loads or stores at once."""
LAUNCH = 3e-6
"""Seconds until a kernel runs."""


def lanes_of(dtype: DType) -> int:
    """How many elements a thread loads or stores at once."""
    return max(VECTOR * 8 // max(dtype.bits, 8), 1)
