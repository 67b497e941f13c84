"""tvm.autotvm.task."""

from __future__ import annotations

from importlib import import_module

from . import dispatcher, space, task, topi_integration
from .dispatcher import ApplyConfig, ApplyFixedConfig, DispatchContext, FallbackContext
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity
from .task import Task, args_to_workload, compute_flop, create, deserialize_args, get_config, serialize_args, template
from .topi_integration import get_workload, register_topi_compute, register_topi_schedule

__all__ = [
    "ApplyConfig",
    "ApplyFixedConfig",
    "ConfigEntity",
    "ConfigSpace",
    "DispatchContext",
    "FallbackConfigEntity",
    "FallbackContext",
    "Task",
    "args_to_workload",
    "compute_flop",
    "create",
    "deserialize_args",
    "dispatcher",
    "get_config",
    "get_workload",
    "register_topi_compute",
    "register_topi_schedule",
    "serialize_args",
    "space",
    "task",
    "template",
    "topi_integration",
    "ApplyHistoryBest",  # pyright: ignore[reportUnsupportedDunderAll]
    "apply_history_best",  # pyright: ignore[reportUnsupportedDunderAll]
]


def __getattr__(name: str) -> object:
    if name in ("ApplyHistoryBest", "apply_history_best"):  # they know logs, and logs know tasks
        return getattr(import_module("..history", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
