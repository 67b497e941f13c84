"""Nodes and parameters that no output needs.

    input x: float32[4]
    y: float32[4] = relu(x)
    z: float32[4] = exp(x)
    output y

becomes

    input x: float32[4]
    y: float32[4] = relu(x)
    output y
"""

from __future__ import annotations

from ..rewrite import remove_dead
from .rewriter import GraphPass

__all__ = ["DEAD"]

DEAD = GraphPass("dead", "nodes and parameters that no output needs are left out", "exact", remove_dead, __doc__)
