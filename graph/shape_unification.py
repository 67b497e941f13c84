"""Extents of an operator's inputs that must be equal: what is written otherwise over symbols is then taken for the simplest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .types import Extent

__all__ = ["agreeing", "complexity"]

Shape = tuple[Extent, ...]
Shapes = Sequence["Shape | None"]
"""Of the inputs, None where one is absent."""


class Places(NamedTuple):
    """Axes of inputs, as pairs of which input and which axis of it, whose extents are one; or 1, where inputs broadcast there."""

    axes: Sequence[tuple[int, int]]
    broadcast: bool = False


def agreeing(operator: str, fusion: str, attributes: Mapping[str, Any], shapes: Shapes) -> list[Shape | None] | None:
    """Shapes for the inputs of an operator in which those extents that have to be one are one: the simplest of them, a number where
    there is one. None where that changes nothing."""
    rule = _RULES.get(operator) or (align_shapes if fusion == "elementwise" else None)
    if rule is None:
        return None
    result = [None if shape is None else list(shape) for shape in shapes]
    for places in rule(attributes, shapes):
        own = {(at, axis): shape[axis] for at, axis in places.axes if (shape := result[at]) is not None}
        simple = [extent for extent in own.values() if not places.broadcast or extent != 1]
        for (at, axis), extent in own.items():
            if isinstance(extent, str) and (shape := result[at]) is not None:
                shape[axis] = min(simple, key=complexity)
    made = [None if shape is None else tuple(shape) for shape in result]
    return None if made == list(shapes) else made


def complexity(extent: Extent) -> tuple[bool, int, str]:
    """Return the freedom that an extent leaves open: numbers less than texts, short texts less than long ones."""
    return isinstance(extent, str), len(str(extent)), str(extent)


def align_shapes(_: Mapping[str, Any], shapes: Shapes, broadcast: bool = True) -> list[Places]:
    """Align as numpy aligns shapes: by their last axes."""
    rank = max((len(shape) for shape in shapes if shape is not None), default=0)
    return [
        Places(
            [
                (at, axis - rank + len(shape))
                for at, shape in enumerate(shapes)
                if shape is not None and axis - rank + len(shape) >= 0
            ],
            broadcast,
        )
        for axis in range(rank)
    ]


def match_axes(attributes: Mapping[str, Any], shapes: Shapes) -> list[Places]:
    return align_shapes(attributes, shapes, broadcast=False)


def match_other_axes(attributes: Mapping[str, Any], shapes: Shapes) -> list[Places]:
    every = match_axes(attributes, shapes)
    return [places for axis, places in enumerate(every) if axis != attributes["axis"] % len(every)]


def _channels(_: Mapping[str, Any], shapes: Shapes) -> list[Places]:
    """Axis 1 of the first, and what has an element for each of its channels."""
    first, *rest = shapes
    if first is None or len(first) < 2:
        return []
    return [Places([(0, 1), *((at, 0) for at, shape in enumerate(rest, 1) if shape is not None and len(shape) == 1)])]


def _matmul(attributes: Mapping[str, Any], shapes: Shapes) -> list[Places]:
    a, b = shapes[:2]
    if not a or not b:
        return []
    deep = -2 if attributes.get("transpose_a") else -1, -1 if attributes.get("transpose_b") else -2
    depth = [
        (at, len(shape) + axis if len(shape) > 1 else 0)
        for at, (shape, axis) in enumerate(zip((a, b), deep, strict=True))
    ]
    return [Places(depth), *align_shapes(attributes, [a[:-2], b[:-2]])]


def _attention(_: Mapping[str, Any], shapes: Shapes) -> list[Places]:
    q, k, v = shapes[:3]
    if q is None or k is None or v is None or not len(q) == len(k) == len(v) > 2:
        return []
    last = len(q) - 1
    parts = [
        Places([(0, last), (1, last)]),
        Places([(1, last - 1), (2, last - 1)]),
        Places([(1, last - 2), (2, last - 2)]),
    ]
    return parts if last < 3 else [*parts, Places([(0, 0), (1, 0), (2, 0)])]


def _einsum(attributes: Mapping[str, Any], shapes: Shapes) -> list[Places]:
    terms = attributes["equation"].replace(" ", "").partition("->")[0].split(",")
    if "..." in attributes["equation"] or len(terms) != len(shapes):
        return []
    letters: dict[str, list[tuple[int, int]]] = {}
    for at, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        for axis, letter in enumerate(term[: len(shape or ())]):
            letters.setdefault(letter, []).append((at, axis))
    diagonals = [
        Places(own)
        for axes in letters.values()
        for at in range(len(terms))
        if len(own := [one for one in axes if one[0] == at]) > 1
    ]
    return [*diagonals, *(Places(axes, broadcast=True) for axes in letters.values())]


_RULES: dict[str, Callable[[Mapping[str, Any], Shapes], list[Places]]] = {
    "attention": _attention,
    "batch_norm": _channels,
    "concat": match_other_axes,
    "einsum": _einsum,
    "group_norm": _channels,
    "instance_norm": _channels,
    "integer_matmul": _matmul,
    "layer_norm": align_shapes,
    "matmul": _matmul,
    "rms_norm": align_shapes,
    "stack": match_axes,
}
"""Of operators that do not simply broadcast; those that do have none."""
