"""Decision of conditions on the target's features.

    if target_has("avx512vnni"): S1        →      S1, or S2 where the target lacks it
    else: S2

It stands first: what is not chosen then costs no other pass anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...contents import contains
from ...expr import And, Call, Expr, IfThenElse, IntImm, Node, Not, Or, Select, StringImm
from ...ops import FALSE, TRUE, logical_and, logical_not, logical_or
from ...stmt import Function, If, Seq, Stmt
from ...visit import rewrite

__all__ = ["resolve_facts", "resolve_target"]

NodeT = TypeVar("NodeT", bound=Node)


def resolve_facts(function: Function, decide: Callable[[str], bool | None]) -> Function:
    """`function` with every target_has decided by `decide`, which gets its name; None leaves it open."""
    return function.with_body(resolve_target(function.body, decide))


def resolve_target(node: NodeT, decide: Callable[[str], bool | None]) -> NodeT:
    """See `resolve_facts`."""
    # a look costs less than a rewrite, and most programs ask nothing
    if not contains(node, "target_has"):
        return node

    def rule(inner: Node) -> Node | None:
        if isinstance(inner, Call) and inner.name == "target_has":
            name = inner.args[0]
            assert isinstance(name, StringImm)
            answer = decide(name.value)
            return None if answer is None else TRUE if answer else FALSE
        return _fold(inner)

    return rewrite(node, rule)


def _fold(node: Node) -> Node | None:
    """Fold a node with a decided condition."""
    if isinstance(node, If) and isinstance(node.condition, IntImm):
        chosen: Stmt | None = node.then_body if node.condition.value else node.else_body
        return Seq(()) if chosen is None else chosen  # an empty branch is dropped by the Seq around it
    if isinstance(node, (Select, IfThenElse)) and isinstance(node.condition, IntImm):
        return node.true_value if node.condition.value else node.false_value
    parts: list[Expr] = (
        [node.a, node.b] if isinstance(node, (And, Or)) else [node.value] if isinstance(node, Not) else []
    )
    if not any(isinstance(part, IntImm) for part in parts):
        return None
    if isinstance(node, Not):
        return logical_not(node.value)
    assert isinstance(node, (And, Or))
    return logical_and(node.a, node.b) if isinstance(node, And) else logical_or(node.a, node.b)
