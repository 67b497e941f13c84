"""Measuring candidates on a GPU: the processes of other measurements, whose arrays lie in its memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from ..autoschedule.scheduler import schedule
from ..base import dataclass, replace
from ..codegen.target import Target
from ..ir.stmt import Function
from ..runtime.cuda_binding import find_binding
from ..schedule import Schedule
from ..schedule.lowering.lower import lower
from .comparison import Load
from .measure import Measurer
from .outcome import Limits
from .search import loops_text
from .task import Task, gpu_text
from .workload import Workload

__all__ = ["FirstGpu"]

_ADDRESSES = 1 << 46
"""Bytes of address space that a process may take: the driver asks for as much as all memories have."""


@dataclass(frozen=True)
class FirstGpu:
    """The first GPU of this machine. Raises DriverMissing (TW0830), GpuMissing (TW0831), PycudaMissing (TW0832)."""

    target: Target

    def __post_init__(self) -> None:
        find_binding()  # raises where there is none, before anything is prepared

    @property
    def machine(self) -> str:
        return gpu_text(self.target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """There is nothing to leave."""

    def load(self) -> Load:
        """Return what else a GPU does nobody tells."""
        return Load()

    def text(self, task: Task) -> Callable[[Schedule, Function], str]:
        del task
        return loops_text

    def measurer(self, task: Task, limits: Limits | None, inputs: Sequence[Any] | None) -> Measurer:
        """The reference is what this machine's processor computes by the rules: it is there in seconds for what a GPU does in
        milliseconds."""  # by the rules, as the unscheduled program may take minutes on a processor
        asked = limits or Limits()
        plain = lower(schedule(task.outputs), list(task.args), "main")
        workload = replace(Workload.of(task, inputs), unscheduled=str(plain))
        # CUDA maps address space far beyond the memory that is used
        return Measurer(workload, replace(asked, timeout=max(asked.timeout, 60.0), memory=_ADDRESSES))
