"""tvm.te.hybrid.runtime."""

from .....te.hybrid.runtime import EMULATED as HYBRID_GLOBALS

__all__ = ["HYBRID_GLOBALS"]
