"""Products whose terms blocks share, where the result alone makes too few blocks: parts of each sum by one kernel, and their sum by
another.

    C[i, j] = sum over k of A[i, k] * B[k, j]          parts[p, i, j] = sum over k of A[i, p * 512 + k] * B[p * 512 + k, j]
                                                →      C[i, j] = sum over p of parts[p, i, j]           16 bytes a thread

Sums of floats come out in another order, which exact=True forbids. (CUTLASS calls it parallel split-k.)
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import TYPE_CHECKING

from ...codegen.gpus import Gpu
from ...te.tensor import Tensor
from ..cost.gpu import LAUNCH
from ..forms.contraction import Contraction
from ..operations import fixed_extent, iteration_count
from .elements import vectors_a_thread
from .threads import count_lanes

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["sum_in_parts", "list_splits", "time_of_parts"]

MOST = 64
"""Parts of a sum, at most: as many reads for each result."""
EACH = 4
"""Iterations of the main loop in a part, at least."""


def list_splits(blocks: int, iterations: int, gpu: Gpu) -> Iterator[int]:
    """Into how many parts sums are worth cutting, 1 first. blocks: that the whole ones make; iterations: of their main loops."""
    splits = 1
    while splits <= MOST and (splits == 1 or blocks * splits <= 2 * gpu.processors and iterations >= splits * EACH):
        yield splits
        splits *= 2


def time_of_parts(found: Contraction, splits: int, item: int, gpu: Gpu) -> float:
    """Seconds that parts take beyond sums at once: all of them are stored, loaded and added up by a kernel of its own. item: bytes
    of a sum."""
    if splits == 1:
        return 0.0
    stored = splits * item * iteration_count((*found.outer, *found.rows, *found.columns))
    rate = gpu.l2_rate if stored < gpu.l2 / 2 else gpu.memory_rate
    return LAUNCH + (2 * stored / rate + 2 * gpu.latency) / (gpu.clock * 1e9)


def sum_in_parts(group: Group, whole: Tensor, splits: int) -> Tensor:
    """Split the sums of a matrix into `splits` of neighbouring terms each, the number of the part being the first dimension,
    and has another kernel add them up. Returns the parts."""
    s = group.s
    part, _ = s[whole].split(s[whole].op.reduce_axis[0], nparts=splits)
    parts = s.rfactor(whole, part, 0)
    stage, sums = s[group.output], s[whole]
    thread = vectors_a_thread(stage, gcd(count_lanes(stage.op.output(0).dtype), fixed_extent(stage.op.axis[-1])))
    sums.set_scope("local")
    sums.compute_at(stage, thread)
    sums.reorder(*sums.op.reduce_axis, *sums.op.axis)
    sums.vectorize(sums.op.axis[-1])
    return parts
