"""tvm.ir."""

from ...ir.expr import Range
from .driver import IRModule

__all__ = ["IRModule", "Range"]
