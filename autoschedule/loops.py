"""Loop transformations that rules share."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.expr import IterVar
from ..schedule import Stage

__all__ = ["MOST_BODIES", "fuse_axes"]

MOST_BODIES = 32
"""Bodies, multiply-adds of a sum, that are written out at most: more take longer to compile, and run no faster."""


def fuse_axes(stage: Stage, axes: Sequence[IterVar]) -> IterVar:
    """The loop over all of these."""
    return stage.fuse(*axes) if len(axes) > 1 else axes[0]
