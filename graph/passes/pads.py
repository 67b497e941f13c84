"""Padding that a convolution or a pooling can do itself.

    input x: float32[1, 2, 7]
    param w: float32[1, 2, 1] = (1.0, 2.0)
    a: float32[1, 2, 9] = pad(x, before=(0, 0, 1), after=(0, 0, 1), value=0.0)
    y: float32[1, 1, 9] = conv(a, w, stride=(), padding=(), dilation=(), groups=1)
    output y

becomes

    input x: float32[1, 2, 7]
    param w: float32[1, 2, 1] = (1.0, 2.0)
    y: float32[1, 1, 9] = conv(x, w, stride=(), padding=(1, 1), dilation=(), groups=1)
    output y

A convolution pads with zeros, a pooling for the greatest with what is less than everything; one for the mean counts its padding
only where it is told to.
"""

from __future__ import annotations

import math
from typing import cast

from ..node import Node
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["PADS"]


def _fold(r: Rewriter, node: Node) -> str | None:
    value = {"conv": 0.0, "avg_pool": 0.0, "max_pool": -math.inf}.get(node.operator)
    pad = r.maker(node.inputs[0], "pad") if value is not None else None
    if pad is None or pad.attributes["value"] != value:
        return None
    if node.operator == "avg_pool" and not (node.attributes["count_padding"] and not node.attributes["ceil_mode"]):
        return None
    if "float" not in node.types[0].dtype:
        return None
    before, after = (cast("tuple[int, ...]", pad.attributes[name]) for name in ("before", "after"))
    if any((*before[:2], *after[:2])) or min(*before, *after) < 0:
        return None
    rank = len(before) - 2
    old = cast("tuple[int, ...]", node.attributes["padding"]) or (0,) * 2 * rank
    padding = tuple(one + more for one, more in zip(old, (*before[2:], *after[2:]), strict=True))
    return r.like(node, pad.inputs[0], *node.inputs[1:], outputs=node.outputs, padding=padding)


PADS = GraphPass(
    "pads",
    "padding is done by the convolution or the pooling behind it",
    "exact",
    lambda g: rewrite(g, _fold),
    __doc__,
)
