"""Channels in blocks of a cache line, from convolution to convolution.

    input x: float32[1, 1, 2, 1]
    param w: float32[16, 1, 1, 1] = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0)
    a: float32[1, 16, 2, 1] = conv(x, w, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1)
    y: float32[1, 16] = mean(a, axes=(2, 3), keepdims=false)
    output y

becomes

    input x: float32[1, 1, 2, 1]
    param v3: float32[1, 1, 1, 1, 1, 16] = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0)
    v2: float32[1, 1, 2, 1, 1] = reshape(x, shape=(1, 1, 2, 1, 1))
    v4: float32[1, 1, 2, 1, 16] = conv_in_blocks(v2, v3, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1))
    v7: float32[1, 1, 16] = mean(v4, axes=(2, 3), keepdims=false)
    y: float32[1, 16] = reshape(v7, shape=(1, 16))
    output y

A convolution sums vectors of channels. Where a place's channels lie side by side it stores them as they are, and reads few
streams; else vectors are turned, and each channel is a stream. What follows element by element, pools, means over the image and
concatenations do as well with blocks. Convolutions read what is not in blocks too, as blocks of one channel; anything else needs
a copy in the usual order, and so a region of the graph is laid in blocks where its convolutions move several times what has to
be copied. (Liu et al. 2019, Optimizing CNN Model Inference on CPUs, section 3.2, choose layouts so.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..node import Node, Parts
from ..operators import row_of
from ..types import TensorType
from .rewriter import Rewriter, rewritten
from .row import GraphPass

__all__ = ["BLOCKS"]

BLOCK = 16
"""Channels of a block: a cache line of float32."""
GAIN = 4
"""How many times the bytes that are copied into the usual order its convolutions have to read and store in blocks."""
_BY_CHANNEL = frozenset(("batch_norm",))
_IMAGE = (2, 3)


def _fits(kind: TensorType) -> bool:
    """Whether a value can lie in blocks."""
    return kind.is_static and kind.dtype == "float32" and len(kind.shape) == 4 and cast("int", kind.shape[1]) % BLOCK == 0


def _is_conv(node: Node, g: Parts) -> bool:
    """Whether a convolution can store blocks."""
    if node.operator != "conv" or node.attributes["groups"] != 1 or not _fits(node.types[0]):
        return False
    return all(name in g.constants and g.constants[name].data is not None for name in node.inputs[1:])


def _by_channel(shape: Sequence[object]) -> bool:
    """Whether an array of this shape is one number for all, or one for each channel of an image."""
    whole = (*([1] * (4 - len(shape))), *shape)
    return len(shape) <= 4 and whole[0] == 1 and whole[2:] == (1, 1)


def _keeps(node: Node, g: Parts, types: Mapping[str, TensorType], blocked: Mapping[str, object]) -> bool:
    """Whether a node of values in blocks gives one."""
    kind = node.types[0]
    if node.bodies or len(node.outputs) != 1 or not _fits(kind):
        return False
    if node.operator in ("max_pool", "avg_pool"):
        return node.inputs[0] in blocked and len(cast("tuple[int, ...]", node.attributes["kernel"])) == 2
    if node.operator == "mean":
        return node.inputs[0] in blocked and _means_image(node) and bool(node.attributes["keepdims"])
    if node.operator == "concat":
        return cast("int", node.attributes["axis"]) % 4 == 1 and all(name in blocked for name in node.inputs)
    if row_of(node.operator).fusion != "elementwise" or node.operator in _BY_CHANNEL:
        return False
    moved = [name for name in node.inputs if name and name not in g.constants]
    known = [types[name].shape for name in node.inputs if name in g.constants]
    return (any(types[name].shape == kind.shape for name in moved) and all(map(_by_channel, known))
            and all(name in blocked for name in moved))


def _means_image(node: Node) -> bool:
    return node.operator == "mean" and tuple(sorted(cast("tuple[int, ...]", node.attributes["axes"]))) == _IMAGE


def _bytes(kind: TensorType) -> int:
    return 4 * prod(map(int, kind.shape))


def _chosen(g: Parts) -> set[str]:
    """The values that are to lie in blocks."""
    types = g.types
    region: dict[str, str] = {}
    """By the values that can, one of the same region."""

    def root(name: str) -> str:
        while region[name] != name:
            name = region[name]
        return name

    gain: dict[str, int] = defaultdict(int)
    for node in g.nodes:
        name = node.outputs[0]
        conv = _is_conv(node, g)
        if conv or _keeps(node, g, types, region):
            region[name] = name
            near = [each for each in node.inputs if each in region]
            for each in near:
                region[root(each)] = name
            gain[name] = (_bytes(types[name]) + sum(_bytes(types[each]) for each in near)) if conv else 0
    apart = set(g.results.values())
    for node in g.nodes:
        if node.outputs[0] not in region and not _means_image(node):
            apart.update(node.inputs)
    won: dict[str, int] = defaultdict(int)
    for name in region:
        shape = types[name].shape
        won[root(name)] += gain[name] - (GAIN * _bytes(types[name]) if name in apart and shape[2:] != (1, 1) else 0)
    return {name for name in region if won[root(name)] > 0}


class _Blocks:
    """Makes the nodes. blocked: by the names of values, those that are the same in blocks."""

    def __init__(self, chosen: set[str]) -> None:
        self.chosen = chosen
        self.blocked: dict[str, str] = {}

    def __call__(self, r: Rewriter, node: Node) -> str | None:
        if node.outputs[0] in self.chosen:
            made = self._conv(r, node) if node.operator == "conv" else self._same(r, node)
            self.blocked[node.outputs[0]] = made
            return self._plain(r, made, node.types[0], node.outputs)
        if _means_image(node) and node.inputs[0] in self.blocked and not node.attributes["keepdims"]:
            means = r.like(node, self.blocked[node.inputs[0]], axes=_IMAGE)
            return r.node("reshape", means, outputs=node.outputs, shape=node.types[0].shape)
        return None

    def _plain(self, r: Rewriter, value: str, kind: TensorType, outputs: Sequence[str]) -> str:
        """In the usual order, for those who need it."""
        if kind.shape[2:] != (1, 1):
            value = r.node("transpose", value, axes=(0, 1, 4, 2, 3))
        return r.node("reshape", value, outputs=outputs, shape=kind.shape)

    def _conv(self, r: Rewriter, node: Node) -> str:
        x, weights = node.inputs[0], r.known(node.inputs[1])
        outputs, inputs, high, wide = weights.shape
        block = BLOCK if x in self.blocked else 1
        if x not in self.blocked:
            shape = r.type(x).shape
            x = r.node("reshape", x, shape=(*shape, 1))
        turned = weights.reshape(outputs // BLOCK, BLOCK, inputs // block, block, high, wide).transpose(0, 2, 4, 5, 3, 1)
        attributes: dict[str, Any] = {name: node.attributes[name] for name in ("stride", "padding", "dilation")}
        value = r.node("conv_in_blocks", self.blocked.get(x, x), r.constant(np.ascontiguousarray(turned)), **attributes)
        if len(node.inputs) > 2 and node.inputs[2]:
            value = r.node("add", value, self._known(r, r.known(node.inputs[2]).reshape(1, -1, 1, 1)))
        return value

    def _same(self, r: Rewriter, node: Node) -> str:
        if node.operator in ("max_pool", "avg_pool"):
            return self._pool(r, node)
        if node.operator == "mean":
            return r.like(node, self.blocked[node.inputs[0]], axes=_IMAGE)
        if node.operator == "concat":
            return r.like(node, *(self.blocked[name] for name in node.inputs), axis=1)
        return r.like(node, *(self.blocked[name] if name in self.blocked else self._known(r, r.known(name)) if name else ""
                              for name in node.inputs))

    def _pool(self, r: Rewriter, node: Node) -> str:
        """Over three dimensions, the last of which is the block, along which windows have the extent 1."""
        kernel, stride, dilation = (cast("tuple[int, ...]", node.attributes[name]) or (1, 1)
                                    for name in ("kernel", "stride", "dilation"))
        padding = cast("tuple[int, ...]", node.attributes["padding"]) or (0,) * 4
        return r.like(node, self.blocked[node.inputs[0]], kernel=(*kernel, 1), stride=(*stride, 1), dilation=(*dilation, 1),
                      padding=(*padding[:2], 0, *padding[2:], 0))

    def _known(self, r: Rewriter, array: NDArray[Any]) -> str:
        """A number for all, or one for each channel."""
        if array.size == 1:
            return r.constant(array.reshape(()))
        return r.constant(array.reshape(1, -1, BLOCK, 1, 1).transpose(0, 1, 3, 4, 2))


def _blocks(g: Parts) -> Parts:
    chosen = _chosen(g)
    return rewritten(g, _Blocks(chosen)) if chosen else g


BLOCKS = GraphPass("blocks", "channels lie in blocks of a cache line between convolutions", "rounds", _blocks, __doc__, late=True)
