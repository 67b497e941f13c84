"""Programs of many kernels: how trials are shared among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from ..base.errors import user_source
from ..codegen.target import Target
from ..ir.expr import IntImm
from ..schedule import Schedule
from ..te import Tensor
from .errors import NothingToTune

__all__ = ["Kernel", "Parted", "find_kernels", "shares"]

_LEAST = 2
"""So many trials each kernel gets at least: the rules' choice, and one beside it."""


class Kernel(Protocol):
    """A part: its name, how often it runs, its tensors (inputs, then outputs), and the schedule that rules choose for it."""

    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def tensors(self) -> tuple[Tensor, ...]: ...
    def schedule(self, target: str | Target = ...) -> Schedule: ...


class Parted(Protocol):
    """Interface of what is made of kernels: a graph."""

    def tasks(self, *, target: str | Target = ...) -> Sequence[Kernel]: ...


def find_kernels(what: Any, target: str | Target) -> list[Kernel] | None:
    """The kernels of a graph, or of a list of them, whose sizes are known; None where it is neither. Raises NothingToTune (TW0601)
    where no sizes are."""
    tasks = what.tasks(target=target) if hasattr(what, "tasks") else what
    given = cast("Sequence[Any]", tasks) if isinstance(tasks, (list, tuple)) else ()
    if not given or not all(hasattr(one, "tensors") and hasattr(one, "count") for one in given):
        return None
    known = [
        kernel
        for kernel in cast("Sequence[Kernel]", given)
        if all(isinstance(extent, IntImm) for tensor in kernel.tensors for extent in tensor.shape)
    ]
    if not known:
        raise NothingToTune(
            "cannot tune kernels for any size",
            reason="the sizes of all of them are symbols",
            called=user_source(),
            fix='autotune.tune(g.tasks(buckets=[{"n": 1}, {"n": 8}])), or give the sizes when the model is read',
        )
    return known


def shares(kernels: Sequence[Kernel], target: str | Target, trials: int) -> dict[str, int]:
    """Return how many of the trials each kernel gets, by its name: as much of them as it has of a call's estimated time."""
    times = {
        kernel.name: kernel.count * sum(row.seconds or 0.0 for row in kernel.schedule(target).plan)
        for kernel in kernels
    }
    whole = sum(times.values()) or 1.0
    return {name: max(_LEAST, round(trials * seconds / whole)) for name, seconds in times.items()}
