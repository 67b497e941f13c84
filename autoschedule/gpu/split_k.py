"""Products whose terms blocks share, where the result alone makes too few blocks: parts of each sum by one kernel, and their sum by
another.

    C[i, j] = sum over k of A[i, k] * B[k, j]          parts[p, i, j] = sum over k of A[i, p * 512 + k] * B[p * 512 + k, j]
                                                →      C[i, j] = sum over p of parts[p, i, j]           16 bytes a thread

Sums of floats come out in another order, which exact=True forbids. (CUTLASS calls it parallel split-k.) The chunks of an online sum
are shared so, too: parts of the keys of a model that writes word by word (Dao et al. 2023, Flash-Decoding).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, gcd
from typing import TYPE_CHECKING

from ...codegen.gpus import Gpu
from ...ir.expr import IterVar
from ...te.tensor import Tensor
from ..forms.online import OnlineForm, Rows
from ..operations import fixed_extent
from .elements import vectors_a_thread
from .threads import EACH, count_lanes

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage
    from ..groups import Group

__all__ = ["list_chunk_splits", "list_splits", "split_chunks", "sum_in_parts"]

MOST = 64
"""Parts of a sum, at most: as many reads for each result."""


def list_splits(blocks: int, iterations: int, gpu: Gpu) -> Iterator[int]:
    """The numbers of parts into which sums are worth cutting, 1 first, then the two largest powers of 2. blocks: of whole sums;
    iterations: of their main loops."""
    yield 1
    most = min(MOST, 2 * gpu.processors // blocks, iterations // EACH).bit_length()
    yield from (2**by for by in range(max(most - 2, 1), most))


def list_chunk_splits(form: OnlineForm, rows: int, terms: int, gpu: Gpu) -> Iterator[int]:
    """The numbers of parts into which the chunks of an online sum are worth cutting. rows: of a block; terms: of a chunk."""
    all_rows, all_terms, _, _, batch = form.sizes
    if form.share < 1:  # rows have chunks of their own number
        yield 1
    else:
        yield from list_splits(batch * ceil(all_rows / rows), ceil(all_terms / terms), gpu)


def sum_in_parts(group: Group, whole: Tensor, splits: int) -> Tensor:
    """Split the sums of a matrix into `splits` of neighbouring terms each, the number of the part being the first dimension,
    and has another kernel add them up. Returns the parts."""
    parts = group.s.rfactor(whole, _part(group.s[whole], splits), 0)
    _add_parts(group.s[whole], group.s[group.output])
    return parts


def split_chunks(s: Schedule, form: OnlineForm, merged: Stage, splits: int) -> tuple[list[Tensor], Rows]:
    """Let blocks merge `splits` parts of the chunks of an online sum, and another kernel merge these. Returns the parts, and how
    their axes run over the rows."""
    parts = s.rfactor(list(merged.op.outputs), _part(merged, splits), 0)
    _add_parts(merged, s[form.output])
    return parts, Rows(1 + form.of_merged)


def _part(sums: Stage, splits: int) -> IterVar:
    """Return the loop over parts of what is summed."""
    return sums.split(sums.op.reduce_axis[0], nparts=splits)[0]


def _add_parts(sums: Stage, stage: Stage) -> None:
    """Have the threads that compute a stage add up parts of its sums, in registers."""
    thread = vectors_a_thread(stage, gcd(count_lanes(stage.op.output(0).dtype), fixed_extent(stage.op.axis[-1])))
    sums.set_scope("local")
    sums.compute_at(stage, thread)
    sums.reorder(*sums.op.reduce_axis, *sums.op.axis)
    sums.vectorize(sums.op.axis[-1])
