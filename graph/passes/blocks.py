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
image, and transposed ones that do not overlap are convolutions of single places, whose results stand beside each other. Each row
says among its alternatives how its operator computes in blocks (topi/channel_blocks.py). Anything else needs a copy in the usual
order, and so a region of the graph is laid in blocks where the estimates of its kernels, of these copies among them, say that it
takes less time so. (Liu et al. 2019, Optimizing CNN Model Inference on CPUs, section 3.2, choose layouts so.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from numpy.typing import NDArray

from ...codegen.target import Target
from ...topi.channel_blocks import BLOCK, Layout, is_blockable
from ..kernels import Step, is_heavy
from ..node import Node, Parts
from ..operators import OPERATORS, row_of
from ..partition import time_ratio
from ..types import TensorType
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["BLOCKS", "target_blocks"]

LAYOUT = "blocks"
"""Its name among the alternatives of rows."""
_COPY = 1.25
"""Times as long as estimated may a kernel take that stores the usual order from blocks."""
_ALIKE = 1.1
"""The ratio of estimates up to which blocks are taken: they do not count that what follows element by element has whole vectors."""


def _layout(node: Node) -> Layout | None:
    """The alternative that the row of a node has; None where there is none."""
    found = None if node.bodies or len(node.outputs) != 1 else row_of(node.operator).alternatives.get(LAYOUT)
    return found if isinstance(found, Layout) else None


class _Examined:
    """A node as its row's alternative sees it. known: those of the values whose numbers are there; blocked: those that lie in blocks."""

    def __init__(
        self, node: Node, types: Mapping[str, TensorType], known: Callable[[str], bool], blocked: Collection[str]
    ) -> None:
        self.attributes, self.inputs, self.result = node.attributes, node.inputs, node.types[0].shape
        self._types, self._known, self._blocked = types, known, blocked

    def shape(self, name: str) -> tuple[Any, ...]:
        """The shape of a value in the usual order."""
        return self._types[name].shape

    def is_known(self, value: str) -> bool:
        """Return whether the numbers of a value are there."""
        return self._known(value)

    def is_laid(self, value: str) -> bool:
        """Return whether a value lies in blocks."""
        return value in self._blocked


class _Call(_Examined):
    """A node that is to be in blocks. blocked: by the names of values, those that are the same in blocks."""

    def __init__(self, r: Rewriter, node: Node, blocked: Mapping[str, str]) -> None:
        super().__init__(node, r.types, r.is_known, blocked)
        self._r, self._node, self._same = r, node, blocked

    def known(self, value: str) -> NDArray[Any]:
        """The numbers of a parameter."""
        return self._r.known(value)

    def blocked_value(self, value: str) -> str:
        """The value that is another one in blocks."""
        return self._same[value]

    def constant(self, value: Any) -> str:
        """A parameter of these numbers."""
        return self._r.constant(value)

    def laid_weights(self, shape: Sequence[int], function: Callable[..., NDArray[Any]], name: str, *more: int) -> str:
        """A parameter of this shape that a function makes of another one, of its dtype, when it is first read."""
        return self._r.computed(TensorType(tuple(shape), self._types[name].dtype), function, name, more=more)

    def make(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Make a node, without a name of an operator one like this node."""
        if operator:
            return self._r.node(operator, *inputs, **attributes)
        return self._r.like(self._node, *inputs, **attributes)


def _find_regions(g: Parts) -> list[set[str]]:
    """The values that can lie in blocks, region by region: what gains by it, and what is computed from that."""
    regions: list[set[str]] = []
    region_of: dict[str, set[str]] = {}
    gaining: set[str] = set()

    def is_known(name: str) -> bool:
        return name in g.constants and g.constants[name].numbers is not None

    for node in g.nodes:
        layout, kind = _layout(node), node.types[0]
        if layout is None or not is_blockable(kind.shape, kind.dtype):
            continue
        if not layout.fits(_Examined(node, g.types, is_known, region_of)):
            continue
        region = {node.outputs[0]}
        if layout.heavy:
            gaining |= region
        for name in node.inputs:
            if name in region_of and not region_of[name] <= region:  # a node that reads two regions joins them
                regions.remove(region_of[name])
                region |= region_of[name]
        region_of.update(dict.fromkeys(region, region))
        regions.append(region)
    return [region for region in regions if not gaining.isdisjoint(region)]


@cache
def _gaining_operators() -> frozenset[str]:
    """The operators for whose sake there are blocks, in either order."""
    layouts = {row.name: row.alternatives.get(LAYOUT) for row in OPERATORS.values()}
    return frozenset(
        each for name, one in layouts.items() if isinstance(one, Layout) and one.heavy for each in (name, *one.heavy)
    )


def _weigh(step: Step) -> float:
    """Weigh a kernel whose time depends on the layout: one for whose sake there are blocks, or that copies."""
    heavy = {node.operator for node in step.nodes if is_heavy(node)}
    copies = any(node.operator == "transpose" for node in step.nodes)
    # element-wise kernels take the same time in either order
    return (_COPY if copies else 1.0) if heavy & _gaining_operators() or copies and not heavy else 0.0


class _Blocks:
    """Make the nodes of those that are chosen."""

    def __init__(self, chosen: set[str]) -> None:
        self.chosen = chosen
        self.blocked: dict[str, str] = {}

    def __call__(self, r: Rewriter, node: Node) -> str | None:
        layout = _layout(node)
        if layout is None:
            return None
        call = _Call(r, node, self.blocked)
        if node.outputs[0] not in self.chosen:
            value = layout.flat(call)
            return None if value is None else _cut(r, value, node.types[0], node.outputs)
        made = self.blocked[node.outputs[0]] = layout.declare(call)
        # readers outside of the region get the usual order; unread, it is dropped
        if node.types[0].shape[2:] != (1, 1):  # an image of one place is in the usual order already
            made = r.node("transpose", made, axes=(0, 1, 4, 2, 3))
        return _cut(r, made, node.types[0], node.outputs)


def _cut(r: Rewriter, value: str, kind: TensorType, outputs: Sequence[str]) -> str:
    """Put the channels in one dimension, without what fills up their last block."""
    batch, channels, *size = kind.shape
    assert isinstance(channels, int), "what lies in blocks has known extents"
    filled = channels + -channels % BLOCK
    if filled == channels:
        return r.node("reshape", value, outputs=outputs, shape=kind.shape)
    whole = r.node("reshape", value, shape=(batch, filled, *size))
    # what fills the last block up is cut off
    return r.node("slice", whole, outputs=outputs, begin=(0,), end=(channels,), step=(1,), axes=(1,))


def _lay_out_blocks(g: Parts, target: Target) -> Parts:
    """Lay each region in blocks of which the kernels take less time so, the copies between layouts among them."""
    chosen: set[str] = set()
    regions = _find_regions(g)
    for region in regions:
        # both graphs are estimated whole, copies included
        laid = rewrite(g, _Blocks(region))
        if time_ratio(g, laid, target, _weigh) < _ALIKE:
            if len(regions) == 1:
                return laid
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
