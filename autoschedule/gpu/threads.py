"""Helpers that rules for GPUs share: threads, vectors, launches."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from ...ir import DType, IntImm, IterVar
from ...ir.analysis.warps import SECTOR, WARP
from ...ir.analysis.warps import WIDEST as VECTOR
from ...schedule.model.inlining import expand_inlined
from ...te.rewrite import collect_loads
from ...te.tensor import find_tensor
from ..accesses import source
from ..forms.contraction import Contraction
from ..loops import unroll_loops
from ..operations import fixed_extent, iteration_count

if TYPE_CHECKING:
    from ...schedule import Stage

__all__ = [
    "EACH",
    "SECTOR",
    "THREADS",
    "VECTOR",
    "WARP",
    "lanes_along_last",
    "count_lanes",
    "explain_width",
    "keep_in_registers",
]

THREADS = 256
"""Of a block that needs no particular number."""
EACH = 4
"""What hides waits: results of a thread along an axis, terms or iterations of a shared sum, blocks of a multiprocessor."""


def count_lanes(dtype: DType) -> int:
    """Return the number of elements that a thread loads or stores at once."""
    return max(VECTOR * 8 // max(dtype.bits, 8), 1)


def lanes_along_last(stage: Stage) -> int:
    """Return the number of neighbours along its last axis that a copy loads at once, where what it reads lies as it
    does, in whole rows; else 1.
    """
    last = stage.op.axis[-1]
    lanes = gcd(count_lanes(stage.op.output(0).dtype), fixed_extent(last))
    for load in collect_loads(expand_inlined(stage)):
        extent = load.producer.shape[-1]
        if not load.indices or load.indices[-1] is not last or not isinstance(extent, IntImm):
            return 1
        lanes = gcd(lanes, extent.value, count_lanes(find_tensor(load).dtype))
    return lanes


def keep_in_registers(copy: Stage, at: tuple[Stage, IterVar]) -> None:
    """Have each thread copy what it reads in an iteration of a loop, neighbours along the last axis at once."""
    copy.compute_at(*at)
    copy.vectorize(copy.op.axis[-1])
    unroll_loops(copy, copy.op.axis[:-1])


def explain_width(found: Contraction, dtype: DType) -> str:
    """Return the reason for which a product moves less than 16 bytes at once, "A by 4 bytes:

    rows of 65"; empty where it does not. dtype: of the result.
    """
    reasons: list[str] = []
    for load in (found.a, found.b):
        together, lanes = found.neighbours(load), count_lanes(load.dtype)
        if together % lanes:
            why = f"rows of {together}" if together > 1 else "windows, or elements apart"
            reasons.append(f"{source(load).name} by {gcd(together, lanes) * load.dtype.bytes} bytes: {why}")
    columns, lanes = iteration_count(found.columns), count_lanes(dtype)
    if columns % lanes:
        reasons.append(f"the result by {gcd(columns, lanes) * dtype.bytes} bytes: rows of {columns}")
    return "; ".join(reasons)
