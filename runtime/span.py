"""The bytes that a tensor's elements span: computed in Python's integers, which do not wrap, and checked before anything follows
a description that somebody else wrote."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..base.limits import BEYOND_MEMORY
from .hosts import host

__all__ = ["RefusedMemory", "byte_span", "require_span", "usable_strides"]

_LOOKED_AT = 64 << 20
"""Bytes: a compact tensor that is smaller is believed, since a look at memory takes longer than what is done with it."""


class RefusedMemory(Exception):
    """The value is a tensor, but does not hand out its memory. The argument is its reason."""


def byte_span(shape: Sequence[int], strides: Sequence[int] | None, item: int) -> tuple[int, int]:
    """Return where the elements begin and end, in bytes from the first one's address; (0, 0) where there are none.

    strides: in bytes, None of a compact tensor. item: bytes of an element.
    """
    if 0 in shape:
        return 0, 0
    if strides is None:
        return 0, item * math.prod(shape)
    reaches = [step * (extent - 1) for step, extent in zip(strides, shape, strict=True)]
    return sum(reach for reach in reaches if reach < 0), item + sum(reach for reach in reaches if reach > 0)


def require_span(
    data: int, shape: Sequence[int], strides: Sequence[int] | None, item: int, *, on_host: bool, is_offset: bool = False
) -> None:
    """Raise RefusedMemory for a tensor that cannot be.

    What the description alone tells is looked at; that its addresses are those of memory is what its producer vouches for, but
    where elements lie apart, are offset or are many, both ends are looked for in the host's memory. data: the first element's
    address. strides, item: as of byte_span. is_offset: it does not begin where its memory does.
    """
    for dimension, extent in enumerate(shape):
        if extent < 0:
            raise RefusedMemory(f"it has the extent {extent} in dimension {dimension}")
    low, high = byte_span(shape, strides, item)
    # Loops over dimensions without elements count, and numpy multiplies them: extents of 0 are left out, as it does.
    size = max(item, 1) * math.prod(filter(None, shape))
    if max(size, high - low) >= BEYOND_MEMORY:
        raise RefusedMemory("it exceeds the address space")
    if high == low:
        return
    if not data:
        raise RefusedMemory("it has elements, and NULL for its data")
    if not 0 <= data + low < data + high <= 1 << 64:
        raise RefusedMemory("it exceeds the address space")
    if on_host and (is_offset or high - low != size or high - low >= _LOOKED_AT):
        for address in (data + low, data + high - 1):
            if not host().is_mapped(address):
                raise RefusedMemory(f"it reaches unmapped memory at address {address:#x}")


def usable_strides(shape: Sequence[int], strides: Sequence[int] | None) -> tuple[int, ...] | None:
    """The strides, with 0 for a step that is never taken and may say anything."""
    if strides is None:
        return None
    empty = 0 in shape
    return tuple(
        0 if (empty or extent == 1) and abs(step) >= BEYOND_MEMORY else step
        for step, extent in zip(strides, shape, strict=True)
    )
