"""Classes on which the schedule primitives stand as methods: each row puts its function on one of these classes.

What stands there, for type checkers and editors, is in methods.pyi, which docs/make_primitives.py writes from the rows.
"""

from __future__ import annotations

from typing import Any

from ...te.unknown_names import unknown_name
from ..errors import NoSuchPrimitive

__all__ = ["GroupPrimitives", "SchedulePrimitives", "StagePrimitives"]


class _Named:
    """Base class that suggests a name where an unknown one is asked for."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        known = {each for each in dir(type(self)) if not each.startswith("_")}
        of_stages = {} if isinstance(self, StagePrimitives) else {each: f"s[T].{each}" for each in dir(StagePrimitives)}
        raise unknown_name(NoSuchPrimitive, type(self).__name__, name, known, of_stages)


class StagePrimitives(_Named):
    """The primitives of a stage: s[T].split(axis, factor=8)."""

    __slots__ = ()


class SchedulePrimitives(_Named):
    """The primitives of a whole schedule: s.cache_read(A, "shared", [C])."""


class GroupPrimitives:
    """The primitives of a group of stages: g.compute_at(s[C], axis)."""

    __slots__ = ()
