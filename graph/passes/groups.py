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
    y: float32[2, 5] = fused(x, w, b, body="relu(add(matmul(x0, x1), x2))", sizes=())
    output y

The groups are those of `partition.py`, by which tw.build cuts a graph anyway: this pass shows them, and counts what runs. Nodes that
not all sizes fit stay as they are, since what is asked of sizes is asked of nodes.
"""

from __future__ import annotations

from ..kernels import Step
from ..node import Node, Parts
from ..operators.fusion import body_text
from ..operators.row import Attribute
from ..partition import cut_graph
from ..size_conditions import fits_always
from ..types import TensorType
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["GROUPS"]

_MOST_CHARACTERS = 4000


def _form_groups(g: Parts) -> Parts:
    types = g.types
    # a single node is a kernel already
    whole = {step.outputs[0]: step for step in cut_graph(g) if len(step.nodes) > 1 and _can_be_told(step, types)}

    def visit(r: Rewriter, node: Node) -> str | None:
        step = whole.get(node.outputs[0])
        if step is None:
            return None
        sizes = {
            size: at
            for at, size in enumerate(
                dict.fromkeys(  # in order of first appearance, each size once
                    size for one in step.nodes for value in one.attributes.values() for size in _open_sizes(value)
                )
            )
        }
        body = _body(step, sizes)
        if body is None:  # too long to write: a value read twice doubles the text
            return None
        # the user's lines of all nodes, each once
        source = " ".join(dict.fromkeys(one.source for one in step.nodes if one.source))
        return r.node(
            "fused",
            *map(r.present_name, step.inputs),
            outputs=node.outputs,
            source=source,
            body=body,
            sizes=tuple(sizes),
        )

    return rewrite(g, visit)


def _can_be_told(step: Step, types: dict[str, TensorType]) -> bool:
    return len(step.outputs) == 1 and all(node.operator != "fused" and fits_always(node, types) for node in step.nodes)


def _open_sizes(attribute: Attribute) -> list[str]:
    """The extents over symbols that an attribute holds."""
    if not isinstance(attribute, tuple):
        return []
    return [size for part in attribute for size in ([part] if isinstance(part, str) else _open_sizes(part))]


def _body(step: Step, sizes: dict[str, int]) -> str | None:
    """The expression of a step; None where it would be too long, as where values are read twice and twice again."""
    texts = {name: f"x{at}" for at, name in enumerate(step.inputs)} | {"": "None"}
    for node in step.nodes:
        text = body_text(node.operator, [texts[name] for name in node.inputs], node.attributes, sizes)
        if len(text) > _MOST_CHARACTERS:  # texts may double at each node
            return None
        texts[node.outputs[0]] = text
    return texts[step.outputs[0]]


GROUPS = GraphPass("groups", "the nodes that one kernel computes are one node", "exact", _form_groups, __doc__)
