"""Vertical fusion: the nodes that one kernel computes, as one node.

    input x: float32[2, 3]
    input w: float32[3, 5]
    param b: float32[5] = (1.0, 2.0, 3.0, 4.0, 5.0)
    a: float32[2, 5] = matmul(x, w, transpose_a=false, transpose_b=false)
    c: float32[2, 5] = add(a, b)
    y: float32[2, 5] = relu(c)
    output y

becomes

    input x: float32[2, 3]
    input w: float32[3, 5]
    param b: float32[5] = (1.0, 2.0, 3.0, 4.0, 5.0)
    y: float32[2, 5] = fused(x, w, b, body="relu(add(matmul(x0, x1), x2))")
    output y

The groups are those of `kernels.py`, by which tw.build cuts a graph anyway: this pass shows them, and counts what runs. Nodes with
symbols in their attributes stay as they are, since a body is a text.
"""

from __future__ import annotations

from typing import cast

from ..kernels import Step, steps_of
from ..node import Node, Parts
from ..operators.fused import body_text
from ..operators.row import Attribute
from .rewriter import Rewriter, rewritten
from .row import GraphPass

__all__ = ["GROUPS"]

_MOST_CHARACTERS = 4000


def _groups(g: Parts) -> Parts:
    whole = {step.outputs[0]: step for step in steps_of(g) if len(step.nodes) > 1 and _can_be_told(step)}

    def visit(r: Rewriter, node: Node) -> str | None:
        step = whole.get(node.outputs[0])
        body = _body(step) if step is not None else None
        if step is None or body is None:
            return None
        source = " ".join(dict.fromkeys(one.source for one in step.nodes if one.source))
        return r.node("fused", *map(r.now, step.inputs), outputs=node.outputs, source=source, body=body)

    return rewritten(g, visit)


def _can_be_told(step: Step) -> bool:
    return len(step.outputs) == 1 and not any(
        node.operator == "fused" or any(map(_has_symbols, node.attributes.values())) for node in step.nodes)


def _has_symbols(attribute: Attribute) -> bool:
    """Whether an attribute holds extents that are texts."""
    return isinstance(attribute, tuple) and any(isinstance(part, str) or _has_symbols(part) for part in cast(
        "tuple[Attribute, ...]", attribute))


def _body(step: Step) -> str | None:
    """The expression of a step; None where it would be too long, as where values are read twice and twice again."""
    texts = {name: f"x{at}" for at, name in enumerate(step.inputs)} | {"": "None"}
    for node in step.nodes:
        text = body_text(node.operator, [texts[name] for name in node.inputs], node.attributes)
        if len(text) > _MOST_CHARACTERS:
            return None
        texts[node.outputs[0]] = text
    return texts[step.outputs[0]]


GROUPS = GraphPass("groups", "the nodes that one kernel computes are one node", "exact", _groups, __doc__)
