"""Masks in importers: the positions that a mask selects. How many they are is measured when the model runs, and the rest is
done for that number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .conversion import Conversion, product
from .types import Extent

__all__ = ["nonzero", "select_positions", "unique", "unravel_positions"]


def select_positions(c: Conversion, mask: str, what: str) -> str:
    """The places at which a mask of one dimension is true, in order, once it is measured how many they are."""
    ones = c.cast(mask, "int64")
    count = c.measured(what, lambda: c.emit("sum", ones, axes=(0,)))
    if count == 0:
        return c.constant(np.zeros(0, np.int64))
    return c.emit_all("topk", ones, k=count)[1]  # of equal ones the first


def unravel_positions(c: Conversion, places: str, shape: Sequence[Extent]) -> list[str]:
    """Return the coordinates in a shape of positions of all elements in a row, a value for each dimension."""
    found: list[str] = []
    for extent in reversed(shape):
        number = c.size_value(extent) if isinstance(extent, str) else c.constant(np.int64(max(extent, 1)))
        found.insert(0, c.emit("floor_mod", places, number))
        places = c.emit("floor_divide", places, number)
    return found


def nonzero(c: Conversion, value: str) -> tuple[str, list[str]]:
    """The places of the elements of a value that are not 0, among all elements in a row, and along each dimension."""
    shape = c.type(value).shape
    flat = c.reshape(value, (product(shape),))
    mask = flat if c.type(flat).dtype == "bool" else c.emit("not_equal", flat, c.constant(0, flat))
    places = select_positions(c, mask, "count")
    return places, unravel_positions(c, places, shape)


def unique(c: Conversion, keys: str, ordered: bool) -> tuple[str, str, str, str]:
    """The different elements of a vector, where each is first, the place among them of each element, and how often each occurs."""
    values, first, inverse, counts, number = c.emit_all("unique", keys, ordered=ordered)
    known = c.scope.graph.data(number)
    count = c.measured("count", lambda: number) if known is None else int(known)
    found = [
        c.emit("slice", value, begin=(0,), end=(count,), step=(1,), axes=(0,)) for value in (values, first, counts)
    ]
    return found[0], found[1], inverse, found[2]
