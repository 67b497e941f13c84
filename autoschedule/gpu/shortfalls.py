"""Shortfalls of kernels, from their loops: reasons for which they use less of a GPU than there is, shown by `s.plan`.

Sectors of memory of which a part is needed, threads that meet in a bank of shared memory, and too few threads at once: each with
the array that it is about. What data decide is said to be so. How many registers a thread has is for the compiler to say; here the
arrays of a thread count, and some for addresses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import prod

from ...codegen.gpus import Gpu, Occupancy
from ...ir import Attr, Buffer, BufferStore, For
from ...ir.analysis.warps import Touch, find_block, touches
from ...ir.copies import ASYNCHRONOUS
from ...ir.passes.gpu.hardware import MAX_THREADS
from ...ir.visit import statements
from ..cost.doubts import ENOUGH
from ..cost.gpu import FEWEST_REGISTERS, OF_COPIES

__all__ = ["shortfalls"]


def shortfalls(kernels: Iterable[For], gpu: Gpu) -> str:
    """List the shortfalls of kernels, whose outermost loops are given; empty where nothing falls short."""
    said: dict[str, None] = {}
    for kernel in kernels:
        said.update(dict.fromkeys((*_list_memory(touches(kernel)), *_list_threads(kernel, gpu))))
    return "; ".join(said)


def _list_memory(found: Iterable[Touch]) -> Iterator[str]:
    """Yield the reasons of memory by the array and what is done with it."""
    places: dict[tuple[str, str, str], list[Touch]] = {}
    for touch in found:
        scope = touch.array.scope if isinstance(touch.array, Buffer) else "global"
        places.setdefault((touch.array.name, scope, "stored" if touch.stored else "read"), []).append(touch)
    for (name, scope, done), some in places.items():
        if any(touch.by_data for touch in some):
            yield f"{name} is {done} where data say"
        short = [touch for touch in some if touch.passes > touch.least]
        if not short:
            continue
        if scope == "shared":
            yield f"{max(-(-touch.passes // touch.least) for touch in short)} threads meet in a bank of {name}"
            continue
        share = sum(touch.least for touch in some) / sum(touch.passes for touch in some)
        apart = Counter(touch.apart for touch in short).most_common(1)[0][0]
        where = f"{apart} elements apart" if apart > 1 else "by rows that begin within sectors"
        yield f"{name} is {done} {where}, {share:.0%} of its sectors needed"


def _list_threads(kernel: For, gpu: Gpu) -> Iterator[str]:
    block = find_block(kernel)
    copied = {
        node.buffer
        for each in statements(kernel)
        if isinstance(each, Attr) and each.key == ASYNCHRONOUS
        for node in statements(each.body)
        if isinstance(node, BufferStore)
    }
    threads = prod(block.threads.values())
    registers = round(block.registers) + FEWEST_REGISTERS + OF_COPIES * len(copied)
    if not block.threads or threads > MAX_THREADS:
        return
    held = Occupancy.of(gpu, threads, registers, block.shared)
    if 0 < held.share < ENOUGH:
        why = {
            "registers": f"registers, of which a thread's arrays take {block.registers:.0f}",
            "shared memory": f"shared memory, of which a block has {block.shared} bytes",
            "blocks": f"blocks of {threads} threads",
            "threads": f"blocks of {threads} threads",
        }[held.bound]
        yield f"{held.share:.0%} of the threads at once by {why}"
