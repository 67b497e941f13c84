"""Removal of moves without effect, or that one move replaces: reshapes of reshapes, transposes of transposes, whole slices.

    input x: float32[2, 12]
    a: float32[6, 4] = reshape(x, shape=(6, 4))
    b: float32[4, 6] = transpose(a, axes=(1, 0))
    c: float32[6, 4] = transpose(b, axes=(1, 0))
    y: float32[24] = reshape(c, shape=(24,))
    output y

becomes

    input x: float32[2, 12]
    y: float32[24] = reshape(x, shape=(24,))
    output y
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ..node import Node, Parts
from ..types import Extent
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["MOVES"]


def _reshape(r: Rewriter, node: Node) -> str | None:
    (x,) = node.inputs
    below = r.maker(x, "reshape")
    if below is not None:
        source = below.inputs[0]
        if r.type(source) == node.types[0]:
            return source
        return r.node("reshape", source, outputs=node.outputs, shape=node.attributes["shape"])
    return x if r.type(x) == node.types[0] else None


def _transpose(r: Rewriter, node: Node) -> str | None:
    (x,) = node.inputs
    axes = transpose_axes(node)
    if axes == tuple(range(len(axes))):
        return x
    below = r.maker(x, "transpose")
    if below is not None:
        first = transpose_axes(below)
        both = tuple(first[axis] for axis in axes)
        if both == tuple(range(len(both))):
            return below.inputs[0]
        return r.node("transpose", below.inputs[0], outputs=node.outputs, axes=both)
    if _moves_ones_only(axes, r.type(x).shape):
        return r.node("reshape", x, outputs=node.outputs, shape=node.types[0].shape)
    return None


def transpose_axes(node: Node) -> tuple[int, ...]:
    """The order of a transpose, counted from the beginning."""
    axes = cast("tuple[int, ...]", node.attributes["axes"])
    return tuple(axis % len(axes) for axis in axes)


def _moves_ones_only(axes: Sequence[int], shape: Sequence[Extent]) -> bool:
    """Return whether the dimensions that have elements stay in their order."""
    kept = [axis for axis in axes if shape[axis] != 1]
    return kept == sorted(kept)


def _slice(r: Rewriter, node: Node) -> str | None:
    (x,) = node.inputs
    steps = cast("tuple[int, ...]", node.attributes["step"])
    return x if all(step == 1 for step in steps) and r.type(x) == node.types[0] and r.type(x).is_static else None


def _pad(r: Rewriter, node: Node) -> str | None:
    del r
    return None if any(cast("tuple[int, ...]", (*_tuple(node, "before"), *_tuple(node, "after")))) else node.inputs[0]


def _tuple(node: Node, name: str) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", node.attributes[name])


def _drop_identity(r: Rewriter, node: Node) -> str | None:
    return node.inputs[0] if r.type(node.inputs[0]) == node.types[0] else None


def _rewrite_concat(r: Rewriter, node: Node) -> str | None:
    """Rewrite a concatenation of one value, of concatenations along the same axis, and of all parts of one value in order."""
    axis = cast("int", node.attributes["axis"]) % len(node.types[0].shape)
    if len(node.inputs) == 1:
        return node.inputs[0]
    empty = [name for name in node.inputs if r.type(name).shape[axis] == 0]
    if empty and len(empty) < len(node.inputs):
        return r.node("concat", *(name for name in node.inputs if name not in empty), outputs=node.outputs, axis=axis)
    whole = r.maker(node.inputs[0], "split")
    if whole is not None and whole.outputs == node.inputs and _axis(whole, r) == axis:
        return whole.inputs[0]
    parts: list[str] = []
    for name in node.inputs:
        below = r.sole(name, "concat")
        joined = below is not None and _axis(below, r) == axis
        parts += below.inputs if below is not None and joined else [name]
    return r.node("concat", *parts, outputs=node.outputs, axis=axis) if len(parts) > len(node.inputs) else None


def _stack(r: Rewriter, node: Node) -> str | None:
    """Stack of one value, which has one more dimension then."""
    return (
        r.node("reshape", node.inputs[0], outputs=node.outputs, shape=node.types[0].shape)
        if len(node.inputs) == 1
        else None
    )


def _axis(node: Node, r: Rewriter) -> int:
    return cast("int", node.attributes["axis"]) % len(r.type(node.inputs[0]).shape)


def _split(r: Rewriter, node: Node) -> Sequence[str] | None:
    """Remove a split into one part, and one of what was just joined from these parts."""
    if len(node.outputs) == 1:
        return [node.inputs[0]]
    joined = r.maker(node.inputs[0], "concat")
    if (
        joined is not None
        and _axis(joined, r) == _axis(node, r)
        and [r.type(name) for name in joined.inputs] == list(node.types)
    ):
        return joined.inputs
    return None


def _take(r: Rewriter, node: Node) -> str | None:
    """One slice, or slices in a row, are a slice: nothing has to be looked up."""
    x, indices = node.inputs
    kind = r.type(x)
    axis = cast("int", node.attributes["axis"]) % len(kind.shape)
    extent = kind.shape[axis]
    if not r.is_known(indices) or not isinstance(extent, int) or r.known(indices).ndim > 1 or not r.known(indices).size:
        return None
    places = r.known(indices).astype(np.int64).reshape(-1)
    places = np.where(places < 0, places + extent, places)
    if places[0] < 0 or places[-1] >= extent or (np.diff(places) != 1).any():
        return None
    begin, end = int(places[0]), int(places[-1]) + 1
    if r.known(indices).ndim:
        return r.node("slice", x, outputs=node.outputs, begin=(begin,), end=(end,), step=(1,), axes=(axis,))
    part = r.node("slice", x, begin=(begin,), end=(end,), step=(1,), axes=(axis,)) if extent != 1 else x
    return r.node("reshape", part, outputs=node.outputs, shape=node.types[0].shape)


_VISITS: dict[str, Callable[[Rewriter, Node], str | Sequence[str] | None]] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "pad": _pad,
    "pad_with": _pad,
    "broadcast_to": _drop_identity,
    "tile": _drop_identity,
    "concat": _rewrite_concat,
    "stack": _stack,
    "split": _split,
    "take": _take,
}


def _simplify_moves(g: Parts) -> Parts:
    return rewrite(g, lambda r, node: _VISITS[node.operator](r, node) if node.operator in _VISITS else None)


MOVES = GraphPass(
    "moves", "drop moves that change nothing, and merge consecutive ones", "exact", _simplify_moves, __doc__
)
