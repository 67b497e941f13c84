"""Gradients of graphs: reverse mode over nodes, a rule for each operator, and te.gradient where there is none.

A rule (rule.py) adds nodes for the gradient by each of a node's inputs, in files by family as the table of operators has them.
"""

from __future__ import annotations

from . import formulas, movement, norms, places, products, reductions, windows
from .reverse import with_gradients
from .rule import RULES

__all__ = ["RULES", "with_gradients"]

FAMILIES = (formulas, movement, norms, places, products, reductions, windows)
"""Importing them fills the rules."""
