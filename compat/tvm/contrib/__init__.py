"""tvm.contrib."""

from __future__ import annotations

from . import cblas, cc, clang, utils
from . import utils as util

__all__ = ["cblas", "cc", "clang", "util", "utils"]
