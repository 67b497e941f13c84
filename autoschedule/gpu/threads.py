"""What rules for GPUs have in common: threads, vectors, launches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ...codegen.gpus import Gpu
from ...ir.dtype import DType

__all__ = ["LAUNCH", "THREADS", "VECTOR", "WARP", "apart_in_banks", "blocks_at_once", "lanes_of", "slowest"]

WARP = 32
THREADS = 256
"""Of a block that needs no particular number."""
VECTOR = 16
"""Bytes that a thread loads or stores at once."""
LAUNCH = 3e-6
"""Seconds until a kernel runs."""


def lanes_of(dtype: DType) -> int:
    """How many elements a thread loads or stores at once."""
    return max(VECTOR * 8 // max(dtype.bits, 8), 1)


def blocks_at_once(gpu: Gpu, threads: int, registers: int, shared: int) -> int:
    """How many blocks a multiprocessor holds, at least 1. registers: of a thread; shared: bytes of a block."""
    return max(min(gpu.threads // threads, gpu.blocks, gpu.shared // max(shared, 1), gpu.registers // (registers * threads)), 1)


def slowest(gpu: Gpu, work: tuple[str, float], unique: float, moved: float) -> tuple[str, float]:
    """What all blocks together wait for most, and its cycles: their own work, a name and its cycles, the `unique` bytes that come
    from memory, or the `moved` ones that come from the L2 cache."""
    memory, cache = unique / gpu.memory_rate, moved / gpu.l2_rate
    if work[1] >= max(memory, cache):
        return work
    return ("memory bandwidth", memory) if memory >= cache else ("L2 bandwidth", cache)


BANKS, BANK = 32, 4
"""Of shared memory, and the bytes of one."""

Access = tuple[Sequence[tuple[int, int]], int]
"""(row, element) of each lane of a warp, and the bytes that each of them reads or writes there."""


def apart_in_banks(length: int, item: int, accesses: Sequence[Access]) -> int:
    """The distance between two rows of a panel in shared memory, in elements, that makes the fewest passes of a warp's accesses.

    length: elements of a row; item: bytes of one. Rows stay aligned to vectors; of equally good distances it is the least.
    """
    vector = max(VECTOR // item, 1)
    distances = range(-(-length // vector) * vector, length + BANKS * BANK // item + vector, vector)

    def passes(distance: int) -> int:
        return sum(_passes([(row * distance + element) * item for row, element in lanes], size) for lanes, size in accesses)

    return min(distances, key=lambda distance: (passes(distance), distance))


def _passes(places: Sequence[int], size: int) -> int:
    """How often a warp goes through shared memory: a pass takes 32 lanes of up to 4 bytes, 16 of 8 or 8 of 16, and takes as long as
    its fullest bank has words that differ."""
    at_once, total = WARP * BANK // max(size, BANK), 0
    for first in range(0, len(places), at_once):
        words: dict[int, set[int]] = defaultdict(set)
        for place in places[first : first + at_once]:
            for word in range(place // BANK, (place + size - 1) // BANK + 1):
                words[word % BANKS].add(word)
        total += max(map(len, words.values()))
    return total
