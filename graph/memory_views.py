"""Slices and reshapes that need no kernel: who reads them reads the memory of the whole, from an offset on.

    h = matmul(x, w)                           h: float32[1, 9]
    a = slice(h, begin=(0,), end=(4,))   →     no kernel: a is h's memory, and b is h's from its fifth element on
    b = slice(h, begin=(4,), end=(9,))

They are whole pieces of memory: the extents before the axis are 1. What is read once, of what nobody else reads, is left to the
kernel that it is read in, or made in, and so is what is no whole piece: a slice among the nodes of a kernel is read where it lies.
A reshape that only kernels read which take in nothing before them is none in any case: what is before it stores its values once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from math import prod
from typing import Any, cast

from .concatenations import find_joined_parts
from .kernels import is_heavy
from .node import Node, Parts
from .types import TensorType

__all__ = ["Homes", "find_views", "find_placements"]


Homes = dict[str, tuple[str, int]]
"""By the names of values, those in whose memory they lie, and how many elements of it lie before."""


def find_views(g: Parts) -> Homes:
    """The values that are a piece of another one's memory."""
    types = g.types
    uses = Counter(name for node in g.nodes for name in set(node.inputs) if name)
    results = set(g.results.values())
    given = g.inputs.keys() - g.state.keys()
    computed = {name for node in g.nodes for name in node.outputs}
    parts = find_joined_parts(g)
    inside = {name for node in g.nodes if not is_heavy(node) for name in node.inputs}
    """What is read in kernels that take in the nodes before."""
    found: Homes = {}
    for node in g.nodes:
        name = node.outputs[0]
        if node.operator not in ("slice", "reshape") or name in results or name in parts:
            continue
        whole = node.inputs[0]
        at = 0 if node.operator == "reshape" else _offset(node, types[whole])
        apart = max(uses[whole], uses[name]) > 1 or node.operator == "reshape" and name not in inside
        if at is not None and (whole in given or whole in computed and apart):
            found[name] = whole, at
    return found


def find_placements(g: Parts, made: Collection[str] = ()) -> Homes:
    """The values that lie in another one's memory, as pieces of it or as parts that are joined: by name, that other one, which lies
    in none itself, and how many elements of it lie before. made: what kernels give, which is no piece of anything."""
    near = {**{name: home for name, home in find_views(g).items() if name not in made}, **find_joined_parts(g)}
    found: Homes = {}
    for name in near:
        home, at = name, 0
        while home in near:
            home, more = near[home]
            at += more
        found[name] = home, at
    return found


def _offset(node: Node, kind: TensorType) -> int | None:
    """Return the number of elements that lie before a slice; None where it is not a whole piece."""
    begin, end, step, axes = (
        cast("tuple[Any, ...]", node.attributes[name]) for name in ("begin", "end", "step", "axes")
    )
    if not kind.is_static or not node.types[0].is_static or not all(isinstance(one, int) for one in (*begin, *end)):
        return None
    shape = cast("tuple[int, ...]", kind.shape)
    ranges = [range(extent) for extent in shape]
    for low, high, by, axis in zip(begin, end, step, axes, strict=True):
        ranges[axis] = ranges[axis][slice(low, high, by)]
    partly = [axis for axis, one in enumerate(ranges) if one != range(shape[axis])]
    last = max(partly, default=0)
    if any(not one for one in ranges) or ranges[last].step != 1 or any(len(one) > 1 for one in ranges[:last]):
        return None
    return sum(one[0] * prod(shape[axis + 1 :]) for axis, one in enumerate(ranges))
