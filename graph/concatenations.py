"""Concatenations that need no kernel: their parts are written where they are to lie.

    a = conv(x, u)                     whole: a | b | c, one place in the arena
    b = conv(x, v)              →      a, b and c are written into it by the kernels that make them
    c = max_pool(x)
    whole = concat(a, b, c, axis=1)

Nothing is between the parts, so that these are whole pieces of memory: the extents before the axis are 1.
"""

from __future__ import annotations

from math import prod

from .node import Node, Parts
from .types import TensorType, array_dtype

__all__ = ["find_joined_parts"]

_LEAST = 4096
"""Bytes of a part from which on a copy costs more than the call of a kernel of its own."""


def find_joined_parts(g: Parts) -> dict[str, tuple[str, int]]:
    """The parts that are written in place: by name, the value that they are a part of, and how many elements of it lie before."""
    types = g.types
    makers = {name: node.operator for node in g.nodes for name in node.outputs}
    computed = makers.keys() - set(g.results.values())
    found: dict[str, tuple[str, int]] = {}
    for node in () if g.state else g.nodes:
        if not _is_row(node, types) or len({*node.inputs}) < len(node.inputs):
            continue
        if all(
            name in computed and name not in found and _bytes(types[name]) >= _LEAST for name in node.inputs
        ) and not all(makers[name] in ("slice", "split") for name in node.inputs):  # else one copy does it
            at = 0
            for name in node.inputs:
                found[name] = node.outputs[0], at
                at += _elements(types[name])
    return found


def _is_row(node: Node, types: dict[str, TensorType]) -> bool:
    """Return whether a node puts values behind each other in memory."""
    if node.operator != "concat" or not all(types[name].is_static for name in node.inputs):
        return False
    axis, shape = node.attributes["axis"], types[node.outputs[0]].shape
    return isinstance(axis, int) and all(extent == 1 for extent in shape[: axis % len(shape)])


def _elements(kind: TensorType) -> int:
    return prod(map(int, kind.shape))


def _bytes(kind: TensorType) -> int:
    return _elements(kind) * array_dtype(kind.dtype).itemsize
