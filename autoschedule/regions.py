"""Programs that are one group, for whoever cuts larger ones into kernels."""

from __future__ import annotations

from collections.abc import Sequence

from ..schedule import create_schedule
from ..te.tensor import Tensor
from .cpu.rules import RULES
from .groups import cut

__all__ = ["is_one_group"]


def is_one_group(outputs: Sequence[Tensor]) -> bool:
    """Return whether the rules would schedule these as one group, without stages of their own before it: reductions over the same rows
    with what stands around them, or one operation with what is inlined into it and follows it. What only some machines compute
    together (chains of stencils, sums within sums) is none."""
    pieces = cut(create_schedule([tensor.op for tensor in outputs]), RULES)
    return len(pieces) == 1 and bool(pieces[0].tag or not pieces[0].heads)
