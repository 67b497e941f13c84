"""Programs as kernels, for whoever cuts larger ones: which are one group, and the time that one takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..codegen.target import Target
from ..schedule import create_schedule
from ..te.tensor import Tensor
from .cpu.rules import RULES
from .factoring import estimate_alone
from .groups import cut
from .plan import cheapest
from .scheduler import schedule_groups

__all__ = ["estimate_seconds", "is_one_group"]


def is_one_group(outputs: Sequence[Tensor]) -> bool:
    """Return whether the rules would schedule these as one group, without stages of their own before it: reductions over the same rows
    with what stands around them, or one operation with what is inlined into it and follows it. What only some machines compute
    together (chains of stencils, sums within sums) is none."""
    pieces = cut(create_schedule([tensor.op for tensor in outputs]), RULES)
    return len(pieces) == 1 and bool(pieces[0].tag or not pieces[0].heads)


def estimate_seconds(output: Tensor, target: Target) -> float:
    """Return the time of a program as its operations are declared, without alternatives to them, by the estimates of its plan."""
    scheduled = partial(schedule_groups, target=target, exact=False, chooser=cheapest, known={}, whole=True)
    return estimate_alone(scheduled, output.op).seconds
