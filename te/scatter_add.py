"""Elements that are sums of values, each added at a place of its own."""

from __future__ import annotations

from ..base.dataclass import dataclass
from ..ir.expr import Expr, IterVar

__all__ = ["Addition"]


@dataclass(frozen=True, slots=True, eq=False)
class Addition:
    """Addition of `value` to the element at `place`, for each point of `axes` where all conditions hold.

    conditions: each with whether what stands behind it may be evaluated only where it holds.
    """

    value: Expr
    axes: tuple[IterVar, ...]
    place: tuple[Expr, ...]
    conditions: tuple[tuple[Expr, bool], ...] = ()
