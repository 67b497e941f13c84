"""tvm.contrib."""

from __future__ import annotations

from . import clang, utils

__all__ = ["clang", "utils"]
