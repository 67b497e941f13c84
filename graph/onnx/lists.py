"""ONNX's operators over sequences, which are lists of values while a model is read: how many are in each has to be known, or to be
how often a loop runs that appends one.

    s = SequenceEmpty()
    h, s = Loop(n, c, h, s) { ...  t = SequenceInsert(s, next) }    →    h, y = loop(..., count=(n,)) { ...  output next
    y = ConcatFromSequence(s, axis=0, new_axis=1)                                                       output row = next }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..conversion import Items, Refused
from .context import Context, converts
from .package import dtype_named

__all__: list[str] = []

_MOST_VALUES = 1 << 12
"""Of a sequence, each of which is a value of the graph."""


def _items(c: Context, at: int = 0) -> Items:
    """The list that an input is."""
    if c[at] not in c.scope.lists:
        raise Refused(f"its input {at} is not a sequence that is known")
    return c.scope.lists[c[at]]


def _each(c: Context) -> list[str]:
    """The values of the list that comes first, of which it is known how many there are."""
    items = _items(c)
    if items.rows or items.grows:
        raise Refused("the length of its sequence is not known")
    return list(items.values)


def _place(c: Context, at: int, count: int) -> int:
    """The place in a list of so many values that an input tells."""
    place = c.numbers(at)[0]
    if not -count <= place < count:
        raise Refused(f"{place} is not a place among {count} values")
    return place % count


@converts("OptionalGetElement")
def _convert_element(c: Context) -> str:
    return c[0]  # optionals are no inputs, and none are made


@converts("OptionalHasElement")
def _has_element(c: Context) -> str:
    return c.constant(np.asarray(c.has(0)))


@converts("SequenceEmpty")
def _empty(c: Context) -> str:
    return c.scope.name_list(Items(dtype=dtype_named(int(c.attribute("dtype", 1)))))


@converts("SequenceConstruct")
def _construct(c: Context) -> str:
    return c.scope.name_list(Items(tuple(c.inputs)))


@converts("SequenceInsert")
def _insert(c: Context) -> str:
    items = _items(c)
    dtype = c.type(items.values[0]).dtype if items.values else items.dtype
    if dtype not in ("", c.type(1).dtype):
        raise Refused(f"its sequence is of {dtype}, and what is put into it of {c.type(1).dtype}")
    if not c.has(2):
        return c.scope.name_list(replace(items, values=(*items.values, c[1])))
    each, place = _each(c), c.numbers(2)[0]
    if not -len(each) <= place <= len(each):
        raise Refused(f"{place} is not a place among {len(each)} values")
    each.insert(place, c[1])
    return c.scope.name_list(Items(tuple(each)))


@converts("SequenceErase")
def _erase(c: Context) -> str:
    each = _each(c)
    del each[_place(c, 1, len(each)) if c.has(1) else -1]
    return c.scope.name_list(Items(tuple(each)))


@converts("SequenceAt")
def _convert_sequence_element(c: Context) -> str:
    items = _items(c)
    if items.rows and not items.values and not items.grows:
        return c.emit("take", items.rows, c[1], axis=0)
    each = _each(c)
    return each[_place(c, 1, len(each))]


@converts("SequenceLength")
def _convert_length(c: Context) -> str:
    items = _items(c)
    if items.rows and not items.values and not items.grows:
        return c.reshape(c.shape_value(items.rows, slice(0, 1)), ())
    return c.constant(np.asarray(len(_each(c)), np.int64))


@converts("SplitToSequence")
def _split(c: Context) -> str:
    axis, keeps = c.axis(), bool(c.attribute("keepdims", 1))
    sizes = c.array(1) if c.has(1) else np.asarray(1)
    extent = c.extent(0, axis)
    if sizes.ndim == 0 and int(sizes) < 1 or sizes.ndim and int(sizes.sum()) != extent:
        raise Refused(f"its parts of {sizes.tolist()} are not those of {extent}")
    if not sizes.ndim and -(-extent // int(sizes)) > _MOST_VALUES:
        raise Refused(f"it makes a sequence of {-(-extent // int(sizes))} values, and at most {_MOST_VALUES} are made")
    parts = (
        [int(size) for size in sizes]
        if sizes.ndim
        else [min(int(sizes), extent - begin) for begin in range(0, extent, int(sizes))]
    )
    values: Sequence[str] = c.emit_all("split", c[0], sizes=tuple(parts), axis=axis)
    if not c.has(1) and not keeps:
        shape = c.type(0).shape
        values = [c.reshape(value, (*shape[:axis], *shape[axis + 1 :])) for value in values]
    return c.scope.name_list(Items(tuple(values)))


@converts("ConcatFromSequence")
def _convert_concat(c: Context) -> str:
    items, is_new = _items(c), bool(c.attribute("new_axis", 0))
    if items.grows or not (items.rows or items.values):
        raise Refused("the values of its sequence are not known, or it is empty")
    rank = c.rank(items.rows) - 1 if items.rows else c.rank(items.values[0])
    axis = c.within(int(c.attribute("axis")), rank + is_new)
    parts = [_joined_rows(c, items.rows, axis, is_new)] if items.rows else []
    for value in items.values:
        shape = c.type(value).shape
        parts.append(c.reshape(value, (*shape[:axis], 1, *shape[axis:])) if is_new else value)
    return c.emit("concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


def _joined_rows(c: Context, rows: str, axis: int, is_new: bool) -> str:
    """The rows of a value beside each other along an axis, which is new or one of theirs."""
    order = [*range(1, axis + 1), 0, *range(axis + 1, c.rank(rows))]
    moved = c.emit("transpose", rows, axes=tuple(order)) if axis else rows
    if is_new:
        return moved
    shape = c.type(rows).shape
    count, each = shape[0], shape[1 + axis]
    if not isinstance(count, int) or not isinstance(each, int):
        raise Refused(
            "the length of its sequence is not known, and its values are concatenated along an axis of their own"
        )
    return c.reshape(moved, (*shape[1 : 1 + axis], count * each, *shape[2 + axis :]))
