"""Windows: what is read at several places around each result, loaded once by a block, into shared memory.

    C[c, y, x] = sum over r, q of P[c, y + r, x + q] * W[c, r, q]          depthwise convolutions, pools, stencils

    for blockIdx.x: c, tiles of 32 x 32 of y and x
      P[34, 40] = the block's window                   # shared; by all threads, 16 bytes each, as its source lies in memory
      for threadIdx.y in 8:  for threadIdx.x in 32:
        for 4 of y:  C[c, y, x] = ..                   # of P; what rows of a thread share is loaded once

It is told by what is read where, not by what an operator is called. A padded image is padded on its way. (Micikevicius, 3D finite
difference computation on GPUs using CUDA, 2009, keeps the tile of a stencil with its halo so.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, gcd, prod
from typing import TYPE_CHECKING

from ...codegen.gpus import Gpu, target_gpu
from ...ir.expr import Expr, FloatImm, IfThenElse, IntImm, IterVar
from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..accesses import dimension, numeric_shape, op_loads, tensor_bytes
from ..cost.estimate import Estimate
from ..cost.gpu import Waves, busiest, kernel_time
from ..forms.window import Window, match_windows
from ..loops import fuse_axes
from ..operations import data_extents, fixed_extent, is_expensive, is_plain, iteration_count
from ..plan import Candidate
from .elements import element_a_thread
from .threads import WARP, lanes_of

if TYPE_CHECKING:
    from ...schedule import Stage
    from ..groups import Group

__all__ = ["windows"]

THREADS = ((8, 32), (4, 32), (16, 16), (8, 16), (8, 8), (1, 128), (1, 256))
"""Along the last axis but one, and along the last."""
OWN = (4, 2, 1)
"""Neighbours of a thread along the last axis but one."""
PLANES = (1, 4)
"""Of a block, where one is small: values of the axis before these two."""
UNROLLED = 128
"""Terms of a thread's sums up to which all of its loops are unrolled."""
OTHER_REGISTERS = 24
BANKS, WORD = 32, 4
"""Of shared memory, and bytes of one."""
UNALIGNED = 2
"""How much longer a load through the first cache takes that begins anywhere, than one from shared memory."""


@dataclass(frozen=True)
class Tile:
    """threads: along the last axis but one, and along the last; own: neighbours of each along the former; planes: of a block."""

    threads: tuple[int, int]
    own: int
    planes: int

    @property
    def rows(self) -> int:
        return self.threads[0] * self.own

    def extents(self, op: Operation) -> dict[IterVar, int]:
        """Return the number of values of each axis that a block has."""
        sizes = [*[1] * max(len(op.axis) - 3, 0), *(self.planes, self.rows, self.threads[1])[-len(op.axis) :]]
        return {axis: min(size, fixed_extent(axis)) for axis, size in zip(op.axis, sizes, strict=True)}

    def __str__(self) -> str:
        planes = f"{self.planes} x " if self.planes > 1 else ""
        own = f", {self.own} rows a thread" if self.own > 1 else ""
        return f"windows of {planes}{self.rows} x {self.threads[1]} in shared memory{own}"


def windows(group: Group) -> bool:
    """Blocks load what they read around their results once. Does nothing and returns False where nothing is read so."""
    op = group.s[group.anchor].op
    if group.parts or len(op.outputs) > 1 or not op.axis or not all(map(fixed_extent, (*op.axis, *op.reduce_axis))):
        return False
    if data_extents(group.output) != data_extents(op) or fixed_extent(op.axis[-1]) < 2:
        return False
    found = match_windows(op)
    gpu = target_gpu(group.target)
    ways = sorted(
        ((_time(op, found, tile, gpu), tile) for tile in _tiles(op, found, gpu)), key=lambda way: way[0].seconds
    )
    if not ways:
        return False
    reason = _reason(group, op, found)
    candidates = [Candidate(str(tile), partial(_apply, group, found, tile), time, reason) for time, tile in ways]
    alone = Candidate(
        "an element a thread", partial(element_a_thread, group), _time_alone(op, found, gpu), "windows lie anywhere"
    )
    group.choose("windows", [*candidates, alone])
    return True


def _tiles(op: Operation, found: Sequence[Window], gpu: Gpu) -> Iterator[Tile]:
    """Return the tiles that fit the shared memory of a block twice, and are no more than twice as large as the result."""
    if not found:
        return
    columns = fixed_extent(op.axis[-1])
    rows = fixed_extent(op.axis[-2]) if len(op.axis) > 1 else 1
    planes = fixed_extent(op.axis[-3]) if len(op.axis) > 2 else 1
    beside_each_other = (
        PLANES if not any(op.axis[-3] in window.fixed for window in found if len(op.axis) > 2) else PLANES[:1]
    )
    for threads in THREADS:
        for own in OWN:
            for beside in beside_each_other:
                tile = Tile(threads, own, beside)
                fits = tile.rows < 2 * rows and threads[1] < 2 * max(columns, 8) and planes % beside == 0
                small = beside == 1 or prod(threads) <= 128
                if fits and small and 2 * _shared_bytes(op, found, tile) <= gpu.block_shared:
                    yield tile


