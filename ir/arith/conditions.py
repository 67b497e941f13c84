"""Logic and choices. What stands behind a condition is simplified with the condition known."""

from __future__ import annotations

from ..expr import And, BinaryOp, Broadcast, CompareOp, Expr, FloatImm, IfThenElse, IntImm, Not, Or, Select, Var
from ..ops import FALSE, TRUE
from .comparisons import negate
from .core import Simplifier
from .scope import READS

__all__ = ["choice", "logic", "negation"]

_CONTEXT_DEPTH = 6
"""Branches within branches whose conditions are used. Deeper ones are simplified without, since each use of a
condition starts from an empty memory of results."""
_READING_DEPTH = 2
"""The same for conditions that read memory: what they tell is of use to what reads the same element, hardly ever more, and a
chain of inlined stages that choose by their elements would be simplified once for each way through it."""
_PARTS_IN_CONTEXT = 8
_MOST_CONTEXTS = 256
"""Conditions, and what they come to together, under which one expression is simplified; beyond, without."""


def logic(simplifier: Simplifier, node: BinaryOp) -> Expr:
    """A chain of And (or Or): each part is simplified where the parts before it hold (or fail), duplicates go.

    Every part may be evaluated whatever the others say, so one that reads memory is simplified without: its indices
    have to stay good.
    """
    kind, neutral, absorbing = (And, TRUE, FALSE) if type(node) is And else (Or, FALSE, TRUE)
    parts = _chain(kind, node)
    if node.dtype.lanes > 1:
        return simplifier.operator(node)
    distinct: dict[Expr, None] = {}
    known, depth = simplifier.scope.known, simplifier.depth
    in_context = len(parts) <= _PARTS_IN_CONTEXT and depth < _CONTEXT_DEPTH
    try:
        for part in parts:
            apart = simplifier.scope.known is not known and bool(simplifier.scope.nodes.traits(part) & READS)
            simplified = simplifier.simplify_given(known, part) if apart else simplifier.visit(part)
            for inner in _chain(kind, simplified):
                if inner is absorbing and not simplifier.impure(node):
                    return absorbing
                if inner is neutral or (inner in distinct and not simplifier.impure(inner)):
                    continue
                distinct[inner] = None
                if in_context and len(parts) > 1:
                    simplifier.depth = depth + 1
                    simplifier.learn(inner, kind is And)
    finally:
        simplifier.scope.known, simplifier.depth = known, depth
    kept = _irredundant(simplifier, kind, list(distinct)) if in_context else list(distinct)
    return _join(simplifier, kind, kept, neutral)


def _irredundant(simplifier: Simplifier, kind: type[BinaryOp], parts: list[Expr]) -> list[Expr]:
    """The parts without those that later ones imply."""
    if len(parts) < 2 or not all(isinstance(part, CompareOp) for part in parts):
        return parts
    kept: list[Expr] = [parts[-1]]
    known, depth = simplifier.scope.known, simplifier.depth
    simplifier.depth = depth + 1
    try:
        for part in reversed(parts[:-1]):
            simplifier.learn(kept[-1], kind is And)
            simplified = simplifier.visit(part)
            if not isinstance(simplified, IntImm) or bool(simplified.value) != (kind is And):
                kept.append(part)
    finally:
        simplifier.scope.known, simplifier.depth = known, depth
    return kept[::-1]


def _join(simplifier: Simplifier, kind: type[BinaryOp], parts: list[Expr], neutral: Expr) -> Expr:
    """The chain of the parts, from left to right."""
    if not parts:
        return neutral
    result = parts[0]
    for part in parts[1:]:
        result = simplifier.apply_rules(simplifier.scope.nodes.make(kind, result, part))
    return result


def negation(simplifier: Simplifier, node: Not) -> Expr:
    """not x, with comparisons of integers turned round (those of floats are not: a NaN fails both)."""
    value = simplifier.visit(node.value)
    if isinstance(value, IntImm):
        return FALSE if value.value else TRUE
    if isinstance(value, CompareOp) and value.a.dtype.element.is_integer:
        return simplifier.visit(negate(simplifier.scope, value))
    return simplifier.apply_rules(simplifier.scope.nodes.make(Not, value))


def _chain(kind: type[BinaryOp], node: Expr) -> list[Expr]:
    """The operands of nested And (or Or), from left to right."""
    operands: list[Expr] = []
    stack = [node]
    while stack:
        inner = stack.pop()
        if type(inner) is kind:
            stack.append(inner.b)
            stack.append(inner.a)
        else:
            operands.append(inner)
    return operands


def choice(simplifier: Simplifier, node: Select | IfThenElse) -> Expr:
    """Select and IfThenElse."""
    condition = simplifier.visit(node.condition)
    if isinstance(condition, IntImm):
        return simplifier.visit(node.true_value if condition.value else node.false_value)
    if isinstance(condition, Broadcast) and isinstance(condition.value, IntImm):
        return simplifier.visit(node.true_value if condition.value.value else node.false_value)
    lazy = isinstance(node, IfThenElse)
    a = _simplify_given(simplifier, condition, node.true_value, True, lazy)
    b = _simplify_given(simplifier, condition, node.false_value, False, lazy)
    if a is b and not simplifier.impure(condition) and not simplifier.impure(a):
        return a
    return simplifier.apply_rules(simplifier.scope.nodes.make(type(node), condition, a, b))


def _simplify_given(simplifier: Simplifier, condition: Expr, node: Expr, holds: bool, lazy: bool) -> Expr:
    """`node` simplified where `condition` holds, or does not. Unless it is evaluated there alone (lazy), the indices
    of its loads must stay good elsewhere too, so it is simplified without."""
    traits = simplifier.scope.nodes.traits
    deepest = _READING_DEPTH if traits(condition) & READS else _CONTEXT_DEPTH
    if (
        simplifier.depth >= deepest
        or isinstance(node, Var | IntImm | FloatImm)
        or condition.dtype.lanes > 1
        or (not lazy and traits(node) & READS)
        or len(simplifier.scope.known.contexts) >= _MOST_CONTEXTS
    ):
        return simplifier.visit(node)
    with simplifier.assume(condition, holds):
        return simplifier.visit(node)
