"""Loop transformations that rules share."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.expr import IterVar
from ..schedule import Stage
from ..te.shape import constant_extent

__all__ = ["MOST_BODIES", "fuse_axes", "unroll_short_loops"]

MOST_BODIES = 32
"""Bodies, multiply-adds of a sum, that are written out at most: more take longer to compile, and run no faster."""


def fuse_axes(stage: Stage, axes: Sequence[IterVar]) -> IterVar:
    """The loop over all of these."""
    return stage.fuse(*axes) if len(axes) > 1 else axes[0]


def unroll_short_loops(stage: Stage, loops: Sequence[IterVar], bodies: int = 1) -> list[IterVar]:
    """Write out the innermost of these loops, as far as their bodies together are few. Returns those that stay loops."""
    left = list(loops)
    while left and (bodies := bodies * (constant_extent(left[-1]) or MOST_BODIES + 1)) <= MOST_BODIES:
        stage.unroll(left.pop())
    return left
