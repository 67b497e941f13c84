"""ONNX's operators that choose: what is not zero, what a condition keeps, and boxes that do not overlap. How many they are is known
when the model runs: it is measured, and the rest done for that number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..boolean_masks import nonzero, select_positions, unique, unravel_positions
from ..conversion import Conversion, Refused, few, product
from ..subgraphs import InnerScope, emit_loop
from .context import Context, converts

__all__: list[str] = []

_MOST_BOXES = 1 << 16
_MOST_COMPARED = 1 << 24


@converts("NonZero")
def _convert_nonzero(c: Context) -> str:
    places, coordinates = nonzero(c, c[0])
    return c.emit("stack", *coordinates, axis=0) if coordinates else c.reshape(places, (0, c.type(places).shape[0]))


@converts("Compress")
def _compress(c: Context) -> str:
    axis = c.attribute("axis")
    source = c.reshape(c[0], (product(c.type(0).shape),)) if axis is None else c[0]
    at = 0 if axis is None else c.axis()
    known = c.scope.graph.data(c[1])
    places = select_positions(c, c[1], "count") if known is None else c.constant(np.flatnonzero(known))
    return c.emit("take", source, places, axis=at)


@converts("Unique")
def _convert_unique(c: Context) -> Sequence[str]:
    axis = c.attribute("axis")
    at = c.axis() if axis is not None else -1
    keys = c.reshape(c[0], (product(c.type(0).shape),)) if axis is None else _ranks(c, at)
    values, first, inverse, counts = unique(c, keys, bool(c.attribute("sorted", 1)))
    return [values if axis is None else c.emit("take", c[0], first, axis=at), first, inverse, counts][: c.outputs]


def _ranks(c: Context, axis: int) -> str:
    """Return the number of slices along an axis that come before each one, by the first of their elements that differ."""
    shape = c.static(0)
    count, rest = shape[axis], int(np.prod(shape)) // max(shape[axis], 1)
    if count * count * rest > _MOST_COMPARED:
        raise Refused(f"its {count} slices of {rest} elements are compared each with each")
    order = [axis, *(at for at in range(len(shape)) if at != axis)]
    rows = c.reshape(c.emit("transpose", c[0], axes=tuple(order)), (count, rest))
    if not count * rest:
        return c.constant(np.zeros(count, np.int64))
    one, other = c.reshape(rows, (count, 1, rest)), c.reshape(rows, (1, count, rest))
    first = c.emit("argmax", c.cast(c.emit("not_equal", one, other), "int32"), axis=2, keepdims=True)
    before = c.emit("gather", c.cast(c.emit("less", one, other), "int64"), first, axis=2)
    return c.emit("sum", c.reshape(before, (count, count)), axes=(0,))


@converts("NonMaxSuppression")
def _convert_suppression(c: Context) -> str:
    """Convert NonMaxSuppression: each iteration takes, of each batch and class, the box of the highest score that is left;
    it and those that overlap it go."""
    batch, boxes, _ = c.static(0)
    center = int(c.attribute("center_point_box", 0))
    classes = c.extent(1, 1)
    most = min(c.numbers(2)[0] if c.has(2) else 0, boxes)
    if most <= 0 or not boxes * batch * classes:
        return c.constant(np.zeros((0, 3), np.int64))
    if most > _MOST_BOXES:
        raise Refused(f"it keeps up to {most} boxes")
    corners = _corners(c, center)
    overlap = c.reshape(c[3], ()) if c.has(3) else c.constant(np.asarray(0, np.float32))
    scores = c[1]
    if c.has(4):
        scores = c.emit("where", c.emit("greater", scores, c.reshape(c[4], ())), scores, c.constant(-np.inf, scores))
    inner = InnerScope(c.scope, "suppression")
    b = Conversion(inner, [], c.source)
    inner.graph.input("turn", (), "int64")
    left = inner.graph.input("left", (batch, classes, boxes), "float32")
    nothing = b.constant(np.asarray(-np.inf, np.float32))
    best = b.emit("argmax", left, axis=2)  # (batch, class)
    found = b.emit("greater", b.emit("max", left, axes=(2,)), nothing)
    here = [inner.taken(value) for value in corners]  # low y, low x, high y, high x
    there = [b.reshape(b.emit("gather", value, best, axis=1), (batch, classes, 1)) for value in here]
    gone = b.emit(
        "greater", _overlap(b, [b.reshape(value, (batch, 1, boxes)) for value in here], there), inner.taken(overlap)
    )
    itself = b.emit("equal", b.reshape(best, (batch, classes, 1)), b.constant(np.arange(few(boxes))))
    after = b.emit("where", b.emit("logical_or", gone, itself), nothing, left)
    _, places, kept = emit_loop(c.scope, inner, "", "", [scores], [after, best, found], most, c.source)
    order = c.reshape(c.emit("transpose", kept, axes=(1, 2, 0)), (batch * classes * most,))
    chosen = select_positions(c, order, "count")
    at, kind, _ = unravel_positions(c, chosen, (batch, classes, most))
    box = c.emit(
        "take", c.reshape(c.emit("transpose", places, axes=(1, 2, 0)), (batch * classes * most,)), chosen, axis=0
    )
    return c.emit("stack", at, kind, box, axis=1)


def _corners(c: Context, center: int) -> list[str]:
    """The least and the greatest coordinates of all boxes, (batch, boxes) each."""
    batch, boxes, _ = c.static(0)
    numbers = [
        c.reshape(c.emit("slice", c[0], begin=(at,), end=(at + 1,), step=(1,), axes=(2,)), (batch, boxes))
        for at in range(4)
    ]
    if center:
        x, y, wide, high = numbers
        half = c.constant(np.asarray(0.5, np.float32))
        spans = [(y, c.emit("multiply", high, half)), (x, c.emit("multiply", wide, half))]
        return [c.emit(operator, middle, reach) for operator in ("subtract", "add") for middle, reach in spans]
    return [c.emit(operator, numbers[at], numbers[at + 2]) for operator in ("minimum", "maximum") for at in (0, 1)]


def _overlap(b: Conversion, first: Sequence[str], second: Sequence[str]) -> str:
    """The area that boxes share, over that of both together; 0 where they share none."""
    zero = b.constant(np.asarray(0, np.float32))
    sides = [
        b.emit(
            "maximum",
            b.emit(
                "subtract", b.emit("minimum", first[at + 2], second[at + 2]), b.emit("maximum", first[at], second[at])
            ),
            zero,
        )
        for at in (0, 1)
    ]
    shared = b.emit("multiply", *sides)
    areas = [
        b.emit("multiply", *(b.emit("subtract", one[at + 2], one[at]) for at in (0, 1))) for one in (first, second)
    ]
    together = b.emit("subtract", b.emit("add", *areas), shared)
    positive = b.emit("greater", shared, zero)
    return b.emit("where", positive, b.emit("divide", shared, together), zero)
