"""Transposes and reshapes moved behind the operators after them, where they meet others and cancel, and into products.

    input x: float32[2, 3, 4]
    a: float32[4, 2, 3] = transpose(x, axes=(2, 0, 1))
    b: float32[4, 2, 3] = relu(a)
    y: float32[2, 3, 4] = transpose(b, axes=(1, 2, 0))
    output y

becomes

    input x: float32[2, 3, 4]
    v2: float32[2, 3, 4] = relu(x)
    b: float32[4, 2, 3] = transpose(v2, axes=(2, 0, 1))
    y: float32[2, 3, 4] = transpose(b, axes=(1, 2, 0))
    output y

of which `moves` leaves the relu. A value that somebody else reads too stays where it is. Sums keep their order, and so their
bits: transposes do not move behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ..node import Node, Parts
from ..operators import row_of
from .moves import transpose_axes
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["SINKS"]

_BY_CHANNEL = frozenset(("batch_norm",))
"""Elementwise, but for one dimension that means something."""


def _rewrite_elementwise(r: Rewriter, node: Node) -> str | None:
    if node.operator in _BY_CHANNEL or len(node.outputs) != 1:
        return None
    rank = len(node.types[0].shape)
    moved = [name for name in node.inputs if name and not r.is_known(name)]
    if not moved or any(r.type(name).shape != node.types[0].shape for name in moved):
        return None
    transposes = [below for name in moved if (below := r.sole(name, "transpose")) is not None]
    if len(transposes) == len(moved) and len({transpose_axes(below) for below in transposes}) == 1:
        axes = transpose_axes(transposes[0])
        back = tuple(int(axis) for axis in np.argsort(axes))
        inputs = [_known_moved(r, name, rank, back) if name not in moved else _source(r, name) for name in node.inputs]
        value = r.like(node, *inputs)
        return r.node("transpose", value, outputs=node.outputs, axes=axes)
    reshapes = [below for name in moved if (below := r.sole(name, "reshape")) is not None]
    sources = {r.type(below.inputs[0]).shape for below in reshapes}
    numbers = [r.known(name) for name in node.inputs if name and name not in moved]
    if (
        len(reshapes) == len(moved)
        and len(sources) == 1
        and all(number.size == 1 and number.ndim <= len(next(iter(sources))) for number in numbers)
    ):
        inputs = [_source(r, name) if name in moved else name for name in node.inputs]
        value = r.like(node, *inputs)
        return r.node("reshape", value, outputs=node.outputs, shape=node.types[0].shape)
    return None


def _source(r: Rewriter, name: str) -> str:
    return r.makers[name].inputs[0]


def _known_moved(r: Rewriter, name: str, rank: int, back: Sequence[int]) -> str:
    """A parameter as it is needed before a transpose."""
    if not name or r.known(name).size == 1:
        return name
    data = r.known(name)
    return r.constant(data.reshape((1,) * (rank - data.ndim) + data.shape).transpose(tuple(back)))


def _rewrite_softmax(r: Rewriter, node: Node) -> str | None:
    """Move a reshape behind a softmax over the last dimension, which the reshape keeps."""
    below = r.sole(node.inputs[0], "reshape")
    shape = node.types[0].shape
    if below is None or cast("int", node.attributes["axis"]) % len(shape) != len(shape) - 1:
        return None
    source = r.type(below.inputs[0]).shape
    if not source or source[-1] != shape[-1] or shape[-1] in (0, 1):
        return None
    value = r.node(node.operator, below.inputs[0], axis=-1)
    return r.node("reshape", value, outputs=node.outputs, shape=shape)


def _rewrite_extreme(r: Rewriter, node: Node) -> str | None:
    """Move a transposition behind a reduction whose result depends on no order: greatest, least, all and any."""
    below = r.sole(node.inputs[0], "transpose")
    if below is None:
        return None
    order = transpose_axes(below)
    axes = tuple(sorted(order[axis] for axis in cast("tuple[int, ...]", node.attributes["axes"])))
    keepdims = bool(node.attributes["keepdims"])
    value = r.node(node.operator, below.inputs[0], axes=axes, keepdims=keepdims)
    if keepdims:
        return r.node("transpose", value, outputs=node.outputs, axes=order)
    left = [axis for axis in order if axis not in axes]
    return r.node("transpose", value, outputs=node.outputs, axes=tuple(sorted(left).index(axis) for axis in left))


def _rewrite_concat(r: Rewriter, node: Node) -> str | None:
    parts = [r.sole(name, "transpose") for name in dict.fromkeys(node.inputs)]
    orders = {transpose_axes(part) for part in parts if part is not None}
    if None in parts or len(orders) != 1:
        return None
    order = orders.pop()
    axis = cast("int", node.attributes["axis"]) % len(order)
    value = r.node("concat", *(_source(r, name) for name in node.inputs), axis=order[axis])
    return r.node("transpose", value, outputs=node.outputs, axes=order)


def _pad(r: Rewriter, node: Node) -> str | None:
    below = r.sole(node.inputs[0], "transpose")
    if below is None:
        return None
    order = transpose_axes(below)
    back = [order.index(axis) for axis in range(len(order))]
    before, after = (
        tuple(cast("tuple[int, ...]", node.attributes[name])[axis] for axis in back) for name in ("before", "after")
    )
    padded = r.like(node, below.inputs[0], before=before, after=after)
    return r.node("transpose", padded, outputs=node.outputs, axes=order)


def _rewrite_max_pool(r: Rewriter, node: Node) -> str | None:
    """Rewrite a max pool of channels that lie last, which the pool then takes for a dimension of its windows, of extent 1."""
    below = r.sole(node.inputs[0], "transpose")
    rank = len(node.types[0].shape) - 2
    if below is None or transpose_axes(below) != (0, rank + 1, *range(1, rank + 1)) or not 1 <= rank <= 2:
        return None
    source, kernel = r.type(below.inputs[0]).shape, cast("tuple[int, ...]", node.attributes["kernel"])
    stride, dilation = (
        cast("tuple[int, ...]", node.attributes[name]) or (1,) * rank for name in ("stride", "dilation")
    )
    padding = cast("tuple[int, ...]", node.attributes["padding"]) or (0,) * 2 * rank
    apart = r.node("reshape", below.inputs[0], shape=(source[0], 1, *source[1:]))
    value = r.like(
        node,
        apart,
        kernel=(*kernel, 1),
        stride=(*stride, 1),
        dilation=(*dilation, 1),
        padding=(*padding[:rank], 0, *padding[rank:], 0),
    )
    shape = r.type(value).shape
    together = r.node("reshape", value, shape=(shape[0], *shape[2:]))
    return r.node("transpose", together, outputs=node.outputs, axes=transpose_axes(below))


def _rewrite_matmul(r: Rewriter, node: Node) -> str | None:
    """A product takes the last two dimensions of its operands in either order."""
    flips: dict[str, Any] = {}
    inputs: list[str] = []
    for name, flag in zip(node.inputs, ("transpose_a", "transpose_b"), strict=True):
        below = r.sole(name, "transpose")
        order = transpose_axes(below) if below is not None else ()
        if (
            below is None
            or len(order) < 2
            or order[-2] < order[-1]
            or len(r.type(node.inputs[0]).shape) < 2
            or len(r.type(node.inputs[1]).shape) < 2
        ):
            inputs.append(name)
            continue
        flips[flag] = not node.attributes[flag]
        inputs.append(r.node("transpose", below.inputs[0], axes=(*order[:-2], order[-1], order[-2])))
    return r.like(node, *inputs, outputs=node.outputs, **flips) if flips else None


_VISITS: dict[str, Callable[[Rewriter, Node], str | None]] = {
    "softmax": _rewrite_softmax,
    "log_softmax": _rewrite_softmax,
    "max": _rewrite_extreme,
    "min": _rewrite_extreme,
    "all": _rewrite_extreme,
    "any": _rewrite_extreme,
    "concat": _rewrite_concat,
    "pad": _pad,
    "pad_with": _pad,
    "matmul": _rewrite_matmul,
    "max_pool": _rewrite_max_pool,
}


def _sink_node(r: Rewriter, node: Node) -> str | None:
    if node.operator in _VISITS:
        return _VISITS[node.operator](r, node)
    return _rewrite_elementwise(r, node) if not node.bodies and row_of(node.operator).fusion == "elementwise" else None


def _sink_transposes(g: Parts) -> Parts:
    return rewrite(g, _sink_node)


SINKS = GraphPass(
    "sinks",
    "transposes and reshapes move behind what follows them, where they cancel",
    "exact",
    _sink_transposes,
    __doc__,
)
