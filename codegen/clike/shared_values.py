"""Values that an expression has in several places. C writes an expression out as a tree: a chain of inlined stages whose
steps share their parts is a small graph and a text without end, unless what is shared gets a name."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Broadcast, Expr, IfThenElse, Let, Ramp, children, post_order

__all__ = ["WRITTEN_OUT", "find_repeated", "shared_values", "written_size"]

# short texts are easier to read when they are written out
WRITTEN_OUT = 2000
"""Nodes up to which an expression is written out, whatever it shares."""


def written_size(expr: Expr, known: dict[int, int]) -> int:
    """Return the number of nodes that the text of `expr` would have. known: sizes found before, by identity."""
    for node in post_order(expr, done=known):  # operands come first, so that their sizes are there
        known[id(node)] = 1 + sum(known[id(child)] for child in children(node))
    return known[id(expr)]


def find_repeated(roots: Sequence[Expr]) -> frozenset[int]:
    """Return the values that stand in several places of `roots` and are worth a name, by identity."""
    uses: dict[int, int] = {}
    nodes = list(post_order(*roots))
    for node in nodes:
        for child in children(node):
            uses[id(child)] = uses.get(id(child), 0) + 1  # by identity: equal texts elsewhere may be of other values
    return frozenset(id(node) for node in nodes if uses.get(id(node), 0) > 1 and _worth_a_name(node))


def shared_values(roots: Sequence[Expr]) -> list[Expr]:
    """Return the values that stand in several places of `roots` and are sure to be evaluated, or safe to be, in one of
    them, operands first.
    """
    several = find_repeated(roots)
    # operands of conditions that may not be evaluated stay where they are
    return [node for node in post_order(*roots, below=_sure_operands) if id(node) in several]


def _worth_a_name(node: Expr) -> bool:
    """Neither a leaf, nor lanes of another value, nor a pointer, which C writes where it is passed."""
    return bool(children(node)) and not isinstance(node, (Broadcast, Ramp)) and node.dtype.kind != "handle"


def _sure_operands(node: Expr) -> Sequence[Expr]:
    """The operands that are evaluated wherever the node is: not the branches of a condition, nor what names a let's value."""
    if isinstance(node, IfThenElse):
        return [node.condition]
    if isinstance(node, Let):
        return [node.value]
    return children(node)
