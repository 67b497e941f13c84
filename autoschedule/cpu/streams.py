"""Non-temporal stores: results that would evict what they are made of, and not stay in the cache themselves. And
which operands are asked for ahead: those that are read from memory, once."""

from __future__ import annotations

from math import prod

from ...ir.expr import IntImm, IterVar
from ...schedule import Stage
from ...te.operation import Operation
from ..cost.cpu import PAGE
from ..loops import fuse_axes
from ..operations import elements

__all__ = ["BLOCK", "LAST_CACHE", "LINES", "PASSES", "prefetch_pages", "stream", "streams", "sweep_past_caches"]

LAST_CACHE = 32 << 20
"""Bytes that a last cache has for one program: what is usual, since a virtual machine has an unknown part."""
PASSES = 4
"""Tiles that read a panel, or a chunk of weights, from which on it is worth asking for the next one beside them."""
BLOCK = 8192
"""Elements that are stored in one go: lines at its ends may be stored in two parts."""
LINES = 2
"""Lines of the cache that have to lie side by side: of fewer columns, each row would be a stream of its own from memory."""
STEPS = 16
"""Steps in a page at most, which is what processors see to be one stream, each of which asks for its lines: a shorter one takes longer
to ask than to read."""


def streams(op: Operation) -> bool:
    """Return whether what `op` computes goes past the caches: it and as much that it reads do not fit into the last one. Of unknown
    sizes that is not known."""
    size = elements(op)
    return size is not None and op.num_outputs == 1 and 2 * size * op.output(0).dtype.bytes >= LAST_CACHE


def stream(stage: Stage, axis: IterVar) -> None:
    """Let a loop, vectorized, store past the caches where what the stage computes goes there."""
    if streams(stage.op):
        stage.pragma(axis, "nontemporal_store")


def prefetch_pages(stage: Stage, axis: IterVar, step: int) -> None:
    """Let each iteration of a loop ask for what lies a page further on in the arguments that no cache holds, of which it reads
    `step` elements side by side."""
    for tensor in stage.op.input_tensors:
        known, read = [extent.value for extent in tensor.shape if isinstance(extent, IntImm)], step * tensor.dtype.bytes
        fits = len(known) < tensor.ndim or prod(known) * tensor.dtype.bytes < LAST_CACHE
        if tensor.op.is_passed and not fits and read * STEPS >= PAGE:
            stage.prefetch(tensor, axis, max(PAGE // read, 1), level=2)


def sweep_past_caches(stage: Stage) -> None:
    """Schedules a stage each of whose elements is made of others at the same place."""
    axes = list(stage.op.axis)
    outer, inner = stage.split(fuse_axes(stage, axes), factor=BLOCK)
    stage.parallel(outer)
    stage.vectorize(inner)
    stream(stage, inner)
