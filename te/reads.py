"""The reads that an element does whatever its conditions say."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.expr import And, Call, Expr, IfThenElse, LogicalOp, Node, ProducerLoad, Reduce, Select
from ..ir.ops import is_const
from ..ir.visit import children

__all__ = ["unguarded_loads"]


def unguarded_loads(value: Expr, layouts: bool = False) -> Iterator[ProducerLoad]:
    """The reads that happen for every element. layouts: guards of `likely` conditions, as the layouts of caches have them,
    do not count."""
    stack: list[Node] = [value]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (IfThenElse, Select)):
            stack.append(node.condition)
            if layouts and all(isinstance(part, Call) and part.name == "likely" for part in _conjuncts(node.condition)):
                stack.append(node.true_value)
        elif isinstance(node, Reduce) and not is_const(node.condition, 1):
            stack.extend((node.condition, *node.init))
        elif not isinstance(node, LogicalOp):
            if isinstance(node, ProducerLoad):
                yield node
            stack.extend(children(node))


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    stack = [condition]
    while stack:
        part = stack.pop()
        if isinstance(part, And):
            stack += [part.a, part.b]
        else:
            yield part
