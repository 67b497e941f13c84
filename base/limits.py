"""Limits that what is declared, what is compiled and what checks a call agree on."""

from __future__ import annotations

__all__ = ["BEYOND_MEMORY", "INT32_EXTENT_LIMIT"]

INT32_EXTENT_LIMIT = 1 << 30
"""Extents and shape symbols of int32 lie below this, so that sums of two of them, ceildiv and the like do not overflow: constant
extents from here on are int64, and a call refuses an int32 symbol that is no smaller."""

BEYOND_MEMORY = 1 << 48
"""Bytes: nothing that one tensor spans is as large."""