def _shared_bytes(op: Operation, found: Sequence[Window], tile: Tile) -> int:
    return sum((window.elements(tile.extents(op)) + 8 * tile.rows) * window.tensor.dtype.bytes for window in found)


def _reason(group: Group, op: Operation, found: Sequence[Window]) -> str:
    """Return the reason for which less than 16 bytes come at once, or lanes meet in banks."""
    said = (
        ["windows begin within sectors"]
        if any(len(window.steps[-1]) > 1 or window.spread[-1] for window in found)
        else []
    )
    for window in found:
        lanes, _ = _lanes(group, window.tensor)
        if lanes < lanes_of(window.tensor.dtype):
            said.append(
                f"{window.tensor.name} by {lanes * window.tensor.dtype.bytes} bytes: its rows are no whole vectors"
            )
        step = abs(window.steps[-1][op.axis[-1]])
        if step > 1:
            said.append(f"neighbours read {window.tensor.name} {step} apart, so that {gcd(step, BANKS)} meet in a bank")
    return "; ".join(said)


# Estimates


def _time(op: Operation, found: Sequence[Window], tile: Tile, gpu: Gpu) -> Estimate:
    """Blocks share the multiprocessors in waves. One loads its windows, waits, and computes: the longest of its loads from shared
    memory, of its arithmetic and of its instructions."""
    block = tile.extents(op)
    blocks = prod(ceil(fixed_extent(axis) / size) for axis, size in block.items())
    threads = prod(tile.threads) * tile.planes
    own = dict.fromkeys(op.axis, 1) | dict.fromkeys(op.axis[-2:-1], tile.own)
    taken = sum(window.elements(own) * gcd(abs(window.steps[-1][op.axis[-1]]), BANKS) for window in found)
    work = tile.own * iteration_count(op.reduce_axis) * max(window.loads for window in found)
    filled = sum(window.elements(block) * window.tensor.dtype.bytes for window in found)
    warps = ceil(threads / WARP)
    parts = (
        ("shared memory", warps * taken * WARP * WORD / gpu.shared_rate),
        ("fma throughput", warps * work * WARP / gpu.fma),
        ("instructions", warps * (taken + work + 20) / 4),
    )
    needs = threads, _shared_bytes(op, found, tile)
    return _in_waves(op, found, gpu, blocks, needs, busiest(*parts), filled)


def _time_alone(op: Operation, found: Sequence[Window], gpu: Gpu) -> Estimate:
    """Of a thread for each result, which loads whatever it reads."""
    threads = 256
    blocks = ceil(iteration_count(op.axis) / threads)
    taken = sum(window.loads for window in found) * iteration_count(op.reduce_axis)
    warps = threads // WARP
    parts = (
        ("loads", warps * taken * UNALIGNED * WARP * WORD / gpu.shared_rate),
        ("instructions", warps * (3 * taken + 20) / 4),
    )
    row = dict.fromkeys(op.axis[:-1], 1) | {op.axis[-1]: threads}
    filled = sum(window.elements(row) * window.tensor.dtype.bytes for window in found)
    return _in_waves(op, found, gpu, blocks, (threads, 0), busiest(*parts), filled)


def _in_waves(
    op: Operation,
    found: Sequence[Window],
    gpu: Gpu,
    blocks: int,
    block: tuple[int, int],
    work: tuple[str, float],
    filled: float,
) -> Estimate:
    """block: threads of one and its bytes of shared memory; work: what it does, and cycles of that; filled: bytes that it loads."""
    waves = Waves.of(gpu, blocks, block[0], OTHER_REGISTERS + 8, block[1])
    whole = sum(tensor_bytes(window.tensor) for window in found)
    stored = iteration_count(op.axis) * op.output(0).dtype.bytes
    idle = ceil(waves.count / waves.resident) * gpu.latency
    return kernel_time(
        gpu,
        (work[0], waves.count * work[1]),
        ("waiting for memory", idle),
        unique=whole + stored,
        moved=blocks * filled + stored,
    )


# Schedules


