"""Memory of more elements than a list should hold, of which a program touches few."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.nibbles import holds_integers

__all__ = ["LONGEST_LIST", "Sparse", "allocate"]

LONGEST_LIST = 1 << 20
"""Memory of up to so many elements is a list."""
_MOST_BYTES = 1 << 62


class Sparse:
    """Sparse list of `size` elements that all are `fill`, or of those of a flat array, until others are stored; it takes memory
    for these alone. first: places before the array, which hold None."""

    def __init__(self, size: int, fill: Any = None, flat: np.ndarray[Any, Any] | None = None, first: int = 0) -> None:
        self.size, self.fill, self.flat, self.first = size, fill, flat, first
        self.stored: dict[int, Any] = {}

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: int) -> Any:
        if place in self.stored:
            return self.stored[place]
        if self.flat is None or place < self.first:
            return self.fill
        value = self.flat[place - self.first]
        return value.item() if holds_integers(self.flat.dtype) else value

    def __setitem__(self, place: int, value: Any) -> None:
        self.stored[place] = value


def allocate(fill: Any, size: int, item: int) -> list[Any] | Sparse:
    """Memory for `size` elements of `item` bytes. Raises MemoryError where no machine has so many."""
    if size * item >= _MOST_BYTES:
        raise MemoryError(f"{size * item} bytes")
    return [fill] * size if size <= LONGEST_LIST else Sparse(size, fill)
