"""tvm.autotvm: templates, spaces, tuners and logs by TVM's names, over tilewright.autotune."""

from __future__ import annotations

from . import callback, measure, record, task, tuner
from .measure import (
    LocalBuilder, LocalRunner, MeasureErrorNo, MeasureInput, MeasureResult, RPCRunner, create_measure_batch, measure_option,
)
from .task import (
    ApplyConfig, ApplyFixedConfig, ApplyHistoryBest, ConfigEntity, ConfigSpace, DispatchContext, FallbackConfigEntity,
    FallbackContext, apply_history_best, get_config, register_topi_compute, register_topi_schedule, template,
)
from .task.space import InstantiationError
from .tuner import GATuner, GridSearchTuner, RandomTuner, XGBTuner

__all__ = [
    "ApplyConfig", "ApplyFixedConfig", "ApplyHistoryBest", "ConfigEntity", "ConfigSpace", "DispatchContext",
    "FallbackConfigEntity", "FallbackContext", "GATuner", "GridSearchTuner", "InstantiationError", "LocalBuilder", "LocalRunner",
    "MeasureErrorNo", "MeasureInput", "MeasureResult", "RPCRunner", "RandomTuner", "XGBTuner", "apply_history_best", "callback",
    "create_measure_batch", "get_config", "measure", "measure_option", "record", "register_topi_compute",
    "register_topi_schedule", "task", "template", "tuner",
]
