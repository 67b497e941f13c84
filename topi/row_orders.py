"""The places of the elements of rows in ascending order of their keys, as hybrid scripts.

keys: unsigned integers, (rows, n). counts: how many elements of each row count, int32 (rows,); the others keep their place.
Results are int32; equal keys keep their order.
"""

from __future__ import annotations

from typing import Any

from ..te import hybrid
from ..te.hybrid.runtime import allocate, const_range, output_tensor
from ..te.polymorphic import max_value, select

FEW_OF_A_ROW = 32
"""Up to how many first elements are held in order while a row is walked over once."""
SHORT_ROW = 64
"""Up to how many elements the ones before an element are counted: clearing the counters of digits takes longer."""


@hybrid.script
def radix_sort_positions(keys: Any, counts: Any, digits: int) -> Any:  # noqa: C901 (a script cannot be cut into functions)
    """The places of all elements, (rows, n), by their digits of 8 bits, the lowest ones first."""
    places = output_tensor(keys.shape, "int32")
    for r in range(keys.shape[0]):
        row = allocate((keys.shape[1],), keys.dtype)
        before = allocate((keys.shape[1],), "int32")
        after = allocate((keys.shape[1],), "int32")
        starts = allocate((digits, 256), "int32")
        for i in range(keys.shape[1]):
            key = keys[r, i]
            row[i] = key
            if i < counts[r]:
                for d in const_range(digits):
                    starts[d, ((key >> (8 * d)) & 255).astype("int32")] += 1
        for d in const_range(digits):
            total = 0
            for b in range(256):
                here = starts[d, b]
                starts[d, b] = total
                total = total + here
        for i in range(counts[r]):
            digit = (row[i] & 255).astype("int32")
            before[starts[0, digit]] = i
            starts[0, digit] += 1
        for pair in const_range((digits - 1) // 2):
            for i in range(counts[r]):
                place = before[i]
                digit = ((row[place] >> (16 * pair + 8)) & 255).astype("int32")
                after[starts[2 * pair + 1, digit]] = place
                starts[2 * pair + 1, digit] += 1
            for i in range(counts[r]):
                place = after[i]
                digit = ((row[place] >> (16 * pair + 16)) & 255).astype("int32")
                before[starts[2 * pair + 2, digit]] = place
                starts[2 * pair + 2, digit] += 1
        for i in range(counts[r]):
            place = before[i]
            if digits == 1:
                places[r, i] = place
            else:
                digit = ((row[place] >> (8 * digits - 8)) & 255).astype("int32")
                places[r, starts[digits - 1, digit]] = place
                starts[digits - 1, digit] += 1
        for i in range(counts[r], keys.shape[1]):
            places[r, i] = i
    return places


@hybrid.script
def rank_positions(keys: Any, counts: Any) -> Any:
    """The places of all elements, (rows, n), by how many come before each."""
    places = output_tensor(keys.shape, "int32")
    for r in range(keys.shape[0]):
        row = allocate((keys.shape[1],), keys.dtype)
        for i in range(keys.shape[1]):
            row[i] = keys[r, i]
        for i in range(counts[r]):
            key = row[i]
            before = 0
            for j in range(i):
                before = before + select(row[j] <= key, 1, 0)
            for j in range(i + 1, counts[r]):
                before = before + select(row[j] < key, 1, 0)
            places[r, before] = i
        for i in range(counts[r], keys.shape[1]):
            places[r, i] = i
    return places


@hybrid.script
def partial_sort_positions(keys: Any, count: int) -> Any:
    """The places of the `count` least keys of each row, (rows, count), held in order while the row is walked over by blocks."""
    places = output_tensor((keys.shape[0], count), "int32")
    for r in range(keys.shape[0]):
        best = allocate((count,), keys.dtype)
        where = allocate((count,), "int32")
        block = allocate((32,), keys.dtype)
        held = 0
        for o in range((keys.shape[1] + 31) // 32):
            least = max_value(keys.dtype)
            for i in range(min(32, keys.shape[1] - 32 * o)):
                key = keys[r, 32 * o + i]
                block[i] = key
                least = min(least, key)
            if least < best[count - 1] or held < count:
                for i in range(min(32, keys.shape[1] - 32 * o)):
                    key = block[i]
                    if key < best[count - 1] or held < count:
                        at = 0
                        for b in range(count):
                            at = at + select(b < held and best[b] <= key, 1, 0)
                        for b in range(count - 1):
                            if count - 2 - b >= at:
                                best[count - 1 - b] = best[count - 2 - b]
                                where[count - 1 - b] = where[count - 2 - b]
                        best[at] = key
                        where[at] = 32 * o + i
                        held = min(held + 1, count)
        for b in range(count):
            places[r, b] = where[b]
    return places
