"""tvm.autotvm.task."""

from __future__ import annotations

from . import dispatcher, space, task, topi_integration
from .dispatcher import ApplyConfig, ApplyFixedConfig, ApplyHistoryBest, DispatchContext, FallbackContext, apply_history_best
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity
from .task import Task, args_to_workload, compute_flop, create, deserialize_args, get_config, serialize_args, template
from .topi_integration import get_workload, register_topi_compute, register_topi_schedule

__all__ = [
    "ApplyConfig", "ApplyFixedConfig", "ApplyHistoryBest", "ConfigEntity", "ConfigSpace", "DispatchContext",
    "FallbackConfigEntity", "FallbackContext", "Task", "apply_history_best", "args_to_workload", "compute_flop", "create",
    "deserialize_args", "dispatcher", "get_config", "get_workload", "register_topi_compute", "register_topi_schedule",
    "serialize_args", "space", "task", "template", "topi_integration",
]
