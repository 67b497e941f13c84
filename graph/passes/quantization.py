"""Convolutions and products of what was dequantised, in whole numbers.

    input q: uint8[2, 3]
    param s: float32[] = (0.5)
    param z: uint8[] = (128)
    param w: int8[3, 2] = (1, 2, 3, 4, 5, 6)
    param t: float32[] = (0.25)
    param u: float32[] = (2.0)
    x: float32[2, 3] = dequantize(q, s, z, dtype="float32")
    v: float32[3, 2] = dequantize(w, t, dtype="float32")
    a: float32[2, 2] = matmul(x, v, transpose_a=false, transpose_b=false)
    b: float32[2, 2] = relu(a)
    y: uint8[2, 2] = quantize(b, u, z, dtype="uint8")
    output y

becomes

    input q: uint8[2, 3]
    param z: uint8[] = (128)
    param w: int8[3, 2] = (1, 2, 3, 4, 5, 6)
    param v14: float32[] = (0.0625)
    v8: int32[2, 2] = integer_matmul(q, w, z)
    v13: int32[2, 2] = relu(v8)
    y: uint8[2, 2] = requantize(v13, v14, z, dtype="uint8")
    output y

Sums of products of bytes are exact, and what a step of them is worth, s * t, is multiplied once: where a number is quantised
again at once, by s * t / u, as ONNX's QLinearConv and QLinearMatMul have it. The model as it is written rounds each product and
each sum in float32: bytes come out one step off where a value lies near a half, and with the bits of those operators. Biases
that are quantised by s * t are added as whole numbers. Products of two activations, as in attention, are found likewise; means are
sums of bytes, whose step is divided by their number. Poolings, and what moves elements, are done with bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..node import Node, Parts
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["QUANTIZED"]

_BYTES = ("int8", "uint8")
_MOVES = ("reshape", "transpose", "slice")
_SAME = 1e-5
"""How far, relatively, the scale of a bias may be from that of what it is added to: converters compute it in either order."""


_MOST_SUMMED = (1 << 31) // 255 - 1
"""So many bytes less their zero have a sum in int32."""  # so that 255 times as many stay below 2**31


def _visit(r: Rewriter, node: Node) -> str | None:
    visit = _VISITS.get(node.operator)
    return visit(r, node) if visit is not None else None


def _rewrite_conv(r: Rewriter, node: Node) -> str | None:
    x, w = (r.maker(name, "dequantize") for name in node.inputs[:2])
    # weights by output channel, activations by one scale
    if x is None or w is None or not _is_plain(r, x) or not _are_weights(r, w, 0):
        return None
    rank = len(node.types[0].shape)
    last = r.node("transpose", x.inputs[0], axes=(0, *range(2, rank), 1))  # the integer product wants channels last
    how: dict[str, Any] = {name: node.attributes[name] for name in ("stride", "padding", "dilation", "groups")}
    sums = r.node("integer_conv", last, w.inputs[0], _zero(r, x), _zero(r, w), **how)
    step = _step(r, x, w)
    if len(node.inputs) > 2:
        value = _add_bias(r, sums, step, node.inputs[2])
    else:
        value = _scale_sums(r, sums, step)
    # back to channels first, as readers expect
    return r.node("transpose", value, outputs=node.outputs, axes=(0, rank - 1, *range(1, rank - 1)))


def _rewrite_matmul(r: Rewriter, node: Node) -> str | None:
    x, w = (r.maker(name, "dequantize") for name in node.inputs)
    flipped = bool(node.attributes["transpose_b"])
    if x is None or w is None or node.attributes["transpose_a"] or len(x.types[0].shape) < 2 or not _is_plain(r, x):
        return None
    rank = len(w.types[0].shape)
    if not (
        _are_weights(r, w, 0 if flipped else 1)
        if rank == 2
        # both are activations: the batches have to be the same
        else _is_plain(r, w) and w.types[0].shape[:-2] == x.types[0].shape[:-2]
    ):
        return None
    # w is taken as (k, n)
    weights = r.node("transpose", w.inputs[0], axes=(*range(rank - 2), rank - 1, rank - 2)) if flipped else w.inputs[0]
    sums = r.node("integer_matmul", x.inputs[0], weights, _zero(r, x), _zero(r, w))
    return _scale_sums(r, sums, _step(r, x, w), node.outputs)


def _rewrite_mean(r: Rewriter, node: Node) -> str | None:
    """The mean of bytes: their sum in whole numbers, what a step of it is worth divided by their number."""
    x = r.maker(node.inputs[0], "dequantize")
    if x is None or not _is_plain(r, x):
        return None
    sums, count = _window_sums(r, node, x) if node.operator == "avg_pool" else _integer_sums(r, node, x)
    if not sums or not 0 < count <= _MOST_SUMMED:  # more elements could overflow int32
        return None
    # divided once, in float32, as a step
    step = np.asarray(r.known(x.inputs[1]).reshape(()) / np.float32(count), np.float32)
    if node.operator == "mean":
        return _scale_sums(r, sums, step, node.outputs)
    rank = len(node.types[0].shape)
    return r.node(
        "transpose", _scale_sums(r, sums, step), outputs=node.outputs, axes=(0, rank - 1, *range(1, rank - 1))
    )


def _window_sums(r: Rewriter, node: Node, x: Node) -> tuple[str, int]:
    """The sums of windows, channels last, and how many elements each has: a convolution of each channel with ones. Nothing where
    windows have other numbers of elements."""
    shape, kernel = x.types[0].shape, cast("tuple[int, ...]", node.attributes["kernel"])
    padded = any(cast("tuple[int, ...]", node.attributes["padding"]))
    # without counted padding windows differ in number at the borders
    if not isinstance(shape[1], int) or node.attributes["ceil_mode"] or padded and not node.attributes["count_padding"]:
        return "", 0
    rank = len(shape)
    last = r.node("transpose", x.inputs[0], axes=(0, *range(2, rank), 1))
    how: dict[str, Any] = {name: node.attributes[name] for name in ("stride", "padding", "dilation")}
    ones = r.constant(np.ones((shape[1], 1, *kernel), np.int8))  # a depthwise convolution with ones is a sum of windows
    return r.node("integer_conv", last, ones, _zero(r, x), groups=shape[1], **how), math.prod(kernel)


def _integer_sums(r: Rewriter, node: Node, x: Node) -> tuple[str, int]:
    """The sums along axes, and of how many elements each is. Nothing where that is not known."""
    shape, axes = x.types[0].shape, cast("tuple[int, ...]", node.attributes["axes"])
    extents = [shape[axis] for axis in axes]
    if not all(isinstance(extent, int) for extent in extents):
        return "", 0
    wide, zero = r.node("cast", x.inputs[0], dtype="int32"), _zero(r, x)
    # the zero is taken off before, as sums of bytes are exact
    moved = r.node("subtract", wide, r.constant(r.known(zero).astype(np.int32).reshape(()))) if zero else wide
    return r.node("sum", moved, axes=axes, keepdims=node.attributes["keepdims"]), math.prod(cast("list[int]", extents))


def _is_plain(r: Rewriter, node: Node) -> bool:
    """Return whether bytes were dequantised by one scale that is known."""
    known = [name for name in node.inputs[1:] if name]
    return (
        node.types[0].dtype == "float32"
        and r.type(node.inputs[0]).dtype in _BYTES
        and all(map(r.is_known, known))
        and all(r.known(name).size == 1 for name in known)  # one scale for the whole tensor
    )


def _are_weights(r: Rewriter, node: Node, channel: int) -> bool:
    """Return whether bytes were dequantised by scales that are known, one for all or one for each channel of this dimension."""
    shape = node.types[0].shape
    known = [name for name in node.inputs[1:] if name]
    return (
        node.types[0].dtype == "float32"
        and r.type(node.inputs[0]).dtype in _BYTES
        and all(map(r.is_known, known))
        and all(
            r.known(name).size == 1
            or r.known(name).shape
            # scales along the channel alone, as broadcast
            == tuple(extent if at == channel else 1 for at, extent in enumerate(shape))[
                len(shape) - r.known(name).ndim :
            ]
            for name in known
        )
    )


def _zero(r: Rewriter, node: Node) -> str:
    """The zero point of what was dequantised, one number or one dimension; none where it is 0."""
    # a zero of 0 needs no arithmetic
    if len(node.inputs) < 3 or not node.inputs[2] or not r.known(node.inputs[2]).any():
        return ""
    return r.constant(_flat(r.known(node.inputs[2])))


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(() if array.size == 1 else -1)


def _step(r: Rewriter, x: Node, w: Node) -> NDArray[Any]:
    """Return the worth of a step of sums, in float32."""
    # in float32, as the operators that this replaces
    return np.asarray(_flat(r.known(x.inputs[1])) * _flat(r.known(w.inputs[1])), np.float32)


def _scale_sums(r: Rewriter, sums: str, step: NDArray[Any], outputs: Sequence[str] = ()) -> str:
    return r.node("multiply", r.node("cast", sums, dtype="float32"), r.constant(step), outputs=outputs)


def _add_bias(r: Rewriter, sums: str, step: NDArray[Any], bias: str, outputs: Sequence[str] = ()) -> str:
    """Sums times their step, plus a bias along the last dimension: as whole numbers where it was quantised by that step."""
    b = r.maker(bias, "dequantize")
    if (
        b is not None
        and r.type(b.inputs[0]).dtype == "int32"
        and not _zero_of_bias(r, b)
        and r.is_known(b.inputs[1])
        # converters compute s * t in either order, which rounds differently
        and np.allclose(_flat(r.known(b.inputs[1])), step, rtol=_SAME, atol=0)
    ):
        return _scale_sums(r, r.node("add", sums, b.inputs[0]), step, outputs)
    return r.node("add", _scale_sums(r, sums, step), bias, outputs=outputs)


def _zero_of_bias(r: Rewriter, b: Node) -> bool:
    """Return whether a bias has a zero point other than 0."""
    # an unknown zero may be other than 0
    return len(b.inputs) > 2 and bool(b.inputs[2]) and (not r.is_known(b.inputs[2]) or bool(r.known(b.inputs[2]).any()))


def _add(r: Rewriter, node: Node) -> str | None:
    """A bias of a product."""
    for value, bias in (node.inputs, node.inputs[::-1]):  # either operand may be the bias
        found = _sums(r, value)
        b = r.maker(bias, "dequantize")
        if found is not None and b is not None and len(b.types[0].shape) == 1 and r.type(value) == node.types[0]:
            return _add_bias(r, *found, bias, node.outputs)
    return None


def _sums(r: Rewriter, value: str) -> tuple[str, NDArray[Any]] | None:
    """The sums that a value is, times a step that is known."""
    product = r.sole(value, "multiply")  # a step that is not known cannot be folded
    if product is None or not r.is_known(product.inputs[1]):
        return None
    whole = r.maker(product.inputs[0], "cast")
    if (
        whole is None
        or r.maker(whole.inputs[0], "add", "integer_conv", "integer_matmul", "sum") is None
        or r.type(whole.inputs[0]).dtype != "int32"  # a cast of other integers is no sum
    ):
        return None
    return whole.inputs[0], r.known(product.inputs[1])


def _quantize(r: Rewriter, node: Node) -> str | None:
    x, *how = node.inputs
    if not all(map(r.is_known, how)):
        return None
    below = r.maker(x, "dequantize")
    if (
        below is not None
        and r.type(below.inputs[0]) == node.types[0]  # quantising what was dequantised alike gives the bytes back
        and len(below.inputs) == len(node.inputs)
        and all(
            r.is_known(ours) and np.array_equal(r.known(ours), r.known(theirs))
            for ours, theirs in zip(below.inputs[1:], how, strict=True)
        )
        and (r.known(how[0]) > 0).all()  # a negative scale turns the order of bytes around
    ):
        return below.inputs[0]
    if (
        any(r.known(name).size != 1 for name in how)
        or node.types[0].dtype not in _BYTES
        or r.known(how[0]).reshape(()) <= 0
    ):
        return None
    return _requantize(r, node)


def _requantize(r: Rewriter, node: Node) -> str | None:
    """Sums that are quantised again, perhaps moved and cut off at 0 before that, by one factor."""
    value, between = node.inputs[0], list[Node]()
    while (found := _sums(r, value)) is None:  # through what may stand between, from the back to the front
        step = r.sole(value, "relu", "transpose", "reshape")
        if step is None:
            return None
        between.insert(0, step)
        value = step.inputs[0]
    sums, step = found
    scale = np.asarray(r.known(node.inputs[1]).reshape(()), np.float32)
    # a cut at 0 commutes with positive factors alone
    if any(one.operator == "relu" for one in between) and (step > 0).all():
        sums = r.node("relu", sums)
    elif any(one.operator == "relu" for one in between):
        return None
    moves = [one for one in between if one.operator != "relu"]
    zeros = (
        [r.constant(r.known(node.inputs[2]).reshape(()))]
        if len(node.inputs) > 2 and r.known(node.inputs[2]).any()
        else []
    )
    value = r.node(
        "requantize",
        sums,
        r.constant(np.asarray(step / scale, np.float32)),
        *zeros,
        dtype=node.types[0].dtype,
        outputs=() if moves else node.outputs,  # the last node of the chain has the old name
    )
    for one in moves:
        # moves are done with bytes, which are a quarter as large
        value = r.like(one, value, outputs=node.outputs if one is moves[-1] else ())
    return value


def _select_quantized(r: Rewriter, node: Node) -> str | None:
    """Apply an operator that selects elements to bytes, where a greater byte is a greater number."""
    below = r.maker(node.inputs[0], "dequantize")
    # a positive scale keeps the order, so that max may be taken of bytes
    if below is None or len(node.inputs) != 1 or not _is_plain(r, below) or r.known(below.inputs[1]).reshape(()) <= 0:
        return None
    how = [r.constant(r.known(name).reshape(())) if name else "" for name in below.inputs[1:]]
    return r.node("dequantize", r.like(node, below.inputs[0]), *how, outputs=node.outputs, dtype="float32")


_VISITS: dict[str, Callable[[Rewriter, Node], str | None]] = {
    "conv": _rewrite_conv,
    "matmul": _rewrite_matmul,
    "avg_pool": _rewrite_mean,
    "mean": _rewrite_mean,
    "add": _add,
    "quantize": _quantize,
    **dict.fromkeys((*_MOVES, "max_pool"), _select_quantized),
}


def quantize(g: Parts) -> Parts:
    return rewrite(g, _visit)


QUANTIZED = GraphPass(
    "quantized",
    "convolutions and products of dequantised bytes are done in whole numbers",
    "rounds",
    quantize,
    __doc__,
)
