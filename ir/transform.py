"""A rewrite by two functions, one on the way down and one on the way up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .expr import Node
from .visit import Rewriter, deep_recursion

__all__ = ["transform"]

Rule = Callable[[Any], Node | None]


def transform(node: Node, before: Rule | None, after: Rule | None, kinds: tuple[type, ...] = (Node,)) -> Any:
    """`node` rewritten. `before` sees each node of `kinds` ahead of those below it: what it returns stands in the node's
    place as it is, and None goes on below. `after` sees it over its rewritten children, and None keeps that."""
    with deep_recursion():
        return _Transform(before, after, kinds).visit(node)


class _Transform(Rewriter):
    def __init__(self, before: Rule | None, after: Rule | None, kinds: tuple[type, ...]) -> None:
        self.before, self.after, self.kinds = before, after, kinds

    def visit(self, node: Any) -> Any:
        if not isinstance(node, self.kinds):
            return self.generic(node)
        replacement = None if self.before is None else self.before(node)
        if replacement is not None:
            return replacement
        node = self.generic(node)
        replacement = None if self.after is None else self.after(node)
        return node if replacement is None else replacement