def _apply(group: Group, found: Sequence[Window], tile: Tile) -> None:
    s, anchor = group.s, group.anchor
    kept = {window.tensor: s[window.tensor] for window in found if _is_padded_here(group, window.tensor)}
    lanes = {window.tensor: _lanes(group, window.tensor) for window in found}
    stages = set(kept.values())
    for head in group.heads:
        if head.values and s[head] not in stages and not is_expensive(head) and s[head].attach_type != "inline":
            s[head].compute_inline()
    if anchor is group.output and anchor.reduction is not None:
        sums: Stage | None = s[s.cache_write(list(anchor.outputs), "local")[0]]
    else:
        sums = s[anchor] if anchor is not group.output else None
    reader = sums or s[group.output]
    copies = [
        (
            kept.get(window.tensor)
            or s[s.cache_read(s[window.tensor].op.output(window.tensor.value_index), "shared", [reader])],
            lanes[window.tensor],
        )
        for window in found
    ]
    stage = s[group.output]
    block, thread = _result(stage, tile)
    if sums is not None:
        _summed(sums, stage, thread, tile)
    for copy, (vector, shift) in copies:
        _filled(copy, (stage, block), tile, vector, shift)


def _is_padded_here(group: Group, tensor: Tensor) -> bool:
    """Return whether a tensor is computed for this group alone, and cheaply enough to be computed where windows meet once more."""
    return tensor.op in group.heads and bool(tensor.op.values) and is_plain(tensor.op) and not is_expensive(tensor.op)


def _lanes(group: Group, tensor: Tensor) -> tuple[int, int]:
    """Return the number of neighbours of a row that come at once, and how far before the first of them a vector of their source begins."""
    lanes, last = lanes_of(tensor.dtype), numeric_shape(tensor, 1)[-1]
    if not _is_padded_here(group, tensor):
        return gcd(lanes, last), 0
    op, shifts = group.s[tensor].op, set[int]()
    for load in op_loads(op):
        last = dimension(load.indices[-1])
        if not last.is_axis(op.axis[-1]) or load.dtype != tensor.dtype:
            return 1, 0
        lanes = gcd(lanes, numeric_shape(load.producer, 1)[-1])
        shifts.add(last.offset)
    return (lanes, shifts.pop() % lanes) if len(shifts) == 1 else (1, 0)


def _outside(op: Operation) -> Expr | int:
    """Return the value beyond a padded image: that no vector is of two kinds, it is also what stands where there is no element."""
    value = op.values[0]
    return (
        value.false_value if isinstance(value, IfThenElse) and isinstance(value.false_value, (IntImm, FloatImm)) else 0
    )


def _result(stage: Stage, tile: Tile) -> tuple[IterVar, IterVar]:
    """The loops of what is stored; returns that of a block and that of a thread."""
    *outer, x = stage.op.axis
    columns, column = stage.split(x, factor=tile.threads[1])
    blocks, threads, own = [columns], [column], list[IterVar]()
    for size, each in ((tile.threads[0], tile.own), (tile.planes, 1)):
        if outer:
            rows, row = stage.split(outer.pop(), factor=size * each)
            row, rest = stage.split(row, factor=each)
            blocks.insert(0, rows)
            threads.insert(0, row)
            own.append(rest)
    stage.reorder(*outer, *blocks, *threads, *own)
    block = fuse_axes(stage, [*outer, *blocks])
    stage.bind(block, thread_axis("blockIdx.x"))
    for thread, name in zip(reversed(threads), "xyz", strict=False):
        stage.bind(thread, thread_axis(f"threadIdx.{name}"))
    for axis in own:
        stage.unroll(axis)
    return block, column


def _summed(sums: Stage, stage: Stage, thread: IterVar, tile: Tile) -> None:
    """The sums of a thread in registers, which take up their terms in their order."""
    sums.set_scope("local")
    sums.compute_at(stage, thread)
    reduced, axes = list(sums.op.reduce_axis), list(sums.op.axis)
    sums.reorder(*reduced, *axes)
    inner = iteration_count(reduced) * tile.own
    for axis in reversed([*reduced, *axes]):
        if inner > UNROLLED and axis in reduced[:-1]:
            return
        sums.unroll(axis)


def _filled(copy: Stage, at: tuple[Stage, IterVar], tile: Tile, lanes: int, shift: int) -> None:
    """A block's window in shared memory, by all of its threads."""
    axes: Sequence[IterVar] = copy.op.axis
    if lanes > 1:
        moved = copy.transform_layout(
            lambda *index: [*index[:-1], (index[-1] + shift) // lanes, (index[-1] + shift) % lanes], _outside(copy.op)
        )
        assert moved is not None, "the stage computes"
        copy.vectorize(moved[-1])
        axes = moved[:-1]
        if tile.threads[1] < BANKS and len(moved) > 2 and tile.threads[1] // tile.own >= lanes:
            copy.storage_align(moved[-3], BANKS, tile.threads[1] // tile.own)  # rows of a warp lie in other banks
    copy.set_scope("shared")
    copy.compute_at(*at)
    rest = fuse_axes(copy, axes)
    for count, name in zip((tile.threads[1], tile.threads[0], tile.planes), "xyz", strict=True):
        if count > 1 or name == "x":
            rest, thread = copy.split(rest, factor=count)
            copy.bind(thread, thread_axis((0, count), f"threadIdx.{name}"))
