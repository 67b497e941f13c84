"""The places of the elements of rows in ascending order of their keys, on GPUs: blocks sort, and merge what they have sorted.

    for block:                                     # a row, several short ones, or a part of a long one
      key, place = its elements                    # in shared memory; equal keys stay in the order of their places
      for k, j: threads put pairs in order         # Batcher's bitonic sort (1968), each merge begun with a mirrored step
    for each pass over longer rows:
      for thread: an element goes behind those of the other run that come before it, counted by bisection

Element e lies at e ^ 31 in every second 32 words, so that the 32 pairs of a step's warp meet no bank twice, whatever lies between
the two of a pair: the addresses of a step differ in all bits but one, and the banks of two are the same where all six differ.
Keys, counts and results are those of row_orders.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..te import Tensor, max_value
from ..te.hybrid.runtime import allocate, bind, const_range, output_tensor

LONGEST = 4096
"""Elements that a block sorts: with keys of 64 bits they fill what a block has without asking."""
MOST_THREADS, THREADS = 512, 256
"""Of a block that sorts, and of one that merges."""


def sorted_in_blocks(keys: Tensor, counts: Tensor, length: int, count: int) -> Tensor:
    """The places of the `count` least keys of each row, whose length is known: (rows, count)."""
    size = min(1 << max(length - 1, 0).bit_length(), LONGEST)  # a power of two, for bitonic steps
    several = max(THREADS // size, 1)  # rows of a block
    chunks = -(-length // size)  # parts of rows that are longer than a block sorts
    steps, passes = size.bit_length() - 1, max(chunks - 1, 0).bit_length()  # each pass doubles what is in order
    whole = max(size * several, 2)  # a thread takes two elements, so there are at least two
    order: Tensor = _sort_blocks(
        keys, counts, (count, size, whole // size, chunks), steps, passes, min(whole // 2, MOST_THREADS)
    )
    return order


@te.hybrid.script
def _sort_blocks(keys: Any, counts: Any, sizes: Any, steps: int, passes: int, threads: int) -> Any:  # noqa: C901 (a script cannot be cut)
    """Sort rows in blocks.

    sizes: what is asked for, elements of a run, runs of a block, runs of a row.
    """
    count, size, several, chunks = sizes
    length = keys.shape[1]
    places = output_tensor((keys.shape[0], count), "int32")
    runs = allocate((2, keys.shape[0], length), keys.dtype)
    order = allocate((2, keys.shape[0], length), "int32")
    for block in bind("blockIdx.x", (keys.shape[0] * chunks + several - 1) // several):
        key = allocate((size * several,), keys.dtype, "shared")
        place = allocate((size * several,), "int32", "shared")
        for t in bind("threadIdx.x", threads):
            for c in range(size * several // threads):
                e = c * threads + t
                own = e ^ (e >> 5 & 1) * 31
                run = block * several + e // size
                column = run % chunks * size + e % size
                key[own] = max_value(keys.dtype)
                if run // chunks < keys.shape[0] and column < length:
                    counted = counts[run // chunks]
                    if column < counted:
                        key[own] = keys[run // chunks, column]
                place[own] = column
        for k in range(steps):
            for j in range(k + 1):
                for t in bind("threadIdx.x", threads):
                    for c in range(size * several // 2 // threads):
                        stride = 1 << (k - j)
                        within = (c * threads + t) & (stride - 1)
                        first = 2 * (c * threads + t) - within
                        second = first + stride
                        if j == 0:
                            second = first + 2 * (stride - within) - 1
                        first = first ^ (first >> 5 & 1) * 31
                        second = second ^ (second >> 5 & 1) * 31
                        a = key[first]
                        b = key[second]
                        here = place[first]
                        there = place[second]
                        if b < a or (b == a and there < here):
                            key[first] = b
                            key[second] = a
                            place[first] = there
                            place[second] = here
        for t in bind("threadIdx.x", threads):
            for c in range(size * several // threads):
                e = c * threads + t
                own = e ^ (e >> 5 & 1) * 31
                run = block * several + e // size
                column = run % chunks * size + e % size
                if run // chunks < keys.shape[0]:
                    if passes == 0:
                        if column < count:
                            places[run // chunks, column] = place[own]
                    elif column < length:
                        runs[0, run // chunks, column] = key[own]
                        order[0, run // chunks, column] = place[own]
    for p in const_range(passes):
        for block in bind("blockIdx.x", (keys.shape[0] * length + 255) // 256):
            for t in bind("threadIdx.x", 256):
                if block * 256 + t < keys.shape[0] * length:
                    r = (block * 256 + t) // length
                    i = (block * 256 + t) % length
                    run = i // (size << p)
                    begin = min((run ^ 1) * (size << p), length)
                    low = begin
                    high = min(begin + (size << p), length)
                    key = runs[p % 2, r, i]
                    place = order[p % 2, r, i]
                    for _ in range(steps + p + 1):
                        if low < high:
                            middle = (low + high) // 2
                            other = runs[p % 2, r, middle]
                            if other < key or (other == key and order[p % 2, r, middle] < place):
                                low = middle + 1
                            else:
                                high = middle
                    after = run // 2 * 2 * (size << p) + i - run * (size << p) + low - begin
                    if p == passes - 1:
                        if after < count:
                            places[r, after] = place
                    else:
                        runs[1 - p % 2, r, after] = key
                        order[1 - p % 2, r, after] = place
    return places
