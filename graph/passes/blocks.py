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
streams; else vectors are turned, and each channel is a stream. Depthwise convolutions have whole vectors whatever the size of the
image, and transposed ones that do not overlap are convolutions of single places, whose results stand beside each other. What
follows element by element, pools, means over the image and concatenations do as well with blocks. The last block is filled up
where that costs little; what is in it is read by nobody who sums over channels. Convolutions read what is not in blocks too, as
blocks of one channel; anything else needs a copy in the usual order, and so a region of the graph is laid in blocks where the
estimates of its kernels, of these copies among them, say that it takes less time so. (Liu et al. 2019, Optimizing CNN Model
Inference on CPUs, section 3.2, choose layouts so.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...codegen.target import Target
from ..kernels import Step, is_heavy
from ..node import Node, Parts
from ..operators import row_of
from ..partition import time_ratio
from ..types import TensorType
from .rewriter import Rewriter, rewrite
from .row import GraphPass

__all__ = ["BLOCKS", "target_blocks"]

BLOCK = 16
"""Channels of a block: a cache line of float32."""
PART = 8
"""What the channels of a value are a multiple of: the part of a block by which they are summed where the last one is filled up."""
MOST = 1.34
"""How many times its channels a value may have once its last block is filled up."""
_COPY = 1.25
"""Times as long as estimated may a kernel take that stores the usual order from blocks."""
_ALIKE = 1.1
"""The ratio of estimates up to which blocks are taken: they do not count that what follows element by element has whole vectors."""
_CONVOLUTIONS = frozenset(("conv", "conv_transpose", "conv_in_blocks", "depthwise_in_blocks"))
_BY_CHANNEL = frozenset(("batch_norm",))
_IMAGE = (2, 3)


def _fits(kind: TensorType) -> bool:
    """Return whether a value can lie in blocks, the last of which may be filled up where that makes few channels more."""
    # a block is a cache line of float32
    if not kind.is_static or kind.dtype != "float32" or len(kind.shape) != 4:
        return False
    channels = cast("int", kind.shape[1])
    # channels are whole parts, and filling up adds at most a third
    return channels % PART == 0 and 0 < BLOCK * _block_count(channels) <= MOST * channels


def _block_count(channels: int) -> int:
    return -(-channels // BLOCK)


def _is_conv(node: Node, g: Parts, blocked: Collection[str]) -> bool:
    """Return whether a convolution can store blocks. blocked: the values that can lie in blocks."""
    if (
        node.operator not in ("conv", "conv_transpose")
        or not _fits(node.types[0])
        # weights that are arguments would have to be laid out in each call
        or not all(name in g.constants and g.constants[name].data is not None for name in node.inputs[1:] if name)
    ):
        return False
    if node.operator == "conv_transpose":
        return _has_disjoint_results(node, g)
    return (
        node.attributes["groups"] == 1
        or _is_depthwise(node, g.constants[node.inputs[1]].type)
        and node.inputs[0] in blocked  # a depthwise one reads one block, which has to lie so already
    )


def _is_depthwise(node: Node, weights: TensorType) -> bool:
    return node.attributes["groups"] == weights.shape[0] == node.types[0].shape[1] and weights.shape[1] == 1


def _has_disjoint_results(node: Node, g: Parts) -> bool:
    """Return whether each element of a transposed convolution's image makes results of its own, side by side."""
    reach = g.constants[node.inputs[1]].type.shape[2:]
    others = ("padding", "output_padding")
    return (
        node.attributes["groups"] == 1
        and (node.attributes["stride"] or (1, 1)) == reach
        and set(cast("tuple[int, ...]", node.attributes["dilation"])) <= {1}
        # neither padding nor overlap: results of a place are its own
        and not any(any(cast("tuple[int, ...]", node.attributes[name])) for name in others)
    )


def _is_channel_shape(shape: Sequence[object]) -> bool:
    """Return whether an array of this shape is one number for all, or one for each channel of an image."""
    whole = (*([1] * (4 - len(shape))), *shape)  # numpy's broadcasting, from the last dimension on
    return len(shape) <= 4 and whole[0] == 1 and whole[2:] == (1, 1)


def _keeps(node: Node, g: Parts, types: Mapping[str, TensorType], blocked: Mapping[str, object]) -> bool:
    """Return whether a node of values in blocks gives one."""
    kind = node.types[0]
    if node.bodies or len(node.outputs) != 1 or not _fits(kind):
        return False
    if node.operator in ("max_pool", "avg_pool"):
        return node.inputs[0] in blocked and len(cast("tuple[int, ...]", node.attributes["kernel"])) == 2
    if node.operator == "mean":
        return node.inputs[0] in blocked and _means_image(node) and bool(node.attributes["keepdims"])
    if node.operator == "concat":
        # only the last part may end within a block
        whole = all(cast("int", types[name].shape[1]) % BLOCK == 0 for name in node.inputs[:-1])
        return whole and cast("int", node.attributes["axis"]) % 4 == 1 and all(name in blocked for name in node.inputs)
    # batch_norm has its own parameters by channel
    if row_of(node.operator).fusion != "elementwise" or node.operator in _BY_CHANNEL:
        return False
    moved = [name for name in node.inputs if name and name not in g.constants]
    known = [types[name].shape for name in node.inputs if name in g.constants]
    return (
        any(types[name].shape == kind.shape and name in blocked for name in moved)
        and all(map(_is_channel_shape, known))
        # one number for each channel may be brought into blocks
        and all(name in blocked or types[name].shape == (*kind.shape[:2], 1, 1) for name in moved)
    )


def _means_image(node: Node) -> bool:
    return node.operator == "mean" and tuple(sorted(cast("tuple[int, ...]", node.attributes["axes"]))) == _IMAGE


def _find_regions(g: Parts) -> list[set[str]]:
    """The values that can lie in blocks, region by region: convolutions, and what is computed from them."""
    regions: list[set[str]] = []
    region_of: dict[str, set[str]] = {}
    convolved: set[str] = set()
    for node in g.nodes:
        conv = _is_conv(node, g, region_of)
        if not conv and not _keeps(node, g, g.types, region_of):
            continue
        region = {node.outputs[0]}
        if conv:
            convolved |= region
        for name in node.inputs:
            if name in region_of and not region_of[name] <= region:  # a node that reads two regions joins them
                regions.remove(region_of[name])
                region |= region_of[name]
        region_of.update(dict.fromkeys(region, region))
        regions.append(region)
    # without a convolution blocks gain nothing
    return [region for region in regions if not convolved.isdisjoint(region)]


def _weigh(step: Step) -> float:
    """Weigh a kernel whose time depends on the layout: one that convolves, or that copies."""
    heavy = {node.operator for node in step.nodes if is_heavy(node)}
    copies = any(node.operator == "transpose" for node in step.nodes)
    # element-wise kernels take the same time in either order
    return (_COPY if copies else 1.0) if heavy & _CONVOLUTIONS or copies and not heavy else 0.0


class _Blocks:
    """Make the nodes. blocked: by the names of values, those that are the same in blocks."""

    def __init__(self, chosen: set[str]) -> None:
        self.chosen = chosen
        self.blocked: dict[str, str] = {}

    def __call__(self, r: Rewriter, node: Node) -> str | None:
        if node.outputs[0] in self.chosen:
            made = {"conv": self._conv, "conv_transpose": self._convert_disjoint}.get(node.operator, self._same)(
                r, node
            )
            self.blocked[node.outputs[0]] = made
            # readers outside of the region get the usual order; unread, it is dropped
            return self._plain(r, made, node.types[0], node.outputs)
        if _means_image(node) and node.inputs[0] in self.blocked and not node.attributes["keepdims"]:
            means = r.like(node, self.blocked[node.inputs[0]], axes=_IMAGE)
            return self._cut(r, means, node.types[0], node.outputs)
        return None

    def _plain(self, r: Rewriter, value: str, kind: TensorType, outputs: Sequence[str]) -> str:
        """In the usual order, for those who need it."""
        if kind.shape[2:] != (1, 1):  # an image of one place is in the usual order already
            value = r.node("transpose", value, axes=(0, 1, 4, 2, 3))
        return self._cut(r, value, kind, outputs)

    def _cut(self, r: Rewriter, value: str, kind: TensorType, outputs: Sequence[str]) -> str:
        """With the channels in one dimension, without what fills up their last block."""
        batch, channels, *size = kind.shape
        filled = BLOCK * _block_count(cast("int", channels))
        if filled == channels:
            return r.node("reshape", value, outputs=outputs, shape=kind.shape)
        whole = r.node("reshape", value, shape=(batch, filled, *size))
        # what fills the last block up is cut off
        return r.node("slice", whole, outputs=outputs, begin=(0,), end=(channels,), step=(1,), axes=(1,))

    def _pack(self, r: Rewriter, name: str) -> str:
        """A value in blocks: one that lies so, or one for each channel."""
        if name in self.blocked:
            return self.blocked[name]
        batch, channels, *_ = cast("tuple[int, ...]", r.type(name).shape)
        more = -channels % BLOCK
        # zeros: what is added to or multiplied with them stays finite
        filled = r.node("pad", name, before=(0, 0, 0, 0), after=(0, more, 0, 0), value=0.0) if more else name
        return r.node("reshape", filled, shape=(batch, _block_count(channels), 1, 1, BLOCK))

    def _conv(self, r: Rewriter, node: Node) -> str:
        weights = r.known(node.inputs[1])
        attributes: dict[str, Any] = {name: node.attributes[name] for name in ("stride", "padding", "dilation")}
        if node.attributes["groups"] != 1:
            # (channels, 1, KH, KW) becomes blocks of windows
            turned = _pad_channels(weights[:, 0], 0).reshape(-1, BLOCK, *weights.shape[2:]).transpose(0, 2, 3, 1)
            value = r.node("depthwise_in_blocks", self.blocked[node.inputs[0]], r.constant(turned), **attributes)
        else:
            value = self._convolve(r, node.inputs[0], _pad_channels(weights, 0), attributes)
        return self._add_bias(r, node, value, 1)

    def _convolve(self, r: Rewriter, x: str, weights: NDArray[Any], attributes: dict[str, Any]) -> str:
        """The convolution with weights (O, C, KH, KW), O being whole blocks."""
        outputs, inputs, high, wide = weights.shape
        # without blocks of its own the image is read as blocks of one channel
        block = (BLOCK if inputs % BLOCK == 0 else PART) if x in self.blocked else 1
        turned = weights.reshape(outputs // BLOCK, BLOCK, inputs // block, block, high, wide).transpose(
            0, 2, 4, 5, 3, 1
        )
        image = self.blocked[x] if x in self.blocked else r.node("reshape", x, shape=(*r.type(x).shape, 1))
        return r.node("conv_in_blocks", image, r.constant(np.ascontiguousarray(turned)), **attributes)

    def _add_bias(self, r: Rewriter, node: Node, value: str, times: int) -> str:
        """With its bias, each block of which serves so many of the value's."""
        if len(node.inputs) < 3 or not node.inputs[2]:
            return value
        bias = _pad_channels(r.known(node.inputs[2]), 0).reshape(1, -1, 1, 1, BLOCK)
        # each place's results have the bias of their channel
        return r.node("add", value, r.constant(np.repeat(bias, times, 1)))

    def _convert_disjoint(self, r: Rewriter, node: Node) -> str:
        """A transposed convolution whose results do not overlap: the convolution of each place, and its results side by side."""
        weights = _pad_channels(r.known(node.inputs[1]), 1)
        inputs, outputs, high, wide = weights.shape
        parts = weights.reshape(inputs, outputs // BLOCK, BLOCK, high, wide).transpose(1, 3, 4, 2, 0)
        value = self._convolve(r, node.inputs[0], parts.reshape(-1, inputs, 1, 1), {})
        batch, _, rows, columns, block = cast("tuple[int, ...]", r.type(value).shape)
        value = r.node(
            "reshape",
            self._add_bias(r, node, value, high * wide),
            shape=(batch, outputs // BLOCK, high, wide, rows, columns, block),
        )
        # places and their results are interleaved along each side
        value = r.node("transpose", value, axes=(0, 1, 4, 2, 5, 3, 6))
        return r.node("reshape", value, shape=(batch, outputs // BLOCK, rows * high, columns * wide, block))

    def _same(self, r: Rewriter, node: Node) -> str:
        if node.operator in ("max_pool", "avg_pool"):
            return self._pool(r, node)
        if node.operator == "mean":
            return r.like(node, self.blocked[node.inputs[0]], axes=_IMAGE)
        if node.operator == "concat":
            return r.like(node, *(self.blocked[name] for name in node.inputs), axis=1)
        return r.like(
            node,
            *(
                "" if not name else self._pack_constant(r, r.known(name)) if r.is_known(name) else self._pack(r, name)
                for name in node.inputs
            ),
        )

    def _pool(self, r: Rewriter, node: Node) -> str:
        """Over three dimensions, the last of which is the block, along which windows have the extent 1."""
        kernel, stride, dilation = (
            cast("tuple[int, ...]", node.attributes[name]) or (1, 1) for name in ("kernel", "stride", "dilation")
        )
        # an empty tuple is the default, no padding
        padding = cast("tuple[int, ...]", node.attributes["padding"]) or (0,) * 4
        return r.like(
            node,
            self.blocked[node.inputs[0]],
            kernel=(*kernel, 1),
            stride=(*stride, 1),
            dilation=(*dilation, 1),
            padding=(*padding[:2], 0, *padding[2:], 0),
        )

    def _pack_constant(self, r: Rewriter, array: NDArray[Any]) -> str:
        """A number for all, or one for each channel."""
        if array.size == 1:
            return r.constant(array.reshape(()))  # one number for all needs no blocks
        return r.constant(_pad_channels(array.reshape(-1), 0).reshape(1, -1, 1, 1, BLOCK))


def _pad_channels(array: NDArray[Any], axis: int) -> NDArray[Any]:
    """An array whose channels, along an axis, are filled up with zeros to whole blocks."""
    more = [(0, -extent % BLOCK if at == axis else 0) for at, extent in enumerate(array.shape)]
    return np.pad(array, more) if any(after for _, after in more) else array


def _lay_out_blocks(g: Parts, target: Target) -> Parts:
    """Lay each region in blocks of which the kernels take less time so, the copies between layouts among them."""
    chosen: set[str] = set()
    for region in _find_regions(g):
        # both graphs are estimated whole, copies included
        if time_ratio(g, rewrite(g, _Blocks(region)), target, _weigh) < _ALIKE:
            chosen |= region
    return rewrite(g, _Blocks(chosen)) if chosen else g


def target_blocks(target: Target) -> GraphPass:
    """The pass for a processor."""
    return replace(BLOCKS, apply=partial(_lay_out_blocks, target=target))


BLOCKS = GraphPass(
    "blocks",
    "channels lie in blocks of a cache line between convolutions",
    "rounds",
    partial(_lay_out_blocks, target=Target()),
    __doc__,
    late=True,
)
