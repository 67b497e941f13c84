"""Which results are stored past the caches: those that would drive out what they are made of, and not stay themselves."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from ...ir.expr import IterVar
from ..reading import elements

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["last_cache", "stream", "streams"]

_USUAL = 32 << 20


def streams(group: Group) -> bool:
    """Whether the group's output goes past the caches: it and as much that it reads do not fit into the last one. Of unknown
    sizes that is not known."""
    size = elements(group.output)
    return size is not None and 2 * size * group.output.output(0).dtype.bytes >= last_cache()


def stream(group: Group, axis: IterVar) -> None:
    """Lets a loop of the group's output, vectorized, store past the caches where the output goes there."""
    if streams(group):
        group.s[group.output].pragma(axis, "nontemporal_store")


@cache
def last_cache() -> int:
    """Bytes of this machine's last cache, or of what is usual where the system does not say."""
    found = os.sysconf("SC_LEVEL3_CACHE_SIZE") if "SC_LEVEL3_CACHE_SIZE" in os.sysconf_names else 0
    return found if found > 0 else _USUAL
