"""Which results are stored past the caches: those that would drive out what they are made of, and not stay themselves."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from ...ir.expr import IterVar
from ..reading import elements

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["last_cache", "stream"]

_USUAL = 32 << 20


def stream(group: Group, axis: IterVar) -> None:
    """Lets a loop of the group's output, vectorized, store past the caches, where the output and as much that it reads do not
    fit into the last cache. What a tensor of unknown size does is not known, so it stays."""
    output = group.output.output(0)
    size = elements(group.output)
    if size is not None and 2 * size * output.dtype.bytes >= last_cache():
        group.s[group.output].pragma(axis, "nontemporal_store")


@cache
def last_cache() -> int:
    """Bytes of this machine's last cache, or of what is usual where the system does not say."""
    found = os.sysconf("SC_LEVEL3_CACHE_SIZE") if "SC_LEVEL3_CACHE_SIZE" in os.sysconf_names else 0
    return found if found > 0 else _USUAL
