"""tvm._ffi: the names that programs ask it for."""

from __future__ import annotations

import sys

from ...base.errors import TilewrightError as TVMError
from .runtime import DataType, get_global_func, register_func

__all__ = ["DataType", "TVMError", "base", "get_global_func", "register_func", "registry", "runtime_ctypes"]

base = registry = runtime_ctypes = sys.modules[__name__]
"""tvm._ffi.base and its like, whose names stand here."""
for _part in ("base", "registry", "runtime_ctypes"):
    sys.modules[f"{__name__}.{_part}"] = base
