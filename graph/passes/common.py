"""Equal nodes on equal values, and equal parameters: one of them serves for all.

    input x: float32[4]
    a: float32[4] = exp(x)
    b: float32[4] = exp(x)
    y: float32[4] = add(a, b)
    output y

becomes

    input x: float32[4]
    a: float32[4] = exp(x)
    y: float32[4] = add(a, a)
    output y
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..node import Node, Parts
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["COMMON"]


def _merge_common(g: Parts) -> Parts:
    first: dict[Any, Node] = {}
    params: dict[Any, str] = {}
    for name, held in g.constants.items():
        params.setdefault(held.digest, name)  # digests tell equal contents without comparing them
    same = {name: params[held.digest] for name, held in g.constants.items() if params[held.digest] != name}
    if same:  # names are replaced first, so that nodes on equal parameters are seen as equal
        nodes = tuple(replace(node, inputs=tuple(same.get(name, name) for name in node.inputs)) for node in g.nodes)
        g = replace(
            g,
            nodes=nodes,
            results={name: same.get(value, value) for name, value in g.results.items()},
            constants={name: held for name, held in g.constants.items() if name not in same},
        )

    def visit(_: Rewriter, node: Node) -> tuple[str, ...] | None:
        if node.bodies:
            return None  # bodies are graphs, which are not compared
        # repr, as attributes may hold lists
        earlier = first.setdefault((node.operator, node.inputs, repr(sorted(node.attributes.items()))), node)
        return None if earlier is node else earlier.outputs

    return rewrite(g, visit)


COMMON = GraphPass("common", "merge nodes that compute the same, and equal parameters", "exact", _merge_common, __doc__)
