"""tvm.tir.stmt_functor: walking and substituting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...ir import visit
from ...ir.expr import Expr, Node, Var

__all__ = ["post_order_visit", "pre_order_visit", "substitute"]


def post_order_visit(stmt: Node, fvisit: Callable[[Any], object]) -> None:
    """fvisit of every node, each after those below it."""
    for node in visit.post_order(stmt):
        fvisit(node)


def pre_order_visit(stmt: Node, fvisit: Callable[[Any], object]) -> None:
    """fvisit of every node, each before those below it; those below are left out where it returns False."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        if fvisit(node) is not False:
            stack.extend(reversed(visit.children(node)))


def substitute(node: Node, vmap: Mapping[Var, Expr]) -> Any:
    """The node with variables replaced."""
    return visit.substitute(node, vmap)
