"""Hybrid script: Python functions of loops, ifs and assignments as operations; and the names that scripts are written in, which
need no import, for those who like to see one."""

from __future__ import annotations

from .op import HybridOp
from .runtime import (
    allocate,
    atomic_add,
    bind,
    const_range,
    output_tensor,
    parallel,
    serial,
    unroll,
    unrolled,
    vectorize,
    vectorized,
)
from .script import HybridScript, script

__all__ = [
    "HybridOp",
    "HybridScript",
    "allocate",
    "atomic_add",
    "bind",
    "const_range",
    "output_tensor",
    "parallel",
    "script",
    "serial",
    "unroll",
    "unrolled",
    "vectorize",
    "vectorized",
]
