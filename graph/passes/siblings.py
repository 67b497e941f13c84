"""Products, and convolutions, of one value by several small weights, done as one by all of them.

    input x: float32[2, 2]
    param w: float32[2, 1] = (1.0, 2.0)
    param u: float32[2, 2] = (3.0, 4.0, 5.0, 6.0)
    a: float32[2, 1] = matmul(x, w, transpose_a=false, transpose_b=false)
    y: float32[2, 2] = matmul(x, u, transpose_a=false, transpose_b=false)
    output a
    output y

becomes

    input x: float32[2, 2]
    param v3: float32[2, 3] = (1.0, 3.0, 4.0, 2.0, 5.0, 6.0)
    v4: float32[2, 3] = matmul(x, v3, transpose_a=false, transpose_b=false)
    a: float32[2, 1] = slice(v4, begin=(0,), end=(1,), step=(1,), axes=(1,))
    y: float32[2, 2] = slice(v4, begin=(1,), end=(3,), step=(1,), axes=(1,))
    output a
    output y

Large ones are fast by themselves, and taking their results apart would cost more than it saves: only those are joined that have
less than 64 columns, or channels, each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..node import Node, Parts
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["SIBLINGS"]

_MOST_COLUMNS = 64


def _merge_siblings(g: Parts) -> Parts:
    families: dict[Any, list[Node]] = {}
    for node in g.nodes:
        key = _sibling_key(g, node)
        if key is not None:
            families.setdefault(key, []).append(node)
    family_of = {node.outputs[0]: family for family in families.values() if len(family) > 1 for node in family}
    joined: dict[str, str] = {}

    def visit(r: Rewriter, node: Node) -> str | None:
        family = family_of.get(node.outputs[0])
        if family is not None and node.outputs[0] not in joined:
            joined.update(_join_siblings(r, node, family))
        return joined.get(node.outputs[0])

    return rewrite(g, visit)


def _sibling_key(g: Parts, node: Node) -> Any:
    """Return the common property of siblings; None for a node that is none."""
    if node.operator not in ("matmul", "conv") or not all(name in g.constants for name in node.inputs[1:]):
        return None
    weights = [g.constants[name] for name in node.inputs[1:]]
    if any(held.numbers is None for held in weights) or len(weights[0].type.shape) < 2:
        return None
    shape = tuple(map(int, weights[0].type.shape))
    attributes = repr(sorted(node.attributes.items()))
    if node.operator == "conv":
        grouped = node.attributes["groups"] != 1 or shape[0] >= _MOST_COLUMNS
        return None if grouped else ("conv", node.inputs[0], attributes, shape[1:], len(weights), weights[0].type.dtype)
    flipped = bool(node.attributes["transpose_b"])
    if len(shape) != 2 or shape[0 if flipped else 1] >= _MOST_COLUMNS or len(node.types[0].shape) < 2:
        return None
    return "matmul", node.inputs[0], attributes, shape[1 if flipped else 0], weights[0].type.dtype


def _join_siblings(r: Rewriter, first: Node, family: Sequence[Node]) -> dict[str, str]:
    """One node for all of a family, and the part of its result that each of them is."""
    x, conv = first.inputs[0], first.operator == "conv"
    along = 0 if conv or first.attributes["transpose_b"] else 1
    weights = r.constant(np.concatenate([r.known(node.inputs[1]) for node in family], along))
    biases = [r.constant(np.concatenate([r.known(node.inputs[2]) for node in family]))] if len(first.inputs) > 2 else []
    whole = r.like(first, x, weights, *biases)
    axis = 1 if conv else len(first.types[0].shape) - 1
    parts: dict[str, str] = {}
    begin = 0
    for node in family:
        end = begin + int(node.types[0].shape[axis])
        name = node.outputs[0]
        parts[name] = r.node(
            "slice", whole, outputs=(name,), source=node.source, begin=(begin,), end=(end,), step=(1,), axes=(axis,)
        )
        begin = end
    return parts


SIBLINGS = GraphPass(
    "siblings", "small products and convolutions of one value are done as one", "exact", _merge_siblings, __doc__
)
