"""Splits as slices, each of which is read where it lies by the kernel that needs it.

    input x: float32[2, 5]
    a: float32[2, 2], b: float32[2, 3] = split(x, sizes=(2, 3), axis=1)
    y: float32[2, 2] = relu(a)
    z: float32[2, 3] = exp(b)
    output y
    output z

becomes

    input x: float32[2, 5]
    a: float32[2, 2] = slice(x, begin=(0,), end=(2,), step=(1,), axes=(1,))
    b: float32[2, 3] = slice(x, begin=(2,), end=(5,), step=(1,), axes=(1,))
    y: float32[2, 2] = relu(a)
    z: float32[2, 3] = exp(b)
    output y
    output z

A split is a kernel that copies all of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import cast

from ..node import Node, Parts
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["SPLITS"]


def _split(r: Rewriter, node: Node) -> Sequence[str] | None:
    sizes = node.attributes.get("sizes", ())
    if node.operator != "split" or not all(isinstance(size, int) for size in cast("tuple[object, ...]", sizes)):
        return None
    ends = list(accumulate(cast("tuple[int, ...]", sizes)))
    return [
        r.node(
            "slice",
            node.inputs[0],
            outputs=(name,),
            source=node.source,
            begin=(begin,),
            end=(end,),
            step=(1,),
            axes=(node.attributes["axis"],),
        )
        for name, begin, end in zip(node.outputs, (0, *ends), ends, strict=False)
    ]


def _split_nodes(g: Parts) -> Parts:
    return rewrite(g, _split)


SPLITS = GraphPass("splits", "parts are read where they lie, not copied", "exact", _split_nodes, __doc__)
