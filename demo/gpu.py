"""A matrix product for a GPU, through shared memory and registers: the demo's last part, run by the emulator."""

from __future__ import annotations

from .. import te
from ..schedule import Schedule
from .matmul import declare

BLOCK, THREADS, STEP = 32, 8, 8
"""A block computes BLOCK x BLOCK elements with THREADS x THREADS threads, STEP of the reduction at a time."""


def tiled(size: int) -> tuple[Schedule, list[te.Tensor]]:
    """C = A B: each block fetches its rows of A and columns of B together, each thread sums a tile in registers."""
    a, b, c = declare(size)
    s = te.create_schedule(c)
    sums = s.cache_write(c, "local")
    row, column = c.op.axis
    block_y, row = s[c].split(row, BLOCK)
    block_x, column = s[c].split(column, BLOCK)
    thread_y, row = s[c].split(row, nparts=THREADS)
    thread_x, column = s[c].split(column, nparts=THREADS)
    s[c].reorder(block_y, block_x, thread_y, thread_x, row, column)
    axes = {name: te.thread_axis((0, THREADS), name) for name in ("threadIdx.x", "threadIdx.y")}
    s[c].bind(block_y, te.thread_axis("blockIdx.y"))
    s[c].bind(block_x, te.thread_axis("blockIdx.x"))
    s[c].bind(thread_y, axes["threadIdx.y"])
    s[c].bind(thread_x, axes["threadIdx.x"])
    s[sums].compute_at(s[c], thread_x)
    outer, inner = s[sums].split(sums.op.reduce_axis[0], STEP)
    s[sums].reorder(outer, inner, *sums.op.axis)
    for source in (a, b):
        shared = s.cache_read(source, "shared", [sums])
        s[shared].compute_at(s[sums], outer)
        y, x = shared.op.axis
        y, _ = s[shared].split(y, nparts=THREADS)
        x, _ = s[shared].split(x, nparts=THREADS)
        s[shared].reorder(y, x)
        s[shared].bind(y, axes["threadIdx.y"])
        s[shared].bind(x, axes["threadIdx.x"])
    return s, [a, b, c]
