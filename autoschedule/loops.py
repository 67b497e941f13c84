"""Loop transformations that rules share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.expr import IterVar
from ..schedule import Stage
from ..te.shape import constant_extent

__all__ = ["MOST_BODIES", "fuse_axes", "share_loops", "split_longer", "unroll_loops", "unroll_short_loops"]

MOST_BODIES = 32
"""Bodies, multiply-adds of a sum, that are written out at most: more take longer to compile, and run no faster."""


def fuse_axes(stage: Stage, axes: Sequence[IterVar]) -> IterVar:
    """The loop over all of these."""
    return stage.fuse(*axes) if len(axes) > 1 else axes[0]


def share_loops(stage: Stage, axes: Sequence[IterVar], threads: bool = True) -> IterVar:
    """Fuse loops, whose iterations threads share, if they are worth them; return the loop over all."""
    task = fuse_axes(stage, axes)
    if threads:
        stage.parallel(task)
    return task


def split_longer(stage: Stage, axis: IterVar, extent: int | None, factor: int) -> tuple[list[IterVar], IterVar]:
    """Split a loop that has more than `factor` iterations, or so many as a call says; return the outer loop, if there is one, and the
    inner one."""
    if extent is not None and extent <= factor:
        return [], axis
    outer, inner = stage.split(axis, factor=factor)
    return [outer], inner


def unroll_loops(stage: Stage, loops: Iterable[IterVar]) -> None:
    """Write out several loops."""
    for axis in loops:
        stage.unroll(axis)


def unroll_short_loops(stage: Stage, loops: Sequence[IterVar], bodies: int = 1) -> list[IterVar]:
    """Write out the innermost of these loops, as far as their bodies together are few. Returns those that stay loops."""
    left = list(loops)
    while left and (bodies := bodies * (constant_extent(left[-1]) or MOST_BODIES + 1)) <= MOST_BODIES:
        stage.unroll(left.pop())
    return left
