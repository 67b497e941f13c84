"""Variables of lets: what was shared, and became several by what is known in each of its places, still goes by one name.

if_then_else(c, let(x: f(i) in x * x + min(i, 4)), ...)  and  ... let(x: f(i) in x * x + 4) ...    →    the second binds x_1
"""

from __future__ import annotations

from ...contents import contains
from ...expr import Let, Node, Var
from ...stmt import Stmt
from ...visit import distinct, rewrite
from .fresh_copy import Copier

__all__ = ["rename_lets"]


def rename_lets(body: Stmt) -> Stmt:
    """`body` with a name of its own for each let."""
    bound = [node.var for node in distinct(body) if isinstance(node, Let)] if contains(body, Let) else []
    if len(set(bound)) == len(bound):
        return body  # no let has a twin: nothing to rename
    seen: set[Var] = set()

    def rule(node: Node) -> Node | None:
        if not isinstance(node, Let) or node.var not in seen:
            if isinstance(node, Let):
                seen.add(node.var)
            return None
        var = Var(node.var.name, node.var.dtype)
        return Let(
            var, node.value, Copier({node.var: var}).visit(node.body)
        )  # lets within it have names of their own, too

    return rewrite(body, rule)
