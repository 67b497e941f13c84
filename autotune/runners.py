"""Runners of candidates: this machine, a board that ssh reaches, or the machines of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

from ..base.arguments import is_a
from ..base.errors import user_source
from ..codegen.target import Target
from ..ir.stmt import Function
from ..schedule import Schedule
from .comparison import Load
from .device import FirstGpu
from .errors import BadTuningOption, TargetCannotBeTuned
from .fleet import Fleet
from .measure import Measurer, Measuring
from .outcome import Limits
from .ranking import Emulator
from .search import loops_text
from .ssh import BoardPlace
from .task import Task, gpu_text, machine_text, ranks_text

__all__ = ["Here", "Place", "make_runner"]


class Place(Protocol):
    """Machine that measures.

    machine: as keys name it.
    """

    @property
    def machine(self) -> str: ...

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

    def load(self) -> Load:
        """Return what else it does, as far as that is known here."""
        ...

    def text(self, task: Task) -> Callable[[Schedule, Function], str]:
        """Return what it is told of a candidate: its schedule, and the loops that this stands for."""
        ...

    def measurer(self, task: Task, limits: Limits | None, inputs: Sequence[Any] | None) -> Measuring:
        """Return what measures the candidates of a task there."""
        ...


class Here:
    """This machine. Raises TargetCannotBeTuned (TW0603) for a target whose code does not run on it."""

    def __init__(self, target: Target) -> None:
        if not target.is_native:
            raise TargetCannotBeTuned(
                f"cannot tune for target {str(target)!r}",
                called=user_source(),
                reason="its kernels do not run on this machine's CPU",
                allowed='"llvm", or "llvm -mcpu=... -mattr=..." of instructions that this CPU has',
                fix='target="llvm", or runner="ssh://board" for a machine that it is for',
            )

    @property
    def machine(self) -> str:
        return machine_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """There is nothing to leave."""

    def load(self) -> Load:
        return Load.measure()

    def text(self, task: Task) -> Callable[[Schedule, Function], str]:
        del task
        return loops_text

    def measurer(self, task: Task, limits: Limits | None, inputs: Sequence[Any] | None) -> Measuring:
        return Measurer(task, limits, inputs)


def make_runner(runner: Any, target: Target) -> Place:
    """Return what `tune` takes as its runner. Raises BadTuningOption (TW0604), TargetCannotBeTuned (TW0603) and RunnerLost (TW0613)."""
    if runner is None:
        if target.backend.for_processors:
            return Here(target)
        return Emulator(target) if gpu_text(target) == ranks_text(target) else FirstGpu(target)
    if is_a(runner, str) and runner.startswith("ssh://"):
        return BoardPlace(runner, target)
    if (
        is_a(runner, str)
        and runner.startswith(("tcp://", "tls://"))
        or type(runner).__module__.startswith("distributed.")
    ):
        return Fleet(runner)
    raise BadTuningOption(
        f"there is no runner {runner!r}",
        called=user_source(),
        fix='runner="ssh://board"',
        allowed='None (this machine), "ssh://user@host:port/folder", or a Dask scheduler: "tcp://host:port", '
        '"tls://host:port", a distributed.Client',
    )
