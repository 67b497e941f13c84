"""Gathers whose lanes are at constant places around one element: that many neighbours are loaded, and lanes picked.

    A[base + max(ramp(-5, 1, 64), 0)]        59 elements from A[base] on, and a shuffle: 0, 0, 0, 0, 0, 0, 1, 2, ...

Borders of images are such: what a clamped index reads where it is clamped in some lanes. A lane that a constant predicate leaves
out is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.dataclass import dataclass
from ...ir.expr import EQ, GE, GT, LE, LT, NE, Add, And, Broadcast, Cast, Expr, IntImm, Max, Min, Mul, Ramp, Sub
from ...ir.ops import const

__all__ = ["PickedLanes", "picked_lanes"]

_BINARY = (Add, Sub, Mul, Max, Min, LT, LE, GT, GE, EQ, NE, And)
_OPERATORS: tuple[Callable[[int, int], int], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    max,
    min,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a & b,
)
"""On numbers, in the same order."""


@dataclass(frozen=True, slots=True)
class PickedLanes:
    """Lanes picked from neighbours in memory.

    base: the first of `count` neighbours, as an index; lanes: which of them each lane is, `count` for one that is left out.
    """

    base: Expr
    count: int
    lanes: tuple[int, ...]


def picked_lanes(index: Expr, predicate: Expr | None) -> PickedLanes | None:
    """Find the lanes of a vector index; None where they are no constants beside what all of them have in common, or lie farther
    apart than a vector has lanes."""
    held = None if predicate is None else _constants(predicate)
    terms = _split(index)
    if terms is None or predicate is not None and held is None:
        return None
    uniform, offsets = terms
    active = [offset for at, offset in enumerate(offsets) if held is None or held[at]]
    if not active or max(active) - min(active) >= len(offsets):
        return None
    low, count = min(active), max(active) - min(active) + 1
    base: Expr = const(low, index.dtype.element)
    for term in uniform:
        base = Add(term, base)
    lanes = tuple(count if held is not None and not held[at] else offset - low for at, offset in enumerate(offsets))
    return PickedLanes(base, count, lanes)


def _split(index: Expr) -> tuple[list[Expr], Sequence[int]] | None:
    """The terms of a vector index that are the same in all lanes, as scalars, and the sum of the others by lane."""
    known = _constants(index)
    if known is not None:
        return [], known
    if isinstance(index, Broadcast):
        return [index.value], [0] * index.dtype.lanes
    if isinstance(index, Add):
        a, b = _split(index.a), _split(index.b)
        if a is None or b is None:
            return None
        return [*a[0], *b[0]], [x + y for x, y in zip(a[1], b[1], strict=True)]
    return None


def _constants(value: Expr) -> Sequence[int] | None:
    """The lanes of a vector of constants."""
    lanes = value.dtype.lanes
    if isinstance(value, Broadcast):
        return [value.value.value] * lanes if isinstance(value.value, IntImm) else None
    if isinstance(value, Ramp):
        if not isinstance(value.base, IntImm) or not isinstance(value.stride, IntImm):
            return None
        return [value.base.value + value.stride.value * at for at in range(lanes)]
    if isinstance(value, Cast):
        narrow = (
            value.value.dtype.kind != "int" or value.dtype.kind != "int" or value.dtype.bits < value.value.dtype.bits
        )
        return None if narrow else _constants(value.value)
    if not isinstance(value, _BINARY) or lanes == 1:
        return None
    a, b = _constants(value.a), _constants(value.b)
    if a is None or b is None:
        return None
    apply = _OPERATORS[_BINARY.index(type(value))]
    return [apply(x, y) for x, y in zip(a, b, strict=True)]
