"""Gradients of graphs: reverse mode over nodes, a rule for each operator, and te.gradient where there is none.

A rule (rule.py) adds nodes for the gradient by each of a node's inputs, in files by family as the table of operators has them.
"""

from __future__ import annotations

from . import control, formulas, movement, norms, products, reductions, scatters, windows
from .reverse import with_gradients
from .rule import RULES
from .training import training_graph

__all__ = ["RULES", "training_graph", "with_gradients"]

FAMILIES = (control, formulas, movement, norms, scatters, products, reductions, windows)
"""Importing them fills the rules."""
