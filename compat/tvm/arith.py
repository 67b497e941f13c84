"""tvm.arith."""

from ...ir.arith import Analyzer

__all__ = ["Analyzer"]
