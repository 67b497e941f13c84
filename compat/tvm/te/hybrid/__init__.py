"""tvm.te.hybrid: scripts are ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....driver.lower import lower
from .....schedule import Schedule
from .....te import hybrid as _ours
from .....te.hybrid import *  # noqa: F403  (the names that scripts are written in)
from . import runtime
from .module import HybridModule

__all__ = ["HybridModule", "build", "runtime"]
__all__ += _ours.__all__


def build(sch: Schedule, inputs: Sequence[Any], outputs: Sequence[Any], name: str = "hybrid_func") -> HybridModule:
    """The loops of a schedule as a function of its inputs that returns its outputs."""
    module = HybridModule()
    module.function = lower(sch, [*inputs, *outputs], name)
    return module
