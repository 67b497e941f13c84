"""Integer arithmetic: intervals, remainders, simplification by rules, proofs."""

from .analyzer import Analyzer, detect_stride, linear, simplify
from .interval import Interval
from .linear import LinearForm
from .modular import Modular

__all__ = ["Analyzer", "Interval", "LinearForm", "Modular", "detect_stride", "linear", "simplify"]
