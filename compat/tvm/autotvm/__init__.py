"""tvm.autotvm: templates, spaces, tuners and logs by TVM's names, over tilewright.autotune."""

from __future__ import annotations

from . import callback, measure, record, task, tuner
from .history import ApplyHistoryBest, apply_history_best
from .measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    RPCRunner,
    create_measure_batch,
    measure_option,
)
from .task import (
    ApplyConfig,
    ApplyFixedConfig,
    ConfigEntity,
    ConfigSpace,
    DispatchContext,
    FallbackConfigEntity,
    FallbackContext,
    get_config,
    register_topi_compute,
    register_topi_schedule,
    template,
)
from .task.space import InstantiationError
from .tuner import GATuner, GridSearchTuner, RandomTuner, XGBTuner

_ELSEWHERE = {
    "ApplyGraphBest": "autotvm.apply_history_best(log) holds the best of each workload",
    "graph_tuner": "layouts are chosen by the operators' own schedules: tilewright.topi.schedule(outputs)",
    "tophub": "topi.schedule(outputs) chooses for the machine; logs of your own are read by autotvm.apply_history_best",
}


def __getattr__(name: str) -> object:
    hint = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


__all__ = [
    "ApplyConfig",
    "ApplyFixedConfig",
    "ApplyHistoryBest",
    "ConfigEntity",
    "ConfigSpace",
    "DispatchContext",
    "FallbackConfigEntity",
    "FallbackContext",
    "GATuner",
    "GridSearchTuner",
    "InstantiationError",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "RPCRunner",
    "RandomTuner",
    "XGBTuner",
    "apply_history_best",
    "callback",
    "create_measure_batch",
    "get_config",
    "measure",
    "measure_option",
    "record",
    "register_topi_compute",
    "register_topi_schedule",
    "task",
    "template",
    "tuner",
]
