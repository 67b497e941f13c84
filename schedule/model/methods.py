"""Where the schedule primitives stand as methods: each row puts its function on one of these classes.

What stands there, for type checkers and editors, is in methods.pyi, which docs/make_primitives.py writes from the rows.
"""

from __future__ import annotations

__all__ = ["GroupPrimitives", "SchedulePrimitives", "StagePrimitives"]


class StagePrimitives:
    """The primitives of a stage: s[T].split(axis, factor=8)."""

    __slots__ = ()


class SchedulePrimitives:
    """The primitives of a whole schedule: s.cache_read(A, "shared", [C])."""


class GroupPrimitives:
    """The primitives of a group of stages: g.compute_at(s[C], axis)."""

    __slots__ = ()
