"""topi.tag: the words that operators are tagged with."""

from __future__ import annotations

__all__ = ["BROADCAST", "COMM_REDUCE", "COMM_REDUCE_IDX", "ELEMWISE", "INJECTIVE", "is_broadcast", "is_injective"]

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Return whether elements are made of elements at the same place, or broadcast."""
    return tag in (ELEMWISE, BROADCAST)


def is_injective(tag: str) -> bool:
    """Return whether each element is made of single elements."""
    return tag in (ELEMWISE, BROADCAST, INJECTIVE)
