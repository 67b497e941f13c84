"""tvm.tir.stmt_functor: walking, rewriting and substituting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir import Expr, Node, Var, expr, ops, stmt, visit
from ...ir.transform import transform
from .nodes import theirs

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "substitute"]

_THEIRS: dict[str, type] = {
    "IfThenElse": stmt.If,
    "AttrStmt": stmt.Attr,
    "AssertStmt": stmt.Assert,
    "SeqStmt": stmt.Seq,
    "Mod": expr.TruncMod,
    "Store": stmt.BufferStore,
    "Load": expr.BufferLoad,
}
"""Nodes that have another name here."""


def post_order_visit(stmt: Node, fvisit: Callable[[Any], object]) -> None:
    """fvisit of every node, each after those below it."""
    for node in visit.post_order(theirs(stmt)):
        fvisit(node)


def pre_order_visit(stmt: Node, fvisit: Callable[[Any], object]) -> None:
    """fvisit of every node, each before those below it; those below are left out where it returns False."""
    stack = [theirs(stmt)]
    while stack:
        node = stack.pop()
        if fvisit(node) is not False:
            stack.extend(reversed(visit.children(node)))


def ir_transform(
    stmt: Node,
    preorder: Callable[[Any], Node | None] | None,
    postorder: Callable[[Any], Node | None] | None,
    only_enable: Sequence[str] | None = None,
) -> Any:
    """The statement rewritten. preorder: what it returns stands in a node's place as it is, None goes on below.
    postorder: sees a node over its rewritten children, None keeps it. only_enable: the nodes that they see, by name
    ("tir.For")."""
    return theirs(
        transform(theirs(stmt), preorder, postorder, tuple(map(_node, only_enable)) if only_enable else (Node,))
    )


def _node(name: str) -> type:
    plain = name.rpartition(".")[2]
    node = _THEIRS.get(plain) or getattr(stmt, plain, None) or getattr(expr, plain, None)
    if not isinstance(node, type):
        raise ValueError(f"there is no kind of node {name!r}")
    return node


def substitute(node: Node, vmap: Mapping[Var, Expr]) -> Any:
    """The node with variables replaced, by expressions or numbers."""
    return theirs(visit.substitute(node, {var: ops.cast(ops.convert(value), var.dtype) for var, value in vmap.items()}))
