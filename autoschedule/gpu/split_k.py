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
from ..operations import fixed_extent
from .elements import vectors_a_thread
from .threads import count_lanes

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["list_splits", "sum_in_parts"]

MOST = 64
"""Parts of a sum, at most: as many reads for each result."""
EACH = 4
"""Iterations of the main loop in a part, at least."""


def list_splits(blocks: int, iterations: int, gpu: Gpu) -> Iterator[int]:
    """The numbers of parts into which sums are worth cutting, 1 first, then the two largest powers of 2. blocks: of whole sums;
    iterations: of their main loops."""
    yield 1
    most = min(MOST, 2 * gpu.processors // blocks, iterations // EACH).bit_length()
    yield from (2**by for by in range(max(most - 2, 1), most))


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
