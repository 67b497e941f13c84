"""Faults that running code reports, and helpers that it calls for vectors. All work on memory as a list with one entry an
element (or what is as long and holds few), None where nothing has been written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ...base.dataclass import dataclass
from .sparse import Sparse, allocate

__all__ = ["HELPERS", "MANY", "Fault", "Pointer"]

MANY = -1 << 70
"""In place of an iteration: several of them have read the element."""


class Fault(Exception):
    """A check failed. `kind` says which; the rest is for the message."""

    def __init__(self, kind: str, *details: Any) -> None:
        super().__init__(kind)
        self.kind, self.details = kind, details


def fault(kind: str, *details: Any) -> None:
    raise Fault(kind, *details)


def offsets(
    buffer: int,
    indices: Sequence[list[int] | int],
    extents: Sequence[int],
    strides: Sequence[int],
    first: int,
    lanes: int,
    mask: list[bool] | bool | None,
) -> list[int | None]:
    """The element offsets of an access, lane by lane; None for lanes that `mask` excludes."""
    places: list[int | None] = []
    for lane in range(lanes):
        if mask is not None and not (mask[lane] if isinstance(mask, list) else mask):
            places.append(None)
            continue
        place = [index[lane] if isinstance(index, list) else index for index in indices]
        offset = first
        for at, extent, stride in zip(place, extents, strides, strict=True):
            if not 0 <= at < extent:
                raise Fault("bounds", buffer, tuple(place), tuple(extents))
            offset += at * stride
        places.append(offset)
    return places


def load_lanes(data: list[Any] | Sparse, places: list[int | None], zero: Any, buffer: int, tracked: bool) -> list[Any]:
    """The elements at `places`, 0 for lanes that are excluded (and for unwritten ones, where reads are not tracked)."""
    values: list[Any] = []
    for place in places:
        value = zero if place is None else data[place]
        if value is None:
            if tracked:
                raise Fault("unwritten", buffer, place)
            value = zero
        values.append(value)
    return values


def store_lanes(data: list[Any] | Sparse, places: list[int | None], values: list[Any]) -> None:
    for place, value in zip(places, values, strict=True):
        if place is not None:
            data[place] = value


@dataclass(frozen=True, slots=True)
class Pointer:
    """Pointer of the interpreter: p[i] is element i from where it points, to be read or assigned."""

    data: list[Any] | Sparse
    first: int
    buffer: int
    mode: int
    tracked: bool
    held: Callable[[Any], Any]
    """A value as memory of the buffer's type holds it."""
    dtype: np.dtype[Any]

    def __getitem__(self, index: int) -> Any:
        value = self.data[self._place(index, 1)]
        if value is None and self.tracked:
            raise Fault("unwritten", self.buffer, self.first + index)
        return self.held(0) if value is None else value

    def peek(self, index: int) -> Any:
        """The element that is there to be overwritten: None where nothing has been written."""
        return self.data[self._place(index, 2)]

    def memory(self) -> np.ndarray[Any, Any]:
        """A copy of what lies from here on to the buffer's end; zeros where nothing has been written."""
        zero = self.held(0)
        values = (self.data[place] for place in range(self.first, len(self.data)))
        return np.array([zero if value is None else value for value in values], self.dtype)

    def __setitem__(self, index: int, value: Any) -> None:
        self.data[self._place(index, 2)] = self.held(value)

    def _place(self, index: int, mode: int) -> int:
        place = self.first + index
        if not 0 <= place < len(self.data) or not self.mode & mode:
            raise Fault("bounds", self.buffer, (place,), (len(self.data) if self.mode & mode else 0,))
        return place


def ramp(base: int, stride: int, lanes: int, bits: int, signed: bool) -> list[int]:
    half = 1 << (bits - 1) if signed else 0
    mask = (1 << bits) - 1
    return [(base + lane * stride + half & mask) - half for lane in range(lanes)]


def iterate_lanes(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def read(writers: dict[int, int], readers: dict[int, int], place: int | None, iteration: int, buffer: int) -> None:
    """Iteration reads the element at `place` of a buffer that the parallel loop writes."""
    if place is None:
        return
    writer = writers.get(place, iteration)
    if writer != iteration:
        raise Fault("race", buffer, place, writer, iteration, "reads what the former writes")
    if readers.setdefault(place, iteration) != iteration:
        readers[place] = MANY


def write(writers: dict[int, int], readers: dict[int, int], place: int | None, iteration: int, buffer: int) -> None:
    """Iteration writes the element at `place`."""
    if place is None:
        return
    writer = writers.setdefault(place, iteration)
    if writer != iteration:
        raise Fault("race", buffer, place, writer, iteration, "writes it too")
    reader = readers.get(place, iteration)
    if reader != iteration:
        raise Fault("race", buffer, place, reader, iteration, "writes what the former reads")


HELPERS = {
    helper.__name__: helper
    for helper in (fault, offsets, load_lanes, store_lanes, ramp, iterate_lanes, read, write, allocate, Pointer)
}
