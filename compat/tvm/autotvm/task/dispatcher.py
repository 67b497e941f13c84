"""tvm.autotvm.task.dispatcher: which configuration a template takes when it is called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from .....base.errors import PerformanceWarning, user_source, warn_user
from ...target import Target
from .space import ConfigSpace, FallbackConfigEntity

__all__ = ["ApplyConfig", "ApplyFixedConfig", "DispatchContext", "FallbackContext", "Workload"]

Workload = tuple[Any, ...]


class DispatchContext:
    """`with context:` makes it the one that templates ask. Where it has no answer, the one around it is asked."""

    current: ClassVar[DispatchContext]

    def __init__(self) -> None:
        self._around: DispatchContext | None = None

    def query(self, target: Target | None, workload: Workload | None) -> ConfigSpace:
        """The configuration of a workload on a target."""
        config = self._query_inside(target, workload)
        if config is not None:
            return config
        around = self._around if self._around is not None else DispatchContext.current
        return (around if around is not self else _FALLBACK).query(target, workload)

    def _query_inside(self, target: Target | None, workload: Workload | None) -> ConfigSpace | None:
        del target, workload
        return None

    def update(self, target: Target, workload: Workload, cfg: ConfigSpace) -> None:
        """Answer with `cfg` from now on."""
        raise TypeError(f"{type(self).__name__} holds no configurations to be updated")

    def __enter__(self) -> DispatchContext:
        self._around = DispatchContext.current
        DispatchContext.current = self
        return self

    def __exit__(self, *_: object) -> None:
        assert self._around is not None
        DispatchContext.current, self._around = self._around, None


class ApplyConfig(DispatchContext):
    """One configuration for whatever asks. workload: of who asked last."""

    def __init__(self, config: ConfigSpace) -> None:
        super().__init__()
        self.config, self.workload = config, None

    def _query_inside(self, target: Target | None, workload: Workload | None) -> ConfigSpace:
        del target
        self.workload = workload or self.workload
        return self.config


class ApplyFixedConfig(DispatchContext):
    """The configurations of tasks that are given: [(task, config)]."""

    def __init__(self, tasks: Iterable[tuple[Any, ConfigSpace]]) -> None:
        super().__init__()
        self._configs = {task.workload: config for task, config in tasks}

    def _query_inside(self, target: Target | None, workload: Workload | None) -> ConfigSpace | None:
        del target
        return self._configs.get(workload) if workload is not None else None


class FallbackContext(DispatchContext):
    """Dispatcher for workloads that were not tuned: a configuration of first choices, and a warning, once a workload."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[tuple[str, Workload | None], ConfigSpace] = {}
        self.messages: set[Workload] = set()
        self.silent = False

    def query(self, target: Target | None, workload: Workload | None) -> ConfigSpace:
        """A configuration that was given by `update`, or one of first choices."""
        config = self.memory.get((str(target), workload))
        if config is not None:
            return config
        if workload is not None and workload not in self.messages and not self.silent:
            self.messages.add(workload)
            warn_user(
                user_source(),
                f"no record for target={target}, workload={workload}: the first choice of every part is used",
                PerformanceWarning,
            )
        return FallbackConfigEntity()

    def update(self, target: Target, workload: Workload, cfg: ConfigSpace) -> None:
        """Answer with `cfg` from now on."""
        self.memory[str(target), workload] = cfg

    def clear_cache(self, target: Target, workload: Workload) -> None:
        """Forgets what `update` was given."""
        self.memory.pop((str(target), workload), None)


_FALLBACK = FallbackContext()
DispatchContext.current = _FALLBACK
