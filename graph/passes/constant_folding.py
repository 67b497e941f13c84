"""Constant folding by the reference, which may round otherwise than kernels do: see `constants`.

    input x: float32[2]
    param w: float32[2] = (1.0, 0.0)
    a: float32[2] = exp(w)
    y: float32[2] = add(x, a)
    output y

becomes

    input x: float32[2]
    param a: float32[2] = (2.7182817459106445, 1.0)
    y: float32[2] = add(x, a)
    output y
"""

from __future__ import annotations

from .constants import folds
from .rewriter import GraphPass

__all__ = ["FOLDED"]

FOLDED = GraphPass(
    "folded", "compute constant nodes once, by the reference", "rounds", lambda g: folds(g, rounds=True), __doc__
)
