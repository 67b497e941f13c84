"""tvm.te.hybrid: scripts are ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....schedule import Schedule
from .....te import hybrid as _ours
from .....te.hybrid import *  # noqa: F403  (the names that scripts are written in)
from ...driver import Module
from ...driver import build as _build
from . import runtime

__all__ = ["build", "runtime"]
__all__ += _ours.__all__


def build(sch: Schedule, inputs: Sequence[Any], outputs: Sequence[Any], name: str = "hybrid_func") -> Module:
    """The kernel of a schedule, called with its inputs and then its outputs. TVM's is a script's text; ours is native code."""
    return _build(sch, [*inputs, *outputs], name=name)
