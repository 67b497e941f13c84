"""tvm.contrib."""

from __future__ import annotations

from . import cblas, cc, clang, dlpack, graph_executor, graph_runtime, nvcc, pickle_memoize, tedd, utils
from . import utils as util

__all__ = [
    "cblas",
    "cc",
    "clang",
    "dlpack",
    "graph_executor",
    "graph_runtime",
    "nvcc",
    "pickle_memoize",
    "tedd",
    "util",
    "utils",
]
