"""Eager choices to lazy ones, where evaluating the side that is not chosen might load from outside a buffer.

    select(i >= 1, A[i - 1], 0.0)      →      if_then_else(i >= 1, A[i - 1], 0.0)

`te.select` may evaluate both sides, but what it pads must not be read out of range. Lowering ends with this, so that a
Select in the loop IR is always safe to evaluate whole.
"""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..expr import BufferLoad, Expr, IfThenElse, Node, Range, Select
from ..ops import logical_not
from ..stmt import For, Function, If, Stmt
from ..visit import Rewriter, children, post_order, rewrite
from .linear import Key, expr_key
from .simplify import analyzer_for
from .unsafe_select import in_range

__all__ = ["lazy_select"]


def lazy_select(function: Function) -> Function:
    """`function` with IfThenElse for each Select that might load out of range."""
    if not any(isinstance(node, Select) for node in post_order(function.body)):
        return function
    return function.with_body(_Lazy(analyzer_for(function)).visit(function.body))


class _Lazy(Rewriter):
    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def For(self, node: For) -> Stmt:
        self.analyzer.bind(node.var, Range(node.begin, node.extent))
        return self.generic(node)

    def If(self, node: If) -> Stmt:
        condition = self.visit(node.condition)
        with self.analyzer.constraint(condition):
            then_body = self.visit(node.then_body)
        else_body = None
        if node.else_body is not None:
            with self.analyzer.constraint(logical_not(condition)):
                else_body = self.visit(node.else_body)
        if condition is node.condition and then_body is node.then_body and else_body is node.else_body:
            return node
        return If(condition, then_body, else_body)

    def visit(self, node: Any) -> Any:
        return self._expr(node) if isinstance(node, Expr) else super().visit(node)

    def _expr(self, root: Expr) -> Expr:
        if not any(isinstance(node, Select) for node in post_order(root)):
            return root
        done = _sure_loads(root)

        def rule(node: Node) -> Expr | None:
            if isinstance(node, Select) and not (self._safe(node.true_value, done) and self._safe(node.false_value, done)):
                return IfThenElse(node.condition, node.true_value, node.false_value)
            return None

        return rewrite(root, rule)

    def _safe(self, side: Expr, done: set[Key]) -> bool:
        """Whether each load that evaluating the side does is one that is done anyway, or in range."""
        return all(expr_key(load) in done or in_range(self.analyzer, load) for load in _loads(side))


def _loads(root: Expr, select_is_lazy: bool = False) -> list[BufferLoad]:
    """The loads that evaluating `root` does whatever is chosen."""
    found: list[BufferLoad] = []
    stack: list[Node] = [root]
    met: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in met:
            continue
        met.add(id(node))
        if isinstance(node, BufferLoad):
            found.append(node)
        lazy = isinstance(node, IfThenElse) or (select_is_lazy and isinstance(node, Select))
        stack.extend([node.condition] if lazy else children(node))
    return found


def _sure_loads(root: Expr) -> set[Key]:
    return {expr_key(load) for load in _loads(root, select_is_lazy=True)}
