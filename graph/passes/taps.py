"""Taps of convolutions that reach nothing but padding.

    input x: float32[1, 1, 2]
    param w: float32[1, 1, 3] = (1.0, 2.0, 3.0)
    y: float32[1, 1, 2] = conv(x, w, stride=(1,), padding=(4, 4), dilation=(4,), groups=1)
    output y

becomes

    input x: float32[1, 1, 2]
    param v2: float32[1, 1, 1] = (2.0)
    y: float32[1, 1, 2] = conv(x, v2, stride=(1,), padding=(0, 0), dilation=(1,), groups=1)
    output y

Networks that look at an image in several dilations, as those that tell the objects of a picture apart, are run on images whose
features are smaller than the largest of them. Infinite weights times zeros are not numbers, so that those stay; a zero may have
another sign.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from ..node import Node
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["TAPS"]


def _reachable_taps(extent: int, before: int, after: int, taps: int, stride: int, dilation: int) -> tuple[int, int]:
    """The first tap that reads an element along an axis of the image, and one more than the last; all of them where none does."""
    outputs = (before + extent + after - (taps - 1) * dilation - 1) // stride + 1
    found: list[int] = []
    for tap in range(taps):
        begin = tap * dilation - before
        first = max(-(begin // stride), 0)  # the first output at which it is not before the image
        if first < outputs and begin + first * stride < extent:
            found.append(tap)
    return (found[0], found[-1] + 1) if found else (0, taps)


def _cut(r: Rewriter, node: Node) -> str | None:
    if node.operator != "conv" or not r.is_known(node.inputs[1]) or "float" not in node.types[0].dtype:
        return None
    sizes, window = r.type(node.inputs[0]).shape[2:], cast("tuple[int, ...]", r.type(node.inputs[1]).shape)[2:]
    rank = len(sizes)
    stride, dilation, padding = (
        cast("tuple[int, ...]", node.attributes[name]) or (usual,) * many
        for name, usual, many in (("stride", 1, rank), ("dilation", 1, rank), ("padding", 0, 2 * rank))
    )
    around, steps, kept = list(padding), list(dilation), [slice(None)] * 2
    for at, (size, taps) in enumerate(zip(sizes, window, strict=True)):
        begin, end = 0, taps
        if isinstance(size, int):
            begin, end = _reachable_taps(size, padding[at], padding[rank + at], taps, stride[at], dilation[at])
        before, after = padding[at] - begin * dilation[at], padding[rank + at] - (taps - end) * dilation[at]
        if before < 0 or after < 0:  # the image would have to be cut
            begin, end, before, after = 0, taps, padding[at], padding[rank + at]
        around[at], around[rank + at] = before, after
        steps[at] = 1 if end - begin == 1 else dilation[at]
        kept.append(slice(begin, end))
    if kept[2:] == [slice(0, taps) for taps in window]:
        return None
    weights = r.known(node.inputs[1])
    if not np.isfinite(weights).all():
        return None
    return r.like(
        node,
        node.inputs[0],
        r.constant(np.ascontiguousarray(weights[tuple(kept)])),
        *node.inputs[2:],
        outputs=node.outputs,
        padding=tuple(around),
        dilation=tuple(steps),
    )


TAPS = GraphPass(
    "taps", "convolutions lose taps that reach nothing but padding", "rounds", lambda g: rewrite(g, _cut), __doc__
)
"""Weights that are multiplied with zeros everywhere are not multiplied."""
