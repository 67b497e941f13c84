"""tvm.tir.analysis."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Expr, Function, Node, Var, equal, free_vars
from .nodes import ours

__all__ = ["expr_deep_equal", "undefined_vars"]


def expr_deep_equal(lhs: Expr, rhs: Expr) -> bool:
    """Return whether two expressions have the same form over the same variables."""
    return equal(ours(lhs), ours(rhs))


def undefined_vars(node: Node | Function, defs: Sequence[Var] = ()) -> list[Var]:
    """The variables that are read and not bound within, but for those in `defs`."""
    return [var for var in free_vars(ours(node)) if var not in defs]
