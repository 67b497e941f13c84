"""Rules of operators that look up places and write to them: what was read is added to, what was written is read."""

from __future__ import annotations

from math import prod

from .rule import Pullback, differentiate_declaration, rule

__all__: list[str] = []


@rule("topk")
def _differentiate_topk(p: Pullback) -> list[str | None]:
    """The greatest elements get the gradient of their values; the places have none."""
    values, places = p.heads[0], p.node.outputs[1]
    if values is None:
        return [None]
    return [p.emit("scatter_elements", p.fill_like(0, p.inputs[0]), places, values, axis=p["axis"], reduction="add")]


@rule("scatter_elements", "scatter_nd")
def _differentiate_scatter(p: Pullback) -> list[str | None]:
    """Derivative of updates that are added, or stored: which of those that meet in an element stays is found by their numbers."""
    x, places, updates = p.inputs
    if p["reduction"] not in ("update", "add") or not p.type(places).is_static or not p.type(updates).is_static:
        return differentiate_declaration(p)
    elements = p.node.operator == "scatter_elements"
    read, along = ("gather", {"axis": p["axis"]}) if elements else ("gather_nd", {})
    numbers = p.reshape(p.emit("arange", shape=(_count(p, updates),)), p.shape(updates))
    unset = p.emit("broadcast_to", p.number(-1, numbers), shape=p.shape(x))
    # each update reads back the number that stayed in its element: its own, or that of a later update
    there = p.emit(read, p.emit(p.node.operator, unset, places, numbers, reduction="update", **along), places, **along)
    found = p.emit(read, p.head, places, **along)
    if p["reduction"] == "add":
        stays = p.emit("greater_equal", there, p.number(0, there))
        return [p.head, None, p.emit("where", stays, found, p.number(0, found))]
    stays = p.emit("equal", there, numbers)
    kept = p.emit(p.node.operator, p.head, places, p.fill_like(0, updates), reduction="update", **along)
    return [kept, None, p.emit("where", stays, found, p.number(0, found))]


@rule("put")
def _put(p: Pullback) -> list[str | None]:
    """Replace what has no gradient, and return those of the slices that are put that stay."""
    x, places, updates = p.inputs
    axis, count = p["axis"] % len(p.shape(x)), p.shape(places)[0]
    numbers = p.emit("arange", shape=(count,))
    unset = p.emit("broadcast_to", p.number(-1, numbers), shape=(p.shape(x)[axis],))
    there = p.emit("take", p.emit("put", unset, places, numbers, axis=0), places, axis=0)
    stays = p.reshape(p.emit("equal", there, numbers), [count if at == axis else 1 for at in range(len(p.shape(x)))])
    found = p.emit("take", p.head, places, axis=axis)
    kept = p.emit("put", p.head, places, p.fill_like(0, updates), axis=axis)
    return [kept, None, p.emit("where", stays, found, p.number(0, found))]


@rule("max_pool_with_places")
def _differentiate_max_pool(p: Pullback) -> list[str | None]:
    """The greatest elements get the gradient of their windows."""
    if p.heads[0] is None:
        return [None]
    n, c, *size = p.shape(p.inputs[0])
    if not p.type(p.inputs[0]).is_static or not p.type(p.result).is_static:
        return differentiate_declaration(p)
    windows = (n, c, _count(p, p.result) // max(int(n) * int(c), 1))
    zeros = p.emit("broadcast_to", p.number(0, p.heads[0]), shape=(n, c, prod(map(int, size))))
    places, head = (p.reshape(value, windows) for value in (p.node.outputs[1], p.heads[0]))
    return [p.reshape(p.emit("scatter_elements", zeros, places, head, axis=2, reduction="add"), p.shape(p.inputs[0]))]


@rule("unique")
def _differentiate_each_once(p: Pullback) -> list[str | None]:
    """Each value is the element that is met first."""
    if p.heads[0] is None:
        return [None]
    return [
        p.emit("scatter_elements", p.fill_like(0, p.inputs[0]), p.node.outputs[1], p.heads[0], axis=0, reduction="add")
    ]


def _count(p: Pullback, value: str) -> int:
    count = 1
    for extent in p.shape(value):
        count *= int(extent)
    return count
