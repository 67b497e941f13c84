"""Which results are stored past the caches: those that would drive out what they are made of, and not stay themselves."""

from __future__ import annotations

import os
from functools import cache

from ...ir.expr import IterVar
from ...schedule import Stage
from ...te.operation import Operation
from ..reading import elements

__all__ = ["last_cache", "stream", "streams", "sweep_past_caches"]

_USUAL = 32 << 20
BLOCK = 8192
"""Elements that are stored in one go: lines at its ends may be stored in two parts."""


def streams(op: Operation) -> bool:
    """Whether what `op` computes goes past the caches: it and as much that it reads do not fit into the last one. Of unknown
    sizes that is not known."""
    size = elements(op)
    return size is not None and op.num_outputs == 1 and 2 * size * op.output(0).dtype.bytes >= last_cache()


def stream(stage: Stage, axis: IterVar) -> None:
    """Lets a loop, vectorized, store past the caches where what the stage computes goes there."""
    if streams(stage.op):
        stage.pragma(axis, "nontemporal_store")


def sweep_past_caches(stage: Stage) -> None:
    """Schedules a stage each of whose elements is made of others at the same place."""
    axes = list(stage.op.axis)
    outer, inner = stage.split(stage.fuse(*axes) if len(axes) > 1 else axes[0], factor=BLOCK)
    stage.parallel(outer)
    stage.vectorize(inner)
    stream(stage, inner)


@cache
def last_cache() -> int:
    """Bytes of this machine's last cache, or of what is usual where the system does not say."""
    found = os.sysconf("SC_LEVEL3_CACHE_SIZE") if "SC_LEVEL3_CACHE_SIZE" in os.sysconf_names else 0
    return found if found > 0 else _USUAL
