"""Launches on the emulated machine, and what it found wrong as errors that name lines of the CUDA text."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....base import CudaError, dataclass, user_source
from ....runtime.tensor_map import MAP_ALIGNMENT
from ..errors import (
    EmulatedAssertion,
    EmulatedBadShuffle,
    EmulatedDeadlock,
    EmulatedDivergentBarrier,
    EmulatedEarlyAccess,
    EmulatedMisaligned,
    EmulatedOutOfBounds,
    EmulatedRace,
    EmulatedUnordered,
)
from .compiler import EmulatedLibrary
from .traffic import Counts, last_counts

__all__ = ["Launch", "MapOf", "Memory", "emulate"]

_GAP = 4096
"""Bytes between two buffers, which nobody may touch."""
_ALIGNMENT = 256


class _Fault(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("thread", ctypes.c_int32),
        ("other_thread", ctypes.c_int32),
        ("stores", ctypes.c_int32),
        ("other_stores", ctypes.c_int32),
        ("buffer", ctypes.c_int32),
        ("across_blocks", ctypes.c_int32),
        ("detail", ctypes.c_int32),
        ("element", ctypes.c_int64),
        ("place", ctypes.c_uint64),
        ("other_place", ctypes.c_uint64),
        ("block", ctypes.c_uint32 * 3),
        ("size", ctypes.c_uint32),
    )
    buffer: int
    detail: int


@dataclass(frozen=True, slots=True)
class Memory:
    """One buffer: its bytes (copied in, and out again), the size of its elements, and how its address lies: `misaligned`
    bytes past a multiple of 256."""

    name: str
    content: NDArray[np.uint8]
    item: int
    misaligned: int = 0


@dataclass(frozen=True, slots=True)
class MapOf:
    """A parameter that says how boxes of a memory lie: the words behind its address, see TensorMap."""

    memory: int
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel: its name, grid and block, for each parameter the place of a memory (an int), a scalar's bytes or a map, and the
    size of the smallest element in its shared memory, and how many blocks along x run together."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[int | bytes | MapOf, ...]
    shared_granule: int
    cluster: int = 1


def emulate(
    library: EmulatedLibrary,
    launches: Sequence[Launch],
    memories: Sequence[Memory],
    messages: Sequence[str],
    *,
    seed: int,
    check: bool,
) -> list[Counts | None]:
    """Run `launches` in order over `memories`, which then hold the results. Returns what was counted of each, None of an
    empty or unchecked one.

    seed: decides the order of blocks and of threads. check: look for races, and count accesses. Raises the Emulated... errors.
    """
    size = _GAP + sum(len(m.content) + _GAP + 2 * _ALIGNMENT for m in memories)
    arena = np.full(size, 0xFF, np.uint8)
    base, at = arena.ctypes.data, _GAP
    places: list[int] = []
    for memory in memories:
        at += -(base + at) % _ALIGNMENT + memory.misaligned
        places.append(base + at)
        arena[at : at + len(memory.content)] = memory.content
        at += len(memory.content) + _GAP
    table = (ctypes.c_uint64 * max(3 * len(memories), 1))()
    for i, (memory, place) in enumerate(zip(memories, places, strict=True)):
        table[3 * i], table[3 * i + 1], table[3 * i + 2] = place, len(memory.content), memory.item
    counts: list[Counts | None] = []
    for number, launch in enumerate(launches):
        if 0 in launch.grid:
            counts.append(None)
            continue
        fault = _run(library, launch, places, table, len(memories), seed + 7919 * number, check)
        if fault is not None:
            raise _error(library, launch, memories, messages, fault, seed)
        counts.append(last_counts(library) if check else None)
    for memory, place in zip(memories, places, strict=True):
        memory.content[:] = arena[place - base : place - base + len(memory.content)]
    return counts


def _run(
    library: EmulatedLibrary,
    launch: Launch,
    places: Sequence[int],
    table: ctypes.Array[ctypes.c_uint64],
    count: int,
    seed: int,
    check: bool,
) -> _Fault | None:
    held = [_value(a, places) for a in launch.arguments]
    begins = [ctypes.addressof(value) + -ctypes.addressof(value) % alignment for value, alignment in held]
    pointers = (ctypes.c_void_p * max(len(held), 1))(*begins)
    extents = ctypes.c_uint32 * 3
    fault = _Fault()
    status = library.launch(
        library.entry(launch.name),
        pointers,
        extents(*launch.grid),
        extents(*launch.block),
        table,
        count,
        ctypes.c_uint32(launch.shared_granule),
        launch.cluster,
        ctypes.c_uint64(seed),
        int(check),
        ctypes.byref(fault),
    )
    if status < 0:
        raise MemoryError("with what it notes of each element, and a stack for each thread")
    return None if status else fault


def _value(argument: int | bytes | MapOf, places: Sequence[int]) -> tuple[Any, int]:
    """A parameter in memory, which it lies in at the first multiple of its alignment."""
    if isinstance(argument, int):
        return ctypes.c_uint64(places[argument]), 1
    if isinstance(argument, bytes):
        return ctypes.create_string_buffer(argument, len(argument)), 1
    content = struct.pack("16Q", places[argument.memory], *argument.words)
    memory = ctypes.create_string_buffer(len(content) + MAP_ALIGNMENT)
    offset = -ctypes.addressof(memory) % MAP_ALIGNMENT
    memory[offset : offset + len(content)] = content
    return memory, MAP_ALIGNMENT


def _error(
    library: EmulatedLibrary,
    launch: Launch,
    memories: Sequence[Memory],
    messages: Sequence[str],
    fault: _Fault,
    seed: int,
) -> CudaError:
    x, y, z = launch.block
    who = f"thread {_index(fault.thread, launch.block)} of block ({', '.join(map(str, fault.block))})"
    by_line = fault.kind == 3  # barriers are known by their lines
    line, other = (place or None if by_line else library.line(place) for place in (fault.place, fault.other_place))
    shared = fault.buffer >= len(memories)
    name = "shared memory" if shared else f"'{memories[fault.buffer].name}'" if fault.buffer >= 0 else "memory"
    where = (
        f"byte {fault.element * launch.shared_granule} of {name}" if shared else f"element {fault.element} of {name}"
    )
    did = "stores" if fault.stores else "reads"
    lines = _quote(library.text, [line, other])
    common: dict[str, Any] = {"called": user_source(), "loops": lines}
    at = f"{launch.name}, line {line}" if line else launch.name
    if fault.kind == 1:
        others = (
            "another block"
            if fault.across_blocks
            else "another thread"
            if fault.other_thread == 0xFFFF
            else (f"thread {_index(fault.other_thread, launch.block)}")
        )
        return EmulatedRace(
            f"race in {at}: {who} {did} {where}",
            reason=f"{others} {'stored' if fault.other_stores else 'read'} it at line {other}, with no barrier between the two",
            fix=f"a barrier between lines {other} and {line}; seed {seed} shows it",
            **common,
        )
    if fault.kind == 2:
        return EmulatedOutOfBounds(
            f"out of bounds in {at}: {who} {did} {where}", reason=_extent(memories, fault, shared), **common
        )
    if fault.kind == 3:
        missing = f"thread {_index(fault.other_thread, launch.block)} " + (
            f"waits at line {other}" if other else "has ended"
        )
        return EmulatedDivergentBarrier(
            f"barrier in {at}: {fault.detail} of {x * y * z} threads of block ({', '.join(map(str, fault.block))}) wait there",
            reason=missing,
            fix="let every thread of the block come to the barrier",
            **common,
        )
    if fault.kind == 4:
        return EmulatedBadShuffle(
            f"shuffle in {at}: {who} exchanges with lane {fault.detail}",
            reason="its mask and the lanes that take part differ",
            fix="let exactly the lanes of the mask execute the shuffle",
            **common,
        )
    if fault.kind == 5:
        return EmulatedMisaligned(
            f"misaligned in {at}: {who} {did} {fault.size} bytes at {where}",
            reason=f"the address is not a multiple of {fault.size}",
            **common,
        )
    if fault.kind == 6:
        return EmulatedAssertion(f"assertion in {at}: {messages[fault.detail]}", reason=f"found by {who}", **common)
    if fault.kind == 8:
        return EmulatedEarlyAccess(
            f"too early in {at}: {who} {did} {'its registers' if fault.detail == 2 else where}",
            reason=_still_used(fault, f"thread {_index(fault.other_thread, launch.block)}", other),
            fix=f"a wait for that group, and a barrier behind it, before line {line}",
            **common,
        )
    if fault.kind == 9:
        return _unordered_error(fault, at, who, f"thread {_index(fault.other_thread, launch.block)}", other, common)
    if fault.kind == 10:
        why = (
            f"a barrier of {fault.size} threads, and not as many come"
            if fault.detail < 0
            else f"{fault.detail} more threads have to arrive"
            if fault.detail
            else f"{fault.element} bytes are expected, and copies of {fault.size} have begun"
        )
        return EmulatedDeadlock(
            f"a wait in {at}: {who} waits for a phase that does not end",
            reason=why,
            fix="let as many threads arrive as the barrier was made for, and expect the bytes of all copies",
            **common,
        )
    return EmulatedOutOfBounds(
        f"out of bounds in {at}: {who} takes element {fault.element} of an array",
        reason="the array is declared with fewer elements",
        **common,
    )


def _still_used(fault: _Fault, owner: str, line: int | None) -> str:
    """Return the copies that have begun and are not waited for."""
    return (
        f"{owner} began a copy to it at line {line}, and has not waited for it",
        "products of four warps, or stores of boxes, have begun that read it, and are not waited for",
        f"they are sums of a product, or what it multiplies, that it began at line {line}, and has not waited for",
    )[fault.detail]


def _unordered_error(
    fault: _Fault, at: str, who: str, owner: str, line: int | None, common: dict[str, Any]
) -> EmulatedUnordered:
    """Describe what is out of order: a product or a box that begins too early, or a barrier in memory that is misused."""
    early, barrier = (
        f"a product in {at}: {who} begins it too early",
        f"a barrier in {at}: {who} uses it, or what it guards, too early",
    )
    stored = f"{owner} stored what it reads at line {line}, without a fence behind that"
    what, reason, fix = {
        0: (
            early,
            "it has touched the sums of products since the last fence, or there was none",
            "tw_wgmma_fence() before the first product",
        ),
        1: (early, stored, "tw_proxy_fence() before the barrier"),
        2: (
            f"products in {at}: not all threads of the four warps of {who} begin them",
            f"it has not begun as many as {owner}",
            "let all 128 threads begin each product",
        ),
        3: (
            barrier,
            "nobody has made that barrier",
            "tw_bulk_init() by one thread, and a barrier of the block behind it",
        ),
        4: (barrier, f"{owner} made it at line {line} already", "make each barrier once"),
        5: (
            barrier,
            "as many threads have arrived as it was made for, and their bytes have not come",
            "wait for the end of a phase before the next begins",
        ),
        6: (
            barrier,
            f"the copy engine wrote there, for what is at line {line}, and the thread has not waited for it",
            "tw_bulk_wait() at the barrier of that copy",
        ),
        7: (
            barrier,
            f"{owner} made it at line {line}, and has not told the copy engine",
            "tw_bulk_begin() by that thread",
        ),
        8: (
            f"a product in {at}: {who} reads what does not lie as it thinks",
            f"the box of line {line} came with parts of 16 bytes exchanged within {fault.size} bytes, and it reads rows of "
            f"{fault.element}",
            "a map with the swizzle of the memory that it fills",
        ),
        9: (
            f"a cluster in {at}: {who} reaches into the memory of another block",
            "that block may have ended: no barrier of the cluster stands behind it",
            "tw_cluster_barrier() at the end of the kernel",
        ),
        10: (f"a box in {at}: {who} stores it too early", stored, "tw_proxy_fence() before the barrier"),
        11: (
            f"a box in {at}: {who} ends while the copy engine reads it",
            "shared memory is another block's from there on",
            "tw_bulk_store_commit(), and tw_bulk_store_wait() at the end",
        ),
    }[fault.detail]
    return EmulatedUnordered(what, reason=reason, fix=fix, **common)


def _extent(memories: Sequence[Memory], fault: _Fault, shared: bool) -> str:
    if shared or fault.buffer < 0:
        return "the kernel declares less"
    memory = memories[fault.buffer]
    return f"'{memory.name}' has {len(memory.content) // memory.item} elements"


def _index(thread: int, block: tuple[int, int, int]) -> str:
    x, y, _ = block
    return f"({thread % x}, {thread // x % y}, {thread // x // y})"


def _quote(text: str, numbers: Sequence[int | None]) -> str:
    lines = text.splitlines()
    wanted = sorted({number for number in numbers if number and number <= len(lines)})
    return "\n".join(f"{number:4}  {lines[number - 1].strip()}" for number in wanted)
