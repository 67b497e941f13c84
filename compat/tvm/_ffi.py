"""tvm._ffi: the names that programs ask it for."""

from __future__ import annotations

from types import SimpleNamespace

from ...errors import TilewrightError as TVMError
from .runtime import get_global_func, register_func

__all__ = ["TVMError", "base", "get_global_func", "register_func"]

base = SimpleNamespace(TVMError=TVMError)
"""tvm._ffi.base."""
